"""Whether code asks for the mesh while it is traced: a program that does not is the same on every mesh.

In auto mode a program is one of whole arrays. Where the code of a side never looks at the mesh, the program that is
traced without one is that of every mesh, whatever the number of devices.
"""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from samebits.interpret.equation import is_machinery, short

_PLAIN = ("axis_names", "axis_sizes", "axis_types", "devices", "size")
"""What meshes keep as plain attributes, which are read without a call."""


@contextmanager
def mesh_queries() -> Iterator[list[str]]:
    """Collect the lines of user code that ask jax for a mesh, or about one, about devices or about processes.

    Nothing that such code asked before is remembered: caches of jax, of `functools` and of meshes are emptied. To pass
    a sharding on is not a query: in auto mode it says the same on every mesh.
    """
    places: list[str] = []
    modules = _files(AbstractMesh, NamedSharding, jax.devices, jax.sharding.get_mesh)
    thread = threading.get_ident()

    def note(caller: FrameType | None) -> None:
        if threading.get_ident() != thread:
            return  # programs are compiled in others meanwhile
        while caller is not None and caller.f_code.co_filename == functools.__file__:
            caller = caller.f_back  # of a cached property
        if caller is not None and not is_machinery(caller.f_code.co_filename):
            places.append(f"{short(caller.f_code.co_filename)}:{caller.f_lineno}")

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename in modules:
            note(frame.f_back)

    _forget()
    before = sys.getprofile()
    for kind in (Mesh, AbstractMesh):
        for name in _PLAIN:
            if name not in vars(kind):
                setattr(kind, name, _Watched(name, note))
    sys.setprofile(watch)
    try:
        yield places
    finally:
        _restore_profiler(before)
        for kind in (Mesh, AbstractMesh):
            for name in _PLAIN:
                if isinstance(vars(kind).get(name), _Watched):
                    delattr(kind, name)


def _restore_profiler(before: Any) -> None:
    """Restore the profiler of this thread; `cProfile` registers an object that `sys.setprofile` does not accept."""
    sys.setprofile(before if callable(before) else None)
    if before is not None and not callable(before):
        before.enable()


class _Watched:
    """An attribute of instances whose readers are noted.

    Args:
        name: of the attribute.
        note: is called with the frame that reads it.
    """

    def __init__(self, name: str, note: Callable[[FrameType | None], None]) -> None:
        self._name, self._note = name, note

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        frame = inspect.currentframe()
        self._note(frame and frame.f_back)
        try:
            return vars(instance)[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value


def _files(*names: Callable[..., Any]) -> frozenset[str]:
    """The files in which these are written."""
    return frozenset(inspect.getfile(inspect.unwrap(name)) for name in names)


def _forget() -> None:
    """Empty the caches behind which a question for the mesh is not asked again.

    jax keeps the programs of functions that it has traced, `functools` the results of the user's, and a mesh its
    properties.
    """
    jax.clear_caches()
    caches = type(_cached)
    kinds = {caches, Mesh, AbstractMesh, *Mesh.__subclasses__(), *AbstractMesh.__subclasses__()}
    for thing in [thing for thing in gc.get_objects() if type(thing) in kinds]:
        if type(thing) is caches:
            code = getattr(inspect.unwrap(thing), "__code__", None)
            if code is not None and not is_machinery(code.co_filename):
                thing.cache_clear()
        else:
            kind: type = type(thing)
            for name in _cached(kind):
                vars(thing).pop(name, None)


@functools.cache
def _cached(kind: type) -> tuple[str, ...]:
    """The cached properties of a class."""
    classes = [vars(base).items() for base in kind.__mro__]
    return tuple(name for own in classes for name, value in own if isinstance(value, functools.cached_property))
