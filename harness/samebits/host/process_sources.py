"""What every result of a process depends on: sources, packages, settings; beside what was read meanwhile (`FileReads`).

Coarse on purpose: it changes with any source or setting that a result could depend on.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.host.libtpu import package_version
from samebits.host.package import PACKAGE
from samebits.host.processors import instruction_sets
from samebits.host.source_facts import facts_of

_VARIABLES = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "PYTHONPATH", "HOME")
_ENVIRONMENT = re.compile(rb"environ|getenv|expandvars")
"""What the text of a file has where it reads the environment; only those are parsed."""

_SKIPPED = ("site-packages", "dist-packages", "node_modules", "__pycache__", "build")
"""Folders whose files are installed or made, not written."""


@dataclass(frozen=True, slots=True)
class ProcessSources:
    """What every result of a process depends on, as it is now.

    Args:
        parts: digests of sources, versions and settings, to be digested as JSON.
        written: the Python files of the tree that count in `parts`, by their absolute paths.
    """

    parts: dict[str, Any]
    written: frozenset[str]


def sources_of_process(tree: Path) -> ProcessSources:
    """What every result of this process depends on.

    Args:
        tree: whose Python files count, whether they are loaded or not.
    """
    written = sorted(_written(tree.resolve()))
    names = ("samebits", "jax", "jaxlib", "libtpu", "numpy", "ml_dtypes", "flax", "optax")
    parts = {
        "samebits": _known(sorted(map(str, PACKAGE.rglob("*.py")))),
        "loaded": _known(sorted(_loaded() - {*map(str, written)})),
        "sources": _digest_of(written),
        "versions": [sys.version, *sys.warnoptions, *(package_version(name) for name in names)],
        "processor": [platform.machine(), *instruction_sets()],
        "variables": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_VARIABLES)},
        "variables read": _variables_read(_loaded(), map(str, written)),
    }
    return ProcessSources(parts, frozenset(map(str, written)))


def _variables_read(loaded: Iterable[str], written: Iterable[str]) -> dict[str, str | None]:
    """The environment variables that files read; all of them where one that is loaded passes the environment on.

    Others of the tree that do are not known to be used, and in most trees there is one.
    """
    facts = [facts_of(text) for file in loaded if _ENVIRONMENT.search(text := _bytes(file))]
    if any(each.whole_environment for each in facts):
        return dict(sorted(os.environ.items()))
    facts += [facts_of(text) for file in written if _ENVIRONMENT.search(text := _bytes(file))]
    return {name: os.environ.get(name) for each in facts for name in each.variables}


def _bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError:  # removed meanwhile
        return b""


def _written(tree: Path) -> Iterator[Path]:
    """The Python files of a tree, but for those of installed packages and hidden folders."""
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


def _loaded() -> set[str]:
    """The files of modules that were imported and that are neither installed nor of samebits itself."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {
        os.path.realpath(file) for file in files if isinstance(file, str) and _is_written(file) and os.path.isfile(file)
    }


@functools.lru_cache(maxsize=65536)
def _is_written(file: str) -> bool:
    path = Path(file)
    return not (PACKAGE in path.parents or {*_SKIPPED} & {*path.parts} or path.is_relative_to(sys.base_prefix))


def _digest_of(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        try:
            digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        except OSError:  # a link to nowhere; what imports it fails anyway
            digest.update(f"{path} cannot be read\0".encode())
    return digest.hexdigest()


def _known(files: list[str]) -> str:
    """As `_digest_of`, of files that hardly change while a process runs: read again where their state is another."""
    digest = hashlib.sha256()
    for file in files:
        state = os.stat(file)
        digest.update(f"{file}\0".encode() + _content(file, state.st_ino, state.st_size, state.st_ctime_ns))
    return digest.hexdigest()


@functools.lru_cache(maxsize=16384)
def _content(file: str, *_state: int) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()
