"""Products with one-hot matrices: which elements they select, and on which platforms they preserve them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import dot_general
from samebits.interpret.equation import Array, Step, Type
from samebits.numerics import floats

_SHORT = 8
"""The digits of bfloat16, which every matrix unit keeps."""


class OneHotProduct(NamedTuple):
    """What a product picks.

    Args:
        elements: all elements that are multiplied, by one or by zero.
        result: those that are multiplied by one, in the order of the product's matrix form.
        length: how many products each one is the sum of.
        finish: makes the output of the matrix form.
    """

    elements: Array
    result: Array
    length: int
    finish: Callable[[Array], Array]


def picked(step: Step, left: Array, right: Array, moved: int) -> OneHotProduct | None:
    """What a product picks; None where a row of the other operand is not a single one among zeros.

    Args:
        step: a `dot_general`.
        left, right: the operands.
        moved: which of them is moved, 0 or 1.
    """
    a, b, finish = dot_general.matrix_form(step, np.asarray(left), np.asarray(right))
    hot, elements = (b.swapaxes(-1, -2), a) if moved == 0 else (a, b.swapaxes(-1, -2))
    if not (np.all((hot == 0) | (hot == 1)) and np.all((hot == 1).sum(-1) == 1)):
        return None
    result = np.take_along_axis(elements[..., None, :, :], (hot == 1).argmax(-1)[..., :, None, None], -1)[..., 0]
    return OneHotProduct(elements, result.swapaxes(-1, -2) if moved == 0 else result, hot.shape[-1], finish)


def is_short_format(dtype: np.dtype[Any]) -> bool:
    """Whether every matrix unit keeps all numbers of a dtype, which integers and booleans are."""
    return not floats.is_float(dtype) or floats.digits(dtype) <= _SHORT


def is_short(values: Array) -> bool:
    """Whether every matrix unit keeps all of these numbers, as bfloat16 holds each of them."""
    return bool(np.array_equal(values, values.astype(ml_dtypes.bfloat16).astype(values.dtype), equal_nan=True))


def only_here(step: Step, kind: Type, platform: str | None) -> bool:
    """Whether a product keeps the elements that it picks here, and would not do so on every platform.

    A TPU takes float32 as one piece of bfloat16 or more, a GPU as TensorFloat-32, unless set otherwise; a CPU whole.

    Args:
        step: a `dot_general`.
        kind: of the elements.
        platform: where it runs; None for a CPU.

    Raises:
        NotCovered: it does not keep them here, or asks for an algorithm by name.
    """
    if is_short_format(kind.dtype):
        return False
    precision = step.params.get("precision")
    names = [getattr(choice, "name", choice) for choice in (precision if type(precision) is tuple else [precision])]
    if not all(name in (None, "DEFAULT", "HIGH", "HIGHEST") for name in names):
        raise NotCovered(f"{step} asks for the algorithm {precision}, which need not keep {kind.dtype.name}")
    if all(name == "HIGHEST" for name in names):
        return False
    if platform not in (None, "cpu"):
        raise NotCovered(
            f"{step} is a product with a one-hot matrix, which on {platform} keeps {kind.dtype.name} with precision "
            "HIGHEST only"
        )
    return True
