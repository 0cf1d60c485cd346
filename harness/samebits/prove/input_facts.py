"""What a declaration says of the numbers of an argument, for proofs and for the inputs that test them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.problem import Input, Magnitudes
from samebits.numerics import floats
from samebits.numerics.free_places import free_places
from samebits.programs.input_bounds import arg_below
from samebits.programs.inputs import is_key
from samebits.schema.case import Arg, Case
from samebits.schema.values import Given, Integers, Normal, Uniform

Array = NDArray[Any]


def input_of(name: str, arg: Arg, array: Array, case: Case) -> Input:
    """An argument as an input of a question; the parts of complex numbers lie along one more dimension."""
    values = floats.parts(array) if floats.is_complex(array.dtype) else array
    return Input(
        name,
        values,
        is_index_operand(arg, array),
        magnitudes(arg, values),
        integer_range(name, arg, array, case),
        between=(arg.values.low, arg.values.high) if isinstance(arg.values, Uniform) and arg.equals is None else None,
    )


def is_index_operand(arg: Arg, array: Array) -> bool:
    """Whether an argument is a routing: integers that the declaration gives values of their own."""
    return array.dtype.kind in "iub" and (arg.dtype is not None or isinstance(arg.values, Integers))


def magnitudes(arg: Arg, array: Array) -> Magnitudes:
    """What the declaration says of the numbers of an argument; an array that looks structured is taken at its word."""
    if isinstance(arg.values, Given):
        if array.dtype.kind in "iub":
            stated = arg.values.exactly or is_key(arg) or _looks_like_keys(array)
        else:
            stated = is_key(arg) or not (floats.is_float(array.dtype) and free_places(array).size)
        return "stated" if stated else "given"
    integers = isinstance(arg.values, Integers) and bool(arg.values.high - arg.values.low > 1 or arg.values.also)
    drawn = arg.values == Normal() or integers
    return "all" if drawn and arg.equals is None and not is_key(arg) else "stated"


def _looks_like_keys(array: Array) -> bool:
    """Whether an array may be of the words of random keys."""
    return array.dtype == np.uint32 and array.ndim > 0 and array.shape[-1] in (2, 4)


def integer_range(name: str, arg: Arg, array: Array, case: Case) -> tuple[int, int] | None:
    """The smallest and the largest integer that an argument may hold; None of floats."""
    if array.dtype.kind not in "iub":
        return None
    if array.dtype.kind == "b" and not isinstance(arg.values, Integers):
        return 0, 1
    if isinstance(arg.values, Integers):
        numbers = arg.values.low, arg.values.high - 1, *arg.values.also
        return min(numbers), max(numbers)
    below = arg_below(arg, name, case)
    if below is not None:
        return 0, below - 1
    info = np.iinfo(array.dtype)
    return int(info.min), int(info.max)
