"""Primitives that are computed by others: a ragged matrix product is one plain product per group of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret import windows
from samebits.interpret.domain import AbstractDomain, InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type
from samebits.interpret.linear_algebra import cholesky, lu, symmetric_product, triangular_solve
from samebits.interpret.random_keys import RANDOM, bits_as_float
from samebits.interpret.rewritten import rewritten
from samebits.interpret.windows_of_arrays import (
    convolution,
    reduce_window,
    select_and_gather_add,
    select_and_scatter_add,
)


def scatter(operation: str) -> Rule:
    """`scatter-mul`, `scatter-min` or `scatter-max`; an element without an update stays as it is."""

    def rule(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
        value, indices, updates = values
        kind = step.inputs[0]
        targets, inside = windows.of_scatter(step, interpreter.domain.concrete(step, indices))
        size = math.prod(kind.shape)
        numbers = np.arange(targets.size).reshape(targets.shape)[inside]
        # Round by round the first update that is left of each element, until none is.
        left, at = numbers, targets[inside]
        while left.size:
            chosen, first = np.unique(at, return_index=True)
            row = Type((chosen.size,), kind.dtype)
            operands = [interpreter.taken([value], chosen, row), interpreter.taken([updates], left[first], row)]
            (changed,) = interpreter.local(step.like(operation, [row, row], [row]), operands)
            index = np.arange(size)
            index[chosen] = size + np.arange(chosen.size)
            value = interpreter.taken([value, changed], index.reshape(kind.shape), kind)
            rest = np.ones(left.size, bool)
            rest[first] = False
            left, at = left[rest], at[rest]
        return [value]

    return rule


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
    stacked = np.arange(math.prod(whole.shape)).reshape(len(products), *kind.shape)
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
    ids = np.arange(math.prod(kind.shape)).reshape(kind.shape)
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
    size = math.prod(whole.shape)
    have = sum(math.prod(kind.shape) for _, kind in pieces)
    if stacked or have == size:
        return interpreter.taken([value for value, _ in pieces], np.arange(size).reshape(whole.shape), whole)
    zero = interpreter.constant(np.zeros(1, whole.dtype), Type((1,), whole.dtype))
    index = np.minimum(np.arange(size), have).reshape(whole.shape)
    return interpreter.taken([*(value for value, _ in pieces), zero], index, whole)


def approximate_top_k(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """The exact choice, which the approximate one is on every platform but a TPU.

    Raises:
        NotCovered: the platform chooses among some of the elements only.
    """
    if interpreter.platform not in (None, "cpu", "gpu") or not step.params["aggregate_to_topk"]:
        raise NotCovered(f"{step} chooses approximately on {interpreter.platform}")
    names = ("k", "reduction_dimension", "is_max_k")
    return rewritten(interpreter, step, values, exact_top_k, *(step.params[name] for name in names))


def exact_top_k(k: int, axis: int, largest: bool, x: Any) -> Any:
    """The largest or smallest elements along an axis, and their places."""
    x = jnp.moveaxis(x if largest else -x, axis, -1)
    chosen, places = (jnp.moveaxis(each, -1, axis) for each in lax.top_k(x, k))
    return chosen if largest else -chosen, places


def cumulative_log_sum_exp(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """For each element the logarithm of the sum of the exponentials up to it, less their largest argument."""
    return rewritten(interpreter, step, values, log_sum_exp_along, step.params["axis"], step.params["reverse"])


def log_sum_exp_along(axis: int, reverse: bool, x: Any) -> Any:
    """`jax.nn.logsumexp` of the elements up to each."""
    x = jnp.moveaxis(x, axis, -1)
    x = jnp.flip(x, -1) if reverse else x
    top = lax.cummax(x, axis=x.ndim - 1)
    below = jnp.tril(jnp.ones((x.shape[-1],) * 2, bool))
    powers = jnp.where(below, jnp.exp(jnp.where(below, x[..., None, :] - top[..., :, None], 0)), 0)
    result = jnp.log(powers.sum(-1)) + top
    return jnp.moveaxis(jnp.flip(result, -1) if reverse else result, -1, axis)


def polynomial(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """By Horner's rule, the coefficients from the lowest degree on."""
    return rewritten(interpreter, step, values, horner)


def horner(x: Any, *coefficients: Any) -> Any:
    """The value of a polynomial."""
    result = jnp.broadcast_to(coefficients[-1], x.shape)
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


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


Rule = Callable[[Any, Step, Sequence[Value]], list[Value]]

EVERYWHERE: dict[str, Rule] = {
    **RANDOM,
    "approx_top_k": approximate_top_k,
    "ragged_dot_general": _ragged_dot_general,
    "tie": lambda interpreter, step, values: [values[1]],
}
"""Composed in every domain: what they are made of is what the compiler runs, or known numbers."""

AS_FORMULAS: dict[str, Rule] = {
    "conv_general_dilated": convolution,
    "cumlogsumexp": cumulative_log_sum_exp,
    "reduce_window_max": reduce_window("reduce_max"),
    "reduce_window_min": reduce_window("reduce_min"),
    "reduce_window_sum": reduce_window("reduce_sum"),
    "scatter-max": scatter("max"),
    "scatter-min": scatter("min"),
    "scatter-mul": scatter("mul"),
    "select_and_gather_add": select_and_gather_add,
    "select_and_scatter_add": select_and_scatter_add,
    "polynomial": polynomial,
    "cholesky": cholesky,
    "lu": lu,
    "symmetric_product": symmetric_product,
    "triangular_solve": triangular_solve,
}
"""Composed where a value is a formula or a number; the compiled program may compute them in another way."""

ANY_NUMBERS = frozenset({"polynomial", "triangular_solve"})
"""Those of `AS_FORMULAS` that are written in sums, products and quotients alone, so that complex numbers do as well."""

UNBOUNDED = frozenset({"cumlogsumexp"})
"""Those of `AS_FORMULAS` whose algorithm rounds more often than what is composed here."""

ON_CPU = frozenset({"cholesky", "lu", "triangular_solve"})
"""Those whose rounding is bounded by what is composed here on a CPU only: accelerators invert blocks."""


def rule_of(step: Step, domain: AbstractDomain, known: bool) -> Rule | None:
    """The rule that composes an equation in a domain; None where there is none.

    Args:
        step: the equation.
        domain: the abstract domain.
        known: whether all its operands are concrete.
    """
    name, rule = step.name, EVERYWHERE.get(step.name)
    if rule is not None or (step.is_plain and known):
        return rule or AS_FORMULAS.get(name)
    if name == "bitcast_convert_type" and known and step.output.is_float and not step.inputs[0].is_float:
        return bits_as_float
    bounded = name not in UNBOUNDED and (name not in ON_CPU or getattr(domain, "platform", "cpu") == "cpu")
    if domain.name in ("field", "oracle", "rounded") or (domain.name == "rounding" and bounded):
        return AS_FORMULAS.get(name)
    return None
