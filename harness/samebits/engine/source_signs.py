"""Signs of items for `--resume`: they change with any source, package or setting that a result could depend on.

Coarse on purpose: after an edit anywhere in the tree everything runs again, and nothing is ever resumed wrongly.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.bisect.result import PACKAGE
from samebits.engine.run_work import Unremembered
from samebits.engine.work import Item
from samebits.host.environment import instruction_sets
from samebits.host.libtpu import package_version

_VARIABLES = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
_SKIPPED = ("site-packages", "dist-packages", "node_modules", "__pycache__", "build")
"""Folders whose files are installed or made, not written."""


@dataclass(frozen=True, slots=True)
class SignedSources:
    """Where the sources are that results depend on.

    Args:
        tree: the tree of pairs.
        checkout: a temporary folder with another revision, in another place in each run; the request names its commit.
    """

    tree: Path
    checkout: Path | None = None


class SourceSigns(Unremembered):
    """A store that signs items, and remembers nothing between runs.

    Args:
        tree: the tree of pairs, whose Python files count.
        request: what was asked for.
    """

    def __init__(self, tree: Path | SignedSources, request: Mapping[str, Any]) -> None:
        sources = tree if isinstance(tree, SignedSources) else SignedSources(tree)
        written = sorted(_written(sources.tree.resolve()))
        checkout = None if sources.checkout is None else sources.checkout.resolve()
        elsewhere = {file for file in _loaded() if checkout is not None and Path(file).is_relative_to(checkout)}
        names = ("samebits", "jax", "jaxlib", "libtpu", "numpy", "ml_dtypes")
        parts = {
            "request": request,
            "samebits": _known(sorted(map(str, PACKAGE.rglob("*.py")))),
            "loaded": _known(sorted(_loaded() - elsewhere - {*map(str, written)})),
            "sources": _digest_of(written),
            "versions": [sys.version, *(package_version(name) for name in names)],
            "processor": [platform.machine(), *instruction_sets()],
            "variables": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_VARIABLES)},
        }
        self._base = json.dumps(parts, sort_keys=True, default=str)

    def sign(self, item: Item) -> str:
        """A digest of everything that the rows of an item depend on."""
        return hashlib.sha256(f"{self._base} {item.key}".encode()).hexdigest()


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
