"""Puts the modules of a tree back to what they were: a planted fault must not reach the checks after it."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.host.installed import is_installed
from samebits.host.package import PACKAGE

_CONTAINERS = (dict, list, set)


@contextlib.contextmanager
def modules_as_before(root: Path) -> Iterator[None]:
    """Inside, code may change the modules of a tree; names, classes and containers are put back at the end.

    Args:
        root: the tree; modules loaded from its folder count, except installed ones and those beside this package.
    """
    spaces = list(_spaces(root))
    before = [(space, dict(vars(space))) for space in spaces]
    contents = {id(value): (value, value.copy()) for _, names in before for value in _containers(names)}
    try:
        yield
    finally:
        for space, names in before:
            _put_back(space, names)
        for value, content in contents.values():
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(content)


def _spaces(root: Path) -> Iterator[ModuleType | type]:
    """The loaded modules of a tree, and the classes that they define."""
    top = root.resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, ModuleType) and isinstance(file, str) and _is_theirs(file, str(top)):
            yield module
            yield from {
                value
                for value in vars(module).values()
                if isinstance(value, type) and value.__module__ == module.__name__
            }


@functools.lru_cache(maxsize=65536)
def _is_theirs(file: str, top: str) -> bool:
    path = Path(file)
    return Path(top) in path.parents and PACKAGE.parent not in path.parents and not is_installed(file)


def _containers(names: Mapping[str, Any]) -> Iterator[Any]:
    yield from (value for name, value in names.items() if type(value) in _CONTAINERS and not name.startswith("__"))


def _put_back(space: ModuleType | type, names: Mapping[str, Any]) -> None:
    now = dict(vars(space))
    for name in now.keys() - names.keys():
        delattr(space, name)
    for name, value in names.items():
        if name not in now or now[name] is not value:
            setattr(space, name, value)
