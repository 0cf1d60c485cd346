"""`dot_general` as a batched matrix product, for arrays that may have axes of a domain's own in front."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from samebits.interpret.equation import Array, Step


def matrix_form(step: Step, left: Array, right: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
    """The operands as `[..., batch, m, k]` and `[..., batch, k, n]`, and what makes the output of their product.

    Args:
        step: a `dot_general`.
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
