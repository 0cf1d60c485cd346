"""Arrays that the function of a declaration makes: `Arg(values=lambda rng, shape: ...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.host.interrupts import Stop
from samebits.numerics import floats
from samebits.user_errors import one_line

Array = NDArray[Any]


def made_array(
    make: Callable[[np.random.Generator, tuple[int, ...]], Any],
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: str,
) -> Array:
    """The elements of an argument, made by a function of the user's.

    Args:
        make: the function.
        rng, shape: what it is given.
        dtype: of the argument.
        where: case and argument, for errors.

    Raises:
        DeclarationError: it raised, or its values are of another shape, do not fit into the dtype, or are constant.
    """
    try:
        array = np.asarray(make(rng, shape))
    except BaseException as error:  # `sys.exit()` is no `Exception`
        if Stop.caused(error):
            raise
        raise DeclarationError(f"{where}: its values function {one_line(error)}") from error
    if array.shape != shape:
        raise DeclarationError(f"{where}: its values function gave shape {array.shape}; expected {shape}")
    array = _cast(array, dtype, where)
    if floats.is_float(dtype) and array.size > 1 and np.all(floats.raw_bits(array) == floats.raw_bits(array).flat[0]):
        raise DeclarationError(
            f"{where}: its values function gave {array.size} equal values; they would hide a permutation"
        )
    return array


def _cast(array: Array, dtype: np.dtype[Any], where: str) -> Array:
    """The values in another dtype; floats are rounded, and integers are cut off.

    Raises:
        DeclarationError: the dtype has nothing like them.
    """
    wrong = f"{where}: its values function gave {array.dtype}"
    if np.iscomplexobj(array) and not floats.is_complex(dtype):
        raise DeclarationError(f"{wrong}; expected real numbers for {dtype.name}")
    exact = not floats.is_float(dtype) and not floats.is_complex(dtype) and dtype.kind != "b"
    if exact and floats.is_float(array.dtype) and not np.isfinite(array).all():
        raise DeclarationError(f"{wrong} with an infinity or a NaN, which {dtype.name} does not hold")
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{wrong}, which is not {dtype.name}: {error}") from error
