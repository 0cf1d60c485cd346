"""What is installed: its folders, its distributions with their versions, and which files belong to it."""

from __future__ import annotations

import functools
import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# Where this package lies on disk.
PACKAGE = Path(__file__).resolve().parents[1]
"""The folder `samebits`; its parent is what Python's path must hold."""

CARRIED = PACKAGE / "builtin"
"""The pairs that an installed package carries as data; in a repository there is no such folder."""


def builtin_tree() -> Path:
    """Return the folder of the pairs that samebits brings along: this repository's own, or an installed package's."""
    repository = PACKAGE.parents[1]
    return repository if repository / "harness" / "samebits" == PACKAGE else CARRIED


NAMES = ("site-packages", "dist-packages")
"""Folders of distributions, also in an environment that is only on Python's path."""

_NOT_WRITTEN = (*NAMES, "node_modules", "__pycache__", "build")

_RECORDS = ("RECORD", "METADATA", "direct_url.json", "PKG-INFO", "SOURCES.txt")
"""Files of a distribution that say its version and what is in its files."""


@functools.cache
def installed_folders() -> tuple[str, ...]:
    """Return the folders of Python's own library and of distributions, absolute, each with a separator at its end."""
    folders = {path for name, path in sysconfig.get_paths().items() if name not in ("scripts", "data", "include")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    folders |= {os.path.dirname(os.__file__), os.path.realpath(os.path.dirname(os.__file__))}
    return tuple(sorted({os.path.join(form, "") for path in folders for form in (path, os.path.realpath(path))}))


@functools.lru_cache(maxsize=65536)
def is_installed(path: str) -> bool:
    """Return whether a file belongs to Python or to a distribution, so that its version stands for its content.

    Files of samebits itself do, whether installed or in a repository, but not the pairs that it brings along.
    """
    if path.startswith(str(CARRIED)):
        return False
    if path.startswith((*installed_folders(), str(PACKAGE) + os.sep)):
        return True
    return any(f"{os.sep}{name}{os.sep}" in path for name in NAMES)


def distributions_digest() -> str:
    """Return a digest of every installed distribution: name, version, and the list of its files with their digests.

    Read from the folders on Python's path, without importing anything. A file that was edited in place after its
    installation is not seen, as pip does not see it.
    """
    digest = hashlib.sha256()
    for folder in dict.fromkeys(sys.path):
        digest.update(_in_folder(folder or os.getcwd()).encode())
    return digest.hexdigest()


def _in_folder(folder: str) -> str:
    """Return the distributions of one folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info", ".pth")))
    except OSError:  # a folder of the path that does not exist, or an archive
        return ""
    parts = []
    for name in names:
        parts.append(name)
        for record in _RECORDS if not name.endswith(".pth") else ("",):
            try:
                parts.append(hashlib.sha256(Path(folder, name, record).read_bytes()).hexdigest())
            except OSError:  # noqa: S112  not every distribution has each of them
                continue
    return " ".join(parts)


def own_digest(package: Path = PACKAGE) -> str:
    """Return a digest of the names and contents of samebits' own files, without compiled ones.

    The pairs that an installed package carries are sources of theirs.
    """
    digest = hashlib.sha256()
    for path in sorted(_files(package)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(package).as_posix()}\0{content}\0".encode())
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    files = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__" and Path(place, name) != CARRIED]
        files += [Path(place, name) for name in names if not name.endswith((".pyc", ".swp", "~"))]
    return files


def files_below(folder: Path) -> Iterator[str]:
    """Yield the files of a tree that are written by hand, in the same order everywhere.

    Left out are hidden folders, and those of what is installed or made.
    """
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_WRITTEN)
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        yield from (os.path.join(place, name) for name in sorted(names))
