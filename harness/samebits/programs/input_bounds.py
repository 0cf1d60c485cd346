"""What values of inputs must be: integers in their declared bound or equal to what they must equal, floats finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.numerics import floats
from samebits.schema.case import Arg, Case
from samebits.schema.size_symbols import INDEX, symbols_in, value_of

Array = NDArray[Any]


def arg_below(arg: Arg, name: str, case: Case) -> int | None:
    """Return the number that all elements of an argument are below of, and at least 0; None where none is declared.

    Raises:
        DeclarationError: it names what is neither a size nor a static integer, or it is below 1.
    """
    if not isinstance(arg.below, str):
        return arg.below
    below: int = value_of(arg.below, _numbers(arg.below, f"argument '{name}' is below", case))
    if isinstance(below, int) and below < 1:
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' is below '{arg.below}', which is {below}; expected at least 1"
        )
    return below


def arg_equals(arg: Arg, name: str, case: Case, places: Mapping[str, Any]) -> Any:
    """Return what each element of an argument is, at these `places`; None where that is not declared.

    Raises:
        DeclarationError: it names what is not a size, a static integer or a place.
    """
    if not isinstance(arg.equals, str):
        return arg.equals
    taken = next((size for size in case.numbers if INDEX.fullmatch(size)), None)
    if taken is not None:
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' equals '{arg.equals}', and '{taken}' is a size; give the size "
            f"another name, as {taken} is the place along dimension {taken.removeprefix('index')}"
        )
    return value_of(arg.equals, {**_numbers(arg.equals, f"argument '{name}' equals", case), **places})


def equal_array(arg: Arg, name: str, shape: tuple[int, ...], dtype: Any, case: Case) -> Array:
    """Return all elements of an argument that equals something.

    Raises:
        DeclarationError: it names what is not a size, a static integer or a place, or the dtype does not hold it.
    """
    places = {f"index{axis}": index for axis, index in enumerate(np.indices(shape, np.int64, sparse=True))}
    values = np.broadcast_to(np.asarray(arg_equals(arg, name, case, places), np.int64), shape)
    array: Array = values.astype(dtype)
    if (array != values).any():
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' equals {arg.equals!r}, which is {values.min()} to {values.max()} and "
            f"does not fit into {np.dtype(dtype).name}"
        )
    return array


def _numbers(text: str, what: str, case: Case) -> dict[str, int]:
    """Return the numbers that an expression names.

    Raises:
        DeclarationError: a name is neither a size nor a static integer.
    """
    # Not `case.numbers`: a size that is a symbol is kept as it is.
    known: dict[str, Any] = {n: value for n, value in {**case.statics, **case.sizes}.items() if n in case.numbers}
    for symbol in symbols_in(text):
        if symbol not in known and not INDEX.fullmatch(symbol):
            which = "which" if symbol == text else f"and '{symbol}'"
            raise DeclarationError(
                f"case '{case.id}': {what} '{text}', {which} is neither a size nor a static "
                f"integer; expected {'one ' if symbol == text else ''}of {', '.join(known) or 'none'}"
            )
    return known


def check_values(arg: Arg, name: str, array: Array, case: Case) -> None:
    """Reject values that a declared bound or formula leaves out.

    Raises:
        DeclarationError: an element is negative or not below the bound, or another number than it has to be.
    """
    below = arg_below(arg, name, case)
    if below is not None and array.size and not (array.min() >= 0 and array.max() < below):
        raise DeclarationError(
            f"case '{case.id}': argument '{name}': its values are {array.min()} to {array.max()}; "
            f"expected them in [0, {below}), as below={arg.below!r} says"
        )
    if arg.equals is None:
        return
    expected = equal_array(arg, name, array.shape, array.dtype, case)
    for place in np.argwhere(array != expected)[:1]:
        index = tuple(int(number) for number in place)
        raise DeclarationError(
            f"case '{case.id}': argument '{name}': its element [{', '.join(map(str, index))}] is {array[index]}; "
            f"expected {expected[index]}, as equals={arg.equals!r} says"
        )


def check_finite(arrays: Mapping[str, Array], case: Case) -> None:
    """Reject floats of which none is finite: whatever computes with them gives infinities and NaNs on both sides.

    Raises:
        DeclarationError: there are floats, and all are infinite or NaN.
    """
    numbers = {name: array for name, array in arrays.items() if array.size and _inexact(array.dtype)}
    if numbers and not any(np.isfinite(array).any() for array in numbers.values()):
        raise DeclarationError(
            f"case '{case.id}': all elements of {' and '.join(map(repr, numbers))} are infinite or NaN, so that "
            "nothing would be compared; expected finite values (`special=` adds infinities and NaNs to them)"
        )


def _inexact(dtype: np.dtype[Any]) -> bool:
    return floats.is_float(dtype) or floats.is_complex(dtype)
