"""What two machines must have in common before results of both may stand in one document: versions and sources."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from samebits.host.accelerator import package_version
from samebits.host.environment import PACKAGES
from samebits.host.installed import PACKAGE, files_below

SUFFIXES = (".py", ".toml", ".yaml", ".yml")
"""Of files that declarations and implementations are written in, or read."""

MOST_FILES = 20_000
"""At most how many files of a folder are read, so that a home folder named by mistake ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineFingerprint:
    """Versions and sources of one machine.

    Args:
        versions: of Python and of packages; None where one is missing.
        files: digests by path: of samebits, and of the user's folders.
        missing: folders of the user's that do not exist.
    """

    versions: dict[str, str | None]
    files: dict[str, str]
    missing: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return a digest of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    def difference(self, other: MachineFingerprint) -> str | None:
        """Return the first thing that another machine has otherwise, in words; None where both are the same."""
        for name, version in self.versions.items():
            there = other.versions.get(name)
            if version != there:
                return f"it has {name} {there or '(none)'}, and this machine {version or '(none)'}"
        if other.missing:
            return f"the folder {other.missing[0]} does not exist there"
        for path in sorted({*self.files, *other.files}):
            if path not in other.files:
                return f"{path} does not exist there"
            if path not in self.files:
                return f"{path} exists there only"
            if self.files[path] != other.files[path]:
                return f"{path} has another content there"
        return None if self.digest() == other.digest() else "its folders are not those of this machine"


def fingerprint(folders: Sequence[str], package: Path = PACKAGE) -> MachineFingerprint:
    """Return the fingerprint of this machine; imports nothing of what it reads."""
    files = {f"samebits/{path.relative_to(package).as_posix()}": file_digest(path) for path in _sources(package)}
    missing = []
    for folder in dict.fromkeys(folders):
        if not os.path.isdir(folder):
            missing.append(folder)
            continue
        files.update({str(path): file_digest(path) for path in _sources(Path(folder))})
    versions = {
        "Python": platform.python_version(),
        **{name: package_version(name) for name in ("samebits", *PACKAGES)},
    }
    return MachineFingerprint(versions=versions, files=files, missing=tuple(missing))


def _sources(folder: Path) -> Iterator[Path]:
    sources = (Path(path) for path in files_below(folder) if path.endswith(SUFFIXES))
    return itertools.islice(sources, MOST_FILES)


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file, as far as it can be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:  # removed meanwhile, or a link that leads nowhere
        return "unreadable"
