"""`dot_general` as a batched matrix product, for arrays that may have axes of a domain's own in front."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import dot_general
from samebits.interpret.equation import Array, Step, Type
from samebits.numerics import floats


def matrix_form(step: Step, left: Array, right: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
    """The operands as `[..., batch, m, k]` and `[..., batch, k, n]`, and what makes the output of their product.

    Args:
        left, right: the operands; axes beyond those of the operand's type are in front and stay there.
    """
    (left_sum, right_sum), (left_batch, right_batch) = step.params["dimension_numbers"]
    a, left_free = _arranged(left, len(step.inputs[0].shape), left_batch, left_sum, last=True)
    b, right_free = _arranged(right, len(step.inputs[1].shape), right_batch, right_sum, last=False)
    batch = [step.inputs[0].shape[dim] for dim in left_batch]
    shape = (*batch, *left_free, *right_free)

    def finish(product: Array) -> Array:
        return product.reshape(product.shape[:-3] + shape)

    return a, b, finish


def length(step: Step) -> int:
    """How many products each output element of a `dot_general` adds up."""
    (axes, _), _ = step.params["dimension_numbers"]
    return math.prod([step.inputs[0].shape[axis] for axis in axes])


def _arranged(array: Array, rank: int, batch: Any, contracted: Any, *, last: bool) -> tuple[Array, list[int]]:
    """Batch axes first, the contracted ones last or right after the batch; each of the three folded into one axis."""
    lead = array.ndim - rank
    free = [dim for dim in range(rank) if dim not in (*batch, *contracted)]
    order = (*batch, *free, *contracted) if last else (*batch, *contracted, *free)
    moved = array.transpose([*range(lead), *(lead + dim for dim in order)])
    shape = array.shape[lead:]
    sizes = [math.prod([shape[dim] for dim in dims]) for dims in (batch, free, contracted)]
    middle = (sizes[0], sizes[1], sizes[2]) if last else (sizes[0], sizes[2], sizes[1])
    return moved.reshape(array.shape[:lead] + middle), [shape[dim] for dim in free]


# Products with one-hot matrices: which elements they select, and on which platforms they preserve them.
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
    """What a product picks; None where a row of the other operand is not a single one among zeros."""
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
