"""Signs of items for `--resume`: they change with any source, package or setting that a result could depend on.

Coarse on purpose: after an edit anywhere in the tree everything runs again, and nothing is ever resumed wrongly.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samebits.bisect.result import PACKAGE, files_digest
from samebits.engine.run_work import Unremembered
from samebits.engine.work import Item
from samebits.host.environment import instruction_sets
from samebits.host.libtpu import package_version

_VARIABLES = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
_SKIPPED = ("site-packages", "dist-packages", "node_modules", "__pycache__", "build")
"""Folders whose files are installed or made, not written."""


class SourceSigns(Unremembered):
    """A store that signs items, and remembers nothing between runs.

    Args:
        tree: the tree of pairs, whose Python files count.
        request: what was asked for.
    """

    def __init__(self, tree: Path, request: Mapping[str, Any]) -> None:
        names = ("samebits", "jax", "jaxlib", "libtpu", "numpy", "ml_dtypes")
        parts = {
            "request": request,
            "samebits": files_digest(list(PACKAGE.rglob("*.py")), PACKAGE),
            "sources": _digest_of(sorted({*_written(tree.resolve()), *_loaded()})),
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


def _loaded() -> Iterator[Path]:
    """The files of modules that were imported and that are neither installed nor of samebits itself."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = Path(file) if isinstance(file, str) else None
        if path is None or PACKAGE in path.parents or {*_SKIPPED} & {*path.parts}:
            continue
        if not path.is_relative_to(sys.base_prefix) and path.is_file():
            yield path.resolve()


def _digest_of(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        try:
            digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        except OSError:  # a link to nowhere; what imports it fails anyway
            digest.update(f"{path} cannot be read\0".encode())
    return digest.hexdigest()
