"""Notes who calls certain functions while code is traced, at no cost to calls of any other function.

The code objects of these functions are replaced meanwhile. A profiler, which runs at every call of every function, made
tracing take 2.7 times as long.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

_PLACE = "where calls are noted"
Note = Callable[[FrameType, FunctionType], None]
"""Called for each call that is noted, with the frame of the caller and the function."""


class WatchedFunctions:
    """The functions and methods of loaded modules, whatever wraps them; not those defined inside of other functions.

    Their code is replaced and not their names, so that calls by who imported them before are noted too.

    Args:
        files: of the modules, as in `__file__`.
    """

    def __init__(self, files: Collection[str]) -> None:
        modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None) in files]
        functions = {id(function): function for module in modules for function in _of(vars(module).values(), files)}
        self._functions = tuple(functions.values())
        self._originals = tuple(map(_copy, self._functions))
        self._replacements = [_replacement(function, number, self) for number, function in enumerate(self._functions)]
        self._note: Note = lambda caller, function: None
        self._ignores: Callable[[str], bool] = lambda file: True

    @contextmanager
    def noting(self, note: Note, ignores: Callable[[str], bool]) -> Iterator[None]:
        """Inside, calls of the functions are noted, in any thread; what they do and return is unchanged.

        Args:
            note: called for each call that is noted.
            ignores: whether calls from a file are not noted; called at each call, so it must be fast.
        """
        before, codes = (self._note, self._ignores), [function.__code__ for function in self._functions]
        self._note, self._ignores = note, ignores
        _replace(self._functions, self._replacements)
        try:
            yield
        finally:
            _replace(self._functions, codes)
            self._note, self._ignores = before

    def original(self, number: int) -> FunctionType:
        """Note a call, and return the function as it was; replaced code calls this."""
        function = self._originals[number]
        try:
            caller = sys._getframe(2)
        except ValueError:  # called from C++, without a Python frame
            return function
        if not self._ignores(caller.f_code.co_filename):
            self._note(caller, function)
        return function


def _replace(functions: Sequence[FunctionType], codes: Sequence[CodeType]) -> None:
    for function, code in zip(functions, codes, strict=True):
        function.__code__ = code


def _of(values: Iterable[Any], files: Collection[str]) -> Iterator[FunctionType]:
    """The functions of files among values, in what wraps them, and in classes, whatever module these name as theirs."""
    for value in values:
        for function in _unwrapped(value):
            if function.__code__.co_filename in files:
                yield function
        if isinstance(value, type):
            yield from _of([inner for inner in vars(value).values() if not isinstance(inner, type)], files)


def _unwrapped(value: Any) -> Iterator[FunctionType]:
    """The functions that a value of a namespace consists of, or calls: as of a property or a decorated function."""
    if isinstance(value, property):
        inner = [value.fget, value.fset, value.fdel]
    elif isinstance(value, functools.cached_property):
        inner = [value.func]
    elif isinstance(value, staticmethod | classmethod):
        inner = [value.__func__]
    elif isinstance(value, FunctionType):
        yield value
        inner = [
            vars(value).get("__wrapped__"),
            *(cell.cell_contents for cell in value.__closure__ or () if _has(cell)),
        ]
    elif callable(value) and not isinstance(value, type):  # caches, also those that are written in C++
        inner = [thing for thing in gc.get_referents(value) if isinstance(thing, FunctionType)]
    else:
        return
    for function in inner:
        yield from _unwrapped(function)


def _has(cell: types.CellType) -> bool:
    """Whether a free variable of a function is a function."""
    try:
        return isinstance(cell.cell_contents, FunctionType)
    except ValueError:  # it is empty
        return False


def _copy(function: FunctionType) -> FunctionType:
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    return copy


def _replacement(function: FunctionType, number: int, watched: WatchedFunctions) -> CodeType:
    """Code that notes a call and calls the function as it was: of the same file, so that jax skips its frame too."""
    code = function.__code__
    # A function retains its closure: code can be replaced only by code with as many free variables.
    closed = ", ".join(code.co_freevars)
    lines = [
        f"def outer({closed}):",
        "    def inner(*args, **kwargs):",
        f"        return {_PLACE!r}.original({number})(*args, **kwargs)",
        f"        ({closed},)" if closed else "",
        "    return inner",
    ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), code.co_filename, "exec"), namespace)
    inner: CodeType = namespace["outer"](*code.co_freevars).__code__
    return inner.replace(
        # As a constant it needs no name in the modules of jax; an import would run at each call.
        co_consts=tuple(watched if constant == _PLACE else constant for constant in inner.co_consts),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )
