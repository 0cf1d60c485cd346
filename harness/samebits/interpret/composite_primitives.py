"""Primitives that are computed by others: a ragged matrix product is one plain product per group of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.domain import InterpreterProtocol
from samebits.interpret.equation import Step, Type

Value = Any


def _ragged_dot_general(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """Rows of one group meet the matrix of this group, or, where the rows are summed over, make one for it.

    Source: `jax.lax.ragged_dot_general`, modes 1 and 2; group `g` has `sizes[g]` rows, the groups lie end to end.
    """
    left, right, sizes = values[:3]
    numbers = step.params["ragged_dot_dimension_numbers"]
    (left_sum, right_sum), batch = numbers.dot_dimension_numbers
    (rows,) = numbers.lhs_ragged_dimensions
    if len(values) > 3 or step.params.get("group_offset") is not None:
        raise NotCovered(f"{step}: only ragged products without group offsets are covered")
    if batch[0]:
        return [_batched(interpreter, step, left, right, interpreter.domain.concrete(step, sizes))]
    lengths = [int(size) for size in interpreter.domain.concrete(step, sizes)]
    if sum(lengths) > step.inputs[0].shape[rows]:
        raise NotCovered(f"{step}: the groups have {sum(lengths)} rows, more than there are")
    starts = np.concatenate([[0], np.cumsum(lengths)])
    pieces = []
    for group, length in enumerate(lengths):
        mine = _cut(interpreter, left, step.inputs[0], rows, int(starts[group]), length)
        if rows in left_sum:  # the rows are summed over: one matrix for each group
            other = right_sum[left_sum.index(rows)]
            theirs = _cut(interpreter, right, step.inputs[1], other, int(starts[group]), length)
            sums = (left_sum, right_sum)
        else:
            (chosen,) = numbers.rhs_group_dimensions
            theirs = _cut(interpreter, right, step.inputs[1], chosen, group, 1, squeeze=True)
            sums = (left_sum, tuple(dim - (dim > chosen) for dim in right_sum))
        pieces.append(_dot(interpreter, step, mine, theirs, sums))
    return [_together(interpreter, step, pieces, rows in left_sum)]


def _batched(interpreter: InterpreterProtocol, step: Step, left: Value, right: Value, sizes: Any) -> Value:
    """A product with batch dimensions: one without the first of them for each of its numbers."""
    numbers = step.params["ragged_dot_dimension_numbers"]
    (left_sum, right_sum), (left_batch, right_batch) = numbers.dot_dimension_numbers
    (a, *rest_a), (b, *rest_b) = left_batch, right_batch

    def without(gone: int, dimensions: Sequence[int]) -> tuple[int, ...]:
        return tuple(dim - (dim > gone) for dim in dimensions)

    inner = type(numbers)(
        dot_dimension_numbers=(
            (without(a, left_sum), without(b, right_sum)),
            (without(a, rest_a), without(b, rest_b)),
        ),
        lhs_ragged_dimensions=without(a, numbers.lhs_ragged_dimensions),
        rhs_group_dimensions=without(b, numbers.rhs_group_dimensions),
    )
    # A matrix for each group is stacked outside of the batch.
    axis = 1 if numbers.lhs_ragged_dimensions[0] in left_sum else 0
    whole = step.output
    kind = Type((*whole.shape[:axis], *whole.shape[axis + 1 :]), whole.dtype)
    products = []
    for number in range(step.inputs[0].shape[a]):
        mine = _cut(interpreter, left, step.inputs[0], a, number, 1, squeeze=True)
        theirs = _cut(interpreter, right, step.inputs[1], b, number, 1, squeeze=True)
        own = sizes[number] if sizes.ndim > 1 else sizes
        kinds = [mine[1], theirs[1], Type(own.shape, own.dtype)]
        part = step.like("ragged_dot_general", kinds, [kind], ragged_dot_dimension_numbers=inner)
        products.append(_ragged_dot_general(interpreter, part, [mine[0], theirs[0], own])[0])
    stacked = np.arange(int(np.prod(whole.shape, dtype=np.int64))).reshape(len(products), *kind.shape)
    return interpreter.taken(products, np.moveaxis(stacked, 0, axis), whole)


def _cut(
    interpreter: InterpreterProtocol,
    value: Value,
    kind: Type,
    axis: int,
    start: int,
    length: int,
    squeeze: bool = False,
) -> tuple[Value, Type]:
    ids = np.arange(int(np.prod(kind.shape, dtype=np.int64))).reshape(kind.shape)
    index = np.take(ids, np.arange(start, start + length), axis)
    index = index.squeeze(axis) if squeeze else index
    piece = Type(index.shape, kind.dtype)
    return interpreter.taken([value], index, piece), piece


def _dot(
    interpreter: InterpreterProtocol, step: Step, left: tuple[Value, Type], right: tuple[Value, Type], sums: Any
) -> tuple[Value, Type]:
    free = [
        [size for dim, size in enumerate(kind.shape) if dim not in axes]
        for (_, kind), axes in zip((left, right), sums, strict=True)
    ]
    out = Type((*free[0], *free[1]), step.output.dtype)
    plain = step.like("dot_general", [left[1], right[1]], [out], dimension_numbers=(sums, ((), ())), precision=None)
    return interpreter.local(plain, [left[0], right[0]])[0], out


def _together(interpreter: InterpreterProtocol, step: Step, pieces: list[tuple[Value, Type]], stacked: bool) -> Value:
    """The groups' results along the first axis; rows that are in no group are zero."""
    whole = step.output
    size = int(np.prod(whole.shape, dtype=np.int64))
    have = sum(int(np.prod(kind.shape, dtype=np.int64)) for _, kind in pieces)
    if stacked or have == size:
        return interpreter.taken([value for value, _ in pieces], np.arange(size).reshape(whole.shape), whole)
    zero = interpreter.constant(np.zeros(1, whole.dtype), Type((1,), whole.dtype))
    index = np.minimum(np.arange(size), have).reshape(whole.shape)
    return interpreter.taken([*(value for value, _ in pieces), zero], index, whole)


def exp_of_negative_square(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> Sequence[Value]:
    """exp(-x^2), which newer versions of jax compute in two parts of x, for the derivative of erf.

    Source: `exp_neg_sq` of `jax.lax`: bits of x are cut off, and a polynomial stands for the exponential of the rest.
    """
    (kind,) = step.inputs
    for name in ("square", "neg", "exp"):
        values = interpreter.local(step.like(name, [kind], [kind], accuracy=None), values)
    return values


def is_exp_of_negative_square(equation: Any) -> bool:
    """Whether a call is that function of jax."""
    body = equation.params.get("call_jaxpr")
    names = {equation.primitive.name for equation in getattr(body, "eqns", ())}
    name = getattr(getattr(body, "debug_info", None), "func_name", None)
    return name == "exp_neg_sq" and {"bitcast_convert_type", "polynomial"} <= names


COMPOSED: dict[str, Callable[[Any, Step, Sequence[Value]], list[Value]]] = {
    "ragged_dot_general": _ragged_dot_general,
}
