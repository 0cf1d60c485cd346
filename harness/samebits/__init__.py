"""samebits: two implementations of one component, compared bit for bit on every mesh.

The public names are listed in `__init__.pyi`. Each is loaded on first use, so that `import samebits` starts nothing.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
from pathlib import Path
from typing import Any

OLDEST = (3, 11)
"""The oldest Python that samebits runs on; pip knows it too, but a folder on PYTHONPATH needs no pip."""

if sys.version_info < OLDEST:
    _text = "samebits needs Python {}.{} or later, and {} is {}.{}.{}".format(
        *OLDEST, sys.executable, *sys.version_info[:3]
    )
    if sys.argv[:1] == ["-m"]:  # `python -m samebits`: one line; what imports samebits gets an exception
        sys.stderr.write(f"samebits: {_text}\n")
        raise SystemExit(2)
    raise ImportError(_text)


def _modules() -> dict[str, str]:
    """The module of each public name, as `__init__.pyi` lists them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports if node.module is not None for alias in node.names}


_MODULES = _modules()

__all__ = sorted(_MODULES)


class _Package(types.ModuleType):
    """This package, in which a public function keeps its name although a room has it too (`check`, `prove`)."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds each submodule to its name here once it is imported.
        if not (name in _MODULES and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'samebits' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
