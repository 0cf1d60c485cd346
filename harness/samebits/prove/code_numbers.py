"""The integers in the code of functions: sizes next to these are where code may do otherwise."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from samebits.prove.size_operators import is_of_code

LARGEST_TABLE = 32
"""The most entries of a table whose integers code may compare with sizes."""

NESTED = 4
"""How deep functions within functions are searched for numbers."""


def numbers_in(function: Any, depth: int = NESTED) -> set[int]:
    """The integers that stand in the code of a function and of the functions of its own module that it names."""
    numbers: set[int] = set()
    seen: dict[int, Any] = {}
    level = [function]
    for _ in range(depth):
        named: list[Any] = []
        while level:
            function = level.pop()
            if id(function) in seen:
                continue
            seen[id(function)] = function
            level += _parts(function)  # of one level: they are what is called
            function = inspect.unwrap(function)
            code = getattr(function, "__code__", None)
            if isinstance(code, types.CodeType):
                for value in _values_of(function, code):
                    if callable(value) and not isinstance(value, type):
                        named.append(value)
                    else:
                        numbers |= _of_value(value)
                numbers |= _of_code(code) if is_of_code(code, function.__globals__) else set()
        level = named
    return numbers


def _parts(function: Any) -> list[Any]:
    """The functions that an object calls: a part of one, one on a mesh, one with rules of its own for gradients."""
    if isinstance(function, functools.partial):
        return [value for value in (function.func, *function.args, *function.keywords.values()) if callable(value)]
    if isinstance(function, types.FunctionType | types.MethodType | types.BuiltinFunctionType | type):
        return []
    slot = getattr(function, "function", None)
    return [part for part in (slot, *getattr(function, "__dict__", {}).values()) if callable(part)]


def _values_of(function: Any, code: types.CodeType) -> list[Any]:
    """What the code of a function names: what it closes over, and the user's globals."""
    values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    if is_of_code(code, function.__globals__):
        values += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    return values


def _of_value(value: Any) -> set[int]:
    """The integers of a number or of a small table that code names."""
    if isinstance(value, tuple | list | set | frozenset | dict):
        return {number for inner in value for number in _of_value(inner)} if len(value) <= LARGEST_TABLE else set()
    return {value} if isinstance(value, int) and not isinstance(value, bool) else set()


def _of_code(code: types.CodeType) -> set[int]:
    numbers: set[int] = set()
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            numbers |= _of_code(value)
        values = value if isinstance(value, tuple | frozenset) else (value,)
        numbers |= {number for number in values if isinstance(number, int) and not isinstance(number, bool)}
    return numbers


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # of a function that is defined further down
        return False
    return True
