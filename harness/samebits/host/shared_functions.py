"""What the functions of loaded modules stand for: a module that replaces one while it is imported decides other pairs.

Of jax the public modules count, and of the user's all, with the methods of their classes; only what was loaded before.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from samebits.host.installed import is_installed


class SharedFunctions:
    """The functions and methods of all modules that are loaded now."""

    def __init__(self) -> None:
        self._owners: list[tuple[str, Any, dict[str, Any]]] = []
        for name, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType) or not _counts(name, module):
                continue
            names = _callables(vars(module))
            self._owners.append((name, module, names))
            self._owners += [
                (f"{name}.{kind.__qualname__}", kind, _callables(vars(kind)))
                for kind in names.values()
                if isinstance(kind, type) and kind.__module__ == name
            ]

    def put_back(self) -> list[str]:
        """Put back what stands for something else now, and say what that is, in words."""
        return [f"what {text} stands for" for text in self._changed()]

    def _changed(self) -> Iterator[str]:
        for owner, thing, names in self._owners:
            now = vars(thing)
            for name in [name for name, value in names.items() if now.get(name) is not value]:
                if isinstance(now.get(name), types.ModuleType):
                    continue  # of the name of a function in its package: importing it binds the name
                setattr(thing, name, names[name])
                yield f"{owner}.{name}"


def _callables(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """By name, what can be called; methods of all kinds."""
    return {
        name: value
        for name, value in list(namespace.items())
        if callable(value) or isinstance(value, staticmethod | classmethod | property)
    }


def _counts(name: str, module: types.ModuleType) -> bool:
    if name == "jax" or name.startswith("jax."):
        return "._" not in name
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and name != "__main__" and not is_installed(file)
