"""What traced code asks of a symbolic size: jax's sizes note each comparison and each reading while a family is traced.

A comparison has other answers at some sizes (`comparisons.py`). A reading is all else where a symbol is not the
integer that it stands for: its hash, its text, its class, a conversion to a number, an operation on bits, an attribute
of integers. What code does with the integer is then not seen, also where it catches the error that the symbol raises.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np
from jax import export
from jax.errors import InconclusiveDimensionOperation

from samebits.host.installed import CARRIED, PACKAGE
from samebits.interpret.equation import short
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.proofs.comparisons import Comparisons, SizeComparison


@contextmanager
def comparisons(
    lowest: Mapping[str, int], answers: Mapping[Polynomial, bool] | None = None
) -> Iterator[list[SizeComparison]]:
    """Collect the undecided comparisons of traced code, and what it reads of sizes.

    Args:
        lowest: by symbol, its smallest value.
        answers: by polynomial, whether code gets the answer that it is at least 0.
    """
    record = Comparisons(lowest, answers or {})
    if not lowest:
        yield record.seen
        return
    kind: Any = type(export.symbolic_shape("size")[0])
    changed = {**_readings(kind, record), **_operators(kind, record)}
    kept = {name: vars(kind).get(name) for name in changed}
    for name, operator in changed.items():
        setattr(kind, name, operator)
    try:
        yield record.seen
    finally:
        for name, own in kept.items():
            if own is None:
                delattr(kind, name)
            else:
                setattr(kind, name, own)


_ORDER = {"__ge__": (False, False), "__le__": (True, False), "__gt__": (True, True), "__lt__": (False, True)}
"""By operator, whether it asks `first >= second` with its operands swapped, and whether it turns the answer round."""


def _operators(kind: Any, record: Comparisons) -> dict[str, Callable[..., Any]]:
    """Return the comparisons of jax's sizes, which note what they are asked."""
    compare, module = kind.__eq__, inspect.getfile(kind)

    def recorded(self: Any, other: Any) -> Any:
        answer = compare(self, other)
        if answer is False and (export.is_symbolic_dim(other) or not isinstance(other, _NO_NUMBERS)):
            caller = _caller(__file__, module)
            if caller is not None and _is_size(other):
                record.different(self, other, _place(caller))
            elif caller is not None:
                record.add(SizeComparison(None, _place(caller), f"{self} and {type(other).__name__}"))
        return answer

    def is_not_zero(self: Any) -> bool:
        # jax says nothing of truth, and to Python every object is true: `if n % 2:` would hold for all sizes.
        return bool(self != 0)

    def ordered(original: Callable[..., Any], swapped: bool, turned: bool) -> Callable[..., Any]:
        def compared(self: Any, other: Any) -> Any:
            try:
                return original(self, other)
            except InconclusiveDimensionOperation:
                caller = _caller(__file__, module)
                if caller is None:
                    raise
                place = _place(caller)
                if not _is_size(other):
                    record.add(SizeComparison(None, place, f"{self} and {type(other).__name__}"))
                    raise
                answer = record.at_least(*((other, self) if swapped else (self, other)), place)
                if answer is None:
                    record.add(SizeComparison(None, place, f"{self} and {other}"))
                    raise
                return answer != turned

        return compared

    order = {name: ordered(getattr(kind, name), *how) for name, how in _ORDER.items()}
    return {"__eq__": recorded, "__bool__": is_not_zero, **order}


_NO_NUMBERS = (type(None), str, bytes, tuple, list, dict, set, frozenset, slice, type, type(Ellipsis))
"""What no size is equal to, as a number or as a symbol."""

_AS_NUMBER = ("index", "float", "complex", "round", "trunc", "floor", "ceil", "abs", "invert")
_OF_BITS = ("and", "or", "xor", "lshift", "rshift")


def _readings(kind: Any, record: Comparisons) -> dict[str, Callable[..., Any]]:
    """Return what else distinguishes a symbol from an integer, noted; each has the result that it has without."""
    hashed, text, as_integer, inherited = kind.__hash__, kind.__str__, kind.__int__, kind.__getattribute__

    def note(what: str, size: Any) -> None:
        caller = _caller(__file__)
        if caller is not None:  # jax itself asks all the time, and a text takes longer than what it asks
            record.add(SizeComparison(None, _place(caller), what.format(text(size))))

    def looked_up(self: Any) -> int:
        note("the hash of {}", self)
        return int(hashed(self))

    def written(self: Any) -> str:
        note("the text of {}", self)
        return str(text(self))

    def converted(self: Any) -> int:
        note("int({})", self)
        return int(as_integer(self))

    def attribute(self: Any, name: str) -> Any:
        if name == "__class__":  # for which `isinstance` asks
            note("the class of {}", self)
        return inherited(self, name)

    def missing(self: Any, name: str) -> Any:
        if hasattr(int, name):  # numpy asks any object for more
            note(f"the attribute {name} of {{}}", self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def no_number(name: str) -> Callable[..., Any]:
        def operator(self: Any, *more: Any) -> Any:
            note(f"{name}({{}})", self)
            raise TypeError(f"{name}({text(self)}): a symbolic size is not a number")

        return operator

    def no_bits(name: str) -> Callable[..., Any]:
        def operator(self: Any, other: Any) -> Any:
            note("the bits of {}", self)
            return NotImplemented

        return operator

    return {
        "__hash__": looked_up,
        "__str__": written,
        "__repr__": written,
        "__int__": converted,
        "__getattribute__": attribute,
        "__getattr__": missing,
        **{f"__{name}__": no_number(name) for name in _AS_NUMBER},
        **{f"__{side}{name}__": no_bits(name) for name in _OF_BITS for side in ("", "r")},
    }


def _caller(*passed: str) -> FrameType | None:
    """Return the frame that asks, outside of some files; None where it is jax's, or NumPy's that jax calls."""
    frame = inspect.currentframe()
    while frame is not None and (frame.f_code.co_filename in passed or frame.f_code.co_filename.startswith(_NUMPY)):
        frame = frame.f_back
    return frame if frame is not None and is_of_code(frame.f_code, frame.f_globals) else None


def is_of_code(code: CodeType, names: Mapping[str, Any]) -> bool:
    """Tell whether Python code is a user's or a library's, whose comparisons count, not jax's nor this package's.

    Global names show whose code it is where it was compiled from a text.
    """
    file = code.co_filename
    # A method of a dataclass has no file, and the names of its module; an interactive session has none at all.
    return not _is_tracing(str(names.get("__file__") or file) if file.startswith("<") else file)


@functools.cache
def _is_tracing(file: str) -> bool:
    """Tell whether a file is of jax or of this package."""
    return file.startswith(_TRACING) and not file.startswith(f"{CARRIED}{os.sep}")


_NUMPY = f"{os.path.dirname(np.__file__)}{os.sep}"
_TRACING = tuple(f"{folder}{os.sep}" for folder in (PACKAGE, os.path.dirname(jax.__file__)))


def _is_size(value: Any) -> bool:
    return export.is_symbolic_dim(value) or isinstance(value, int | float | np.number)


def _place(frame: FrameType) -> str:
    return f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"
