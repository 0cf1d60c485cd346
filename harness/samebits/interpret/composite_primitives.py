"""Primitives that are computed by others: a ragged matrix product is one plain product per group of rows."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from samebits.errors import MissingRule, NotCovered
from samebits.interpret import windows
from samebits.interpret.data_movement import padded
from samebits.interpret.devices import Axes
from samebits.interpret.domain import AbstractDomain, InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type
from samebits.interpret.jax_evaluation import RANDOM, bits_as_float

# Equations as other programs: a primitive written in simpler ones, traced by jax and interpreted in its place.
Program = Callable[..., Any]


def rewritten(
    interpreter: InterpreterProtocol, step: Step, values: Sequence[Value], program: Program, *static: Any
) -> list[Value]:
    """The outputs of an equation, computed by another program of the same types.

    Args:
        program: a jax function at module level of the static arguments and then the operands.
        static: hashable.
    """
    try:
        return interpreter.closed(_traced(program, static, step.inputs), values, Axes())
    except NotCovered as error:
        within = type(error)(f"{step}, as {program.__name__}: {error}")
        if isinstance(within, MissingRule):
            within.primitive, within.place = step.name, step.place
        raise within from error


@functools.lru_cache(maxsize=256)
def _traced(program: Program, static: tuple[Any, ...], kinds: tuple[Type, ...]) -> Any:
    import jax  # here, because the interpreter itself needs none

    types = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds]
    with jax.enable_x64(True), jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        return jax.make_jaxpr(functools.partial(program, *static))(*types)


# Triangular solves and factorisations without iteration, written out in sums, products, quotients and roots.
def substitution(left: bool, lower: bool, transposed: bool, conjugated: bool, unit: bool, a: Any, b: Any) -> Any:
    """Solve op(A) X = B, or X op(A) = B; only the triangle is read.

    Args:
        left, lower, transposed, conjugated, unit: as `jax.lax.linalg.triangular_solve`.
        b: `[..., n, m]`, or `[..., m, n]` for the right side.
    """
    a = jnp.conj(a) if conjugated else a
    if transposed != (not left):  # X op(A) = B is op(A)^T X^T = B^T
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    b = b if left else jnp.swapaxes(b, -1, -2)
    size = a.shape[-1]
    rows: dict[int, Any] = {}
    for number in range(size) if lower else reversed(range(size)):
        known = sorted(rows)
        row = b[..., number, :]
        if known:
            factors = a[..., number, known[0] : known[-1] + 1]
            row = _less(row, factors, jnp.stack([rows[other] for other in known], -2))
        rows[number] = row if unit else row / a[..., number, number, None]
    solution = jnp.stack([rows[number] for number in range(size)], -2)
    return solution if left else jnp.swapaxes(solution, -1, -2)


def _less(start: Any, factors: Any, rows: Any) -> Any:
    """`start [..., m] - factors [..., k] @ rows [..., k, m]`, added up in one product."""
    unit = jnp.ones((*factors.shape[:-1], 1), factors.dtype)
    left = jnp.concatenate([unit, -factors], -1)
    right = jnp.concatenate([start[..., None, :], rows], -2)
    return jnp.einsum("...k,...km->...m", left, right, precision=lax.Precision.HIGHEST)


def cholesky_by_columns(x: Any) -> Any:
    """Return the lower factor L of L L^T, of `[..., n, n]`; only the lower triangle is read."""
    size = x.shape[-1]
    columns: list[Any] = []
    for number in range(size):
        column = x[..., number:, number]
        if columns:
            before = jnp.stack(columns, -2)  # [..., columns, n]
            column = _less(column, before[..., :, number], before[..., :, number:])
        root = jnp.sqrt(column[..., :1])
        below = jnp.concatenate([root, column[..., 1:] / root], -1)
        columns.append(jnp.concatenate([jnp.zeros((*x.shape[:-2], number), x.dtype), below], -1))
    return jnp.stack(columns, -1)


def lu_by_columns(a: Any) -> Any:
    """LU of `[..., m, n]` with partial pivoting: factors in one matrix, pivots, permutation, as `jax.lax.linalg.lu`."""
    if a.ndim > 2:
        return jax.vmap(lu_by_columns)(a)
    rows, columns = a.shape
    order = jnp.arange(rows, dtype=jnp.int32)
    below, above, pivots = jnp.zeros((rows, 0), a.dtype), jnp.zeros((0, columns), a.dtype), []
    for number in range(min(rows, columns)):
        column = a[number:, number]
        if number:
            column = _less(column, above[:, number], jnp.swapaxes(below[number:], 0, 1))
        best = (jnp.argmax(jnp.abs(column)) + number).astype(jnp.int32)
        pivots.append(best)
        swap = _swap(rows, number, best)
        a, below, order = a[swap], below[swap], order[swap]
        column = column[swap[number:] - number]
        row = a[number, number:]
        if number:
            row = _less(row, below[number], above[:, number:])
        above = jnp.concatenate([above, jnp.concatenate([jnp.zeros(number, a.dtype), row])[None]])
        quotients = jnp.concatenate([jnp.zeros(number + 1, a.dtype), column[1:] / column[:1]])
        below = jnp.concatenate([below, quotients[:, None]], 1)
    return _joined(below, above, a.dtype), jnp.stack(pivots), order


def _swap(rows: int, number: int, best: Any) -> Any:
    places = jnp.arange(rows, dtype=jnp.int32)
    return jnp.where(places == number, best, jnp.where(places == best, number, places))


def _joined(below: Any, above: Any, dtype: Any) -> Any:
    """Both factors in one matrix, without the ones on the diagonal of the lower one."""
    (rows, steps), columns = below.shape, above.shape[1]
    lower = jnp.concatenate([below, jnp.zeros((rows, columns - steps), dtype)], 1)
    upper = jnp.concatenate([above, jnp.zeros((rows - steps, columns), dtype)])
    return jnp.where(jnp.arange(rows)[:, None] > jnp.arange(columns)[None], lower, upper)


def product_and_sum(alpha: float, beta: float, a: Any, c: Any) -> Any:
    """A matrix times its own transpose, added to another."""
    return alpha * jnp.einsum("...ik,...jk->...ij", a, a, precision=lax.Precision.HIGHEST) + beta * c


# Convolutions and reductions over windows: each window's elements are taken, then multiplied or reduced.
Index = NDArray[np.int64]


def window_index(
    ids: Index,
    fill: int,
    dimensions: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Index:
    """The number of the element in each place of each window, `[*windows, *dimensions]`.

    Args:
        ids: the numbers of the elements, one dimension for each of those of a window.
        dimensions, strides, padding, base_dilation, window_dilation: as `jax.lax.reduce_window`.
    """
    spread = [(low, high, apart - 1) for (low, high), apart in zip(padding, base_dilation, strict=True)]
    ids = padded(ids, fill, spread)
    extents = [(size - 1) * apart + 1 for size, apart in zip(dimensions, window_dilation, strict=True)]
    short = [(0, max(extent - length, 0)) for extent, length in zip(extents, ids.shape, strict=True)]
    whole = np.lib.stride_tricks.sliding_window_view(np.pad(ids, short), extents)
    ends = [None if missing == 0 else 0 for _, missing in short]  # no window fits into what is shorter
    at = [slice(None, end, step) for end, step in zip(ends, strides, strict=True)]
    return np.asarray(whole[(*at, *(slice(None, None, apart) for apart in window_dilation))])


def _ids(kind: Type) -> Index:
    return np.arange(math.prod(kind.shape), dtype=np.int64).reshape(kind.shape)


def _of_step(step: Step, kind: Type) -> Index:
    """The windows of a reduction, each folded into one last axis."""
    params, rank = step.params, len(kind.shape)
    index = window_index(
        _ids(kind),
        math.prod(kind.shape),
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params.get("base_dilation", (1,) * rank),
        params.get("window_dilation", (1,) * rank),
    )
    return index.reshape(*index.shape[:rank], math.prod(params["window_dimensions"]))


def _windows(interpreter: InterpreterProtocol, step: Step, value: Value, kind: Type, fill: Any) -> tuple[Value, Type]:
    index = _of_step(step, kind)
    outside = interpreter.constant(np.full(1, fill).astype(kind.dtype), Type((1,), kind.dtype))
    taken = Type(index.shape, kind.dtype)
    return interpreter.taken([value, outside], index, taken), taken


def _lowest(dtype: Any, sign: int) -> Any:
    if Type((), dtype).is_float:
        return -sign * np.inf
    if dtype.kind == "b":
        return sign < 0
    info = np.iinfo(dtype)
    return info.min if sign > 0 else info.max


def reduce_window(reduction: str) -> Callable[[InterpreterProtocol, Step, Sequence[Value]], list[Value]]:
    """A reduction of each window: `reduce_sum`, `reduce_max` or `reduce_min`."""

    def rule(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
        kind = step.inputs[0]
        fill = 0 if reduction == "reduce_sum" else _lowest(kind.dtype, 1 if reduction == "reduce_max" else -1)
        windows, taken = _windows(interpreter, step, values[0], kind, fill)
        inner = step.like(reduction, [taken], [step.output], axes=(len(taken.shape) - 1,))
        return list(interpreter.local(inner, [windows]))

    return rule


def _chosen(interpreter: InterpreterProtocol, step: Step, operand: Value, kind: Type) -> Index:
    """The number of the element that each window selects: the first of the largest, or smallest."""
    sign = {"ge": 1, "le": -1}.get(getattr(step.params["select_prim"], "name", ""), 0)
    if not sign:
        raise NotCovered(f"{step} selects by {step.params['select_prim']}")
    windows, taken = _windows(interpreter, step, operand, kind, _lowest(kind.dtype, sign))
    places = Type(taken.shape[:-1], np.dtype(np.int32))
    name = "argmax" if sign > 0 else "argmin"
    inner = step.like(name, [taken], [places], axes=(len(taken.shape) - 1,), index_dtype=np.dtype(np.int32))
    (best,) = interpreter.local(inner, [windows])
    numbers = interpreter.domain.concrete(step, best).astype(np.int64)
    return np.take_along_axis(_of_step(step, kind), numbers[..., None], -1)[..., 0]


def select_and_scatter_add(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """The derivative of a maximum over windows: each source goes to the element that its window selects."""
    source, operand = values
    index = _chosen(interpreter, step, operand, step.inputs[1]).reshape(-1).astype(np.int32)
    inner = step.like(step.name, [step.inputs[0], Type(index.shape, index.dtype)], step.outputs)
    return rewritten(interpreter, inner, [source, index], added_at, step.output.shape)


def added_at(shape: tuple[int, ...], source: Any, index: Any) -> Any:
    """Zeros of a shape with the source added at flat places; what falls past the end is dropped."""
    flat = jnp.zeros(math.prod(shape), source.dtype)
    return flat.at[index].add(source.reshape(-1), mode="drop").reshape(shape)


def select_and_gather_add(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """The tangent of a maximum over windows: that of the element that each window selects."""
    tangents, operand = values
    index = _chosen(interpreter, step, operand, step.inputs[1])
    kind = step.inputs[0]
    zero = interpreter.constant(np.zeros(1, kind.dtype), Type((1,), kind.dtype))
    return [interpreter.taken([tangents, zero], index, step.output)]


def convolution(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """One product of matrices: the windows of the left operand by the right one, group by group.

    Source: `jax.lax.conv_general_dilated`; XLA operation semantics, "Conv".
    """
    params, (left, right) = step.params, values
    numbers = params["dimension_numbers"]
    images = _ids(step.inputs[0]).transpose(numbers.lhs_spec)  # [batch, feature, *space]
    kernels = _ids(step.inputs[1]).transpose(numbers.rhs_spec)  # [out, in, *space]
    space = kernels.shape[2:]
    whole = window_index(
        images,
        images.size,
        (1, 1, *space),
        (1, 1, *params["window_strides"]),
        ((0, 0), (0, 0), *params["padding"]),
        (1, 1, *params["lhs_dilation"]),
        (1, 1, *params["rhs_dilation"]),
    )
    batch, features, *places = whole.shape[: images.ndim]
    patches = whole.reshape(batch, features, math.prod(places), math.prod(space))
    groups, by_batch = params["feature_group_count"], params["batch_group_count"]
    out, inner = kernels.shape[:2]
    if by_batch > 1:
        rows = patches.reshape(by_batch, batch // by_batch, features, *patches.shape[2:]).transpose(0, 1, 3, 2, 4)
        groups, batch = by_batch, batch // by_batch
    else:
        rows = patches.reshape(batch, groups, inner, *patches.shape[2:]).transpose(1, 0, 3, 2, 4)
    rows = rows.reshape(groups, batch * math.prod(places), inner * math.prod(space))
    columns = kernels.reshape(groups, out // groups, inner * math.prod(space))
    zero = interpreter.constant(np.zeros(1, step.inputs[0].dtype), Type((1,), step.inputs[0].dtype))
    kinds = [Type(rows.shape, step.inputs[0].dtype), Type(columns.shape, step.inputs[1].dtype)]
    operands = [interpreter.taken([left, zero], rows, kinds[0]), interpreter.taken([right], columns, kinds[1])]
    product = Type((groups, rows.shape[1], columns.shape[1]), step.output.dtype)
    dot = step.like(
        "dot_general",
        kinds,
        [product],
        dimension_numbers=(((2,), (2,)), ((0,), (0,))),
        precision=params["precision"],
        preferred_element_type=step.output.dtype,
    )
    (result,) = interpreter.local(dot, operands)
    index = _ids(product).reshape(groups, batch, *places, columns.shape[1])
    index = np.moveaxis(index, [1, 0, -1], [0, 1, 2]).reshape(batch, out, *places)
    inverse = np.argsort(numbers.out_spec)
    return [interpreter.taken([result], index.transpose(inverse), step.output)]


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
    """A product of matrices for each group, whose sizes must be known, or the domain has a rule of its own.

    Source: `jax.lax.ragged_dot_general`, modes 1 and 2; group `g` has `sizes[g]` rows, the groups lie end to end.
    """
    numbers = step.params["ragged_dot_dimension_numbers"]
    if len(values) > 3 or step.params.get("group_offset") is not None:
        raise NotCovered(f"{step}: only ragged products without group offsets are covered")
    if step.name in interpreter.domain.covers and not isinstance(values[2], np.ndarray):
        return list(interpreter.domain.apply(step, values))
    sizes = interpreter.domain.concrete(step, values[2])
    most, (rows,) = int(np.sum(sizes, -1).max(initial=0)), numbers.lhs_ragged_dimensions
    if most > step.inputs[0].shape[rows]:
        raise NotCovered(f"{step}: the groups have {most} rows, more than there are")
    lengths = tuple(map(tuple, sizes.tolist())) if sizes.ndim > 1 else tuple(sizes.tolist())
    return rewritten(interpreter, step, values, products_of_groups, lengths, numbers, step.output.dtype)


def products_of_groups(sizes: Any, numbers: Any, dtype: Any, left: Any, right: Any, _: Any) -> Any:
    """Rows of one group meet the matrix of this group, or, where the rows are summed over, make one for it."""
    (left_sum, right_sum), (left_batch, right_batch) = numbers.dot_dimension_numbers
    (rows,) = numbers.lhs_ragged_dimensions

    def without(gone: int, dimensions: Sequence[int]) -> tuple[int, ...]:
        return tuple(dim - (dim > gone) for dim in dimensions)

    if isinstance(sizes[0], tuple):  # other groups for each number of the first batch dimension
        (a, *rest_a), (b, *rest_b) = left_batch, right_batch
        sums, batch = (without(a, left_sum), without(b, right_sum)), (without(a, rest_a), without(b, rest_b))
        inner = type(numbers)((sums, batch), without(a, [rows]), without(b, numbers.rhs_group_dimensions))
        each = [
            products_of_groups(
                own, inner, dtype, lax.index_in_dim(left, n, a, False), lax.index_in_dim(right, n, b, False), _
            )
            for n, own in enumerate(sizes)
        ]
        return jnp.stack(each, 1 if rows in left_sum else 0)
    starts = [0, *itertools.accumulate(sizes)]
    pieces = []
    for group, (start, end) in enumerate(itertools.pairwise(starts)):
        mine = lax.slice_in_dim(left, start, end, axis=rows)
        if rows in left_sum:
            theirs = lax.slice_in_dim(right, start, end, axis=right_sum[left_sum.index(rows)])
            dimensions = numbers.dot_dimension_numbers
        else:
            (chosen,) = numbers.rhs_group_dimensions
            theirs = lax.index_in_dim(right, group, chosen, keepdims=False)
            dimensions = (left_sum, without(chosen, right_sum)), (left_batch, without(chosen, right_batch))
        pieces.append(lax.dot_general(mine, theirs, dimensions, preferred_element_type=dtype))
    if rows in left_sum:
        return jnp.stack(pieces)
    axis = len(left_batch) + [dim for dim in range(left.ndim) if dim not in (*left_sum, *left_batch)].index(rows)
    nothing = list(pieces[0].shape)
    nothing[axis] = left.shape[rows] - starts[-1]  # rows that are in no group are zero
    return jnp.concatenate([*pieces, jnp.zeros(nothing, dtype)], axis)


def approximate_top_k(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """The exact choice, which the approximate one is on every platform but a TPU."""
    if interpreter.platform not in (None, "cpu", "gpu") or not step.params["aggregate_to_topk"]:
        raise NotCovered(f"{step} chooses approximately on {interpreter.platform}")
    names = ("k", "reduction_dimension", "is_max_k")
    return rewritten(interpreter, step, values, exact_top_k, *(step.params[name] for name in names))


def exact_top_k(k: int, axis: int, largest: bool, x: Any) -> Any:
    """The largest or smallest elements along an axis, and their places."""
    x = jnp.moveaxis(x if largest else -x, axis, -1)
    chosen, places = (jnp.moveaxis(each, -1, axis) for each in lax.top_k(x, k))
    return chosen if largest else -chosen, places


def log_sum_exp_along(axis: int, reverse: bool, x: Any) -> Any:
    """`jax.nn.logsumexp` of the elements up to each, less their largest argument."""
    x = jnp.moveaxis(x, axis, -1)
    x = jnp.flip(x, -1) if reverse else x
    top = lax.cummax(x, axis=x.ndim - 1)
    below = jnp.tril(jnp.ones((x.shape[-1],) * 2, bool))
    powers = jnp.where(below, jnp.exp(jnp.where(below, x[..., None, :] - top[..., :, None], 0)), 0)
    result = jnp.log(powers.sum(-1)) + top
    return jnp.moveaxis(jnp.flip(result, -1) if reverse else result, -1, axis)


def horner(x: Any, *coefficients: Any) -> Any:
    """The value of a polynomial, by Horner's rule; the coefficients from the lowest degree on."""
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


def broadcast_to(shape: tuple[int, ...], x: Any) -> Any:
    """An array in a larger shape, as kernels write it."""
    return jnp.broadcast_to(x, shape)


def rolled(axis: int, stride: int | None, stride_axis: Any, x: Any, shift: Any) -> Any:
    """Elements moved along an axis and around its end; with a stride, further from row to row of another axis."""
    if stride is None:
        return jnp.roll(x, shift, axis)
    rows = jnp.split(x, x.shape[stride_axis], stride_axis)
    return jnp.concatenate([jnp.roll(row, shift + n * stride, axis) for n, row in enumerate(rows)], stride_axis)


def reciprocal(x: Any) -> Any:
    """What a kernel divides by; a device may approximate it."""
    return 1 / x


Rule = Callable[[Any, Step, Sequence[Value]], list[Value]]


def _written_as(program: Program, *parameters: str) -> Rule:
    """The rule of a primitive that is another program of some of its parameters and its operands."""
    return lambda interpreter, step, values: rewritten(
        interpreter, step, values, program, *(step.params[name] for name in parameters)
    )


EVERYWHERE: dict[str, Rule] = {
    **RANDOM,
    "approx_top_k": approximate_top_k,
    "broadcast_to": _written_as(broadcast_to, "shape"),
    "ragged_dot_general": _ragged_dot_general,
    "roll": _written_as(rolled, "axis", "stride", "stride_axis"),
    "tie": lambda interpreter, step, values: [values[1]],
}
"""Composed in every domain: what they are made of is what the compiler runs, or known numbers."""

AS_FORMULAS: dict[str, Rule] = {
    "conv_general_dilated": convolution,
    "cumlogsumexp": _written_as(log_sum_exp_along, "axis", "reverse"),
    "reduce_window_max": reduce_window("reduce_max"),
    "reduce_window_min": reduce_window("reduce_min"),
    "reduce_window_sum": reduce_window("reduce_sum"),
    "scatter-max": scatter("max"),
    "scatter-min": scatter("min"),
    "scatter-mul": scatter("mul"),
    "select_and_gather_add": select_and_gather_add,
    "select_and_scatter_add": select_and_scatter_add,
    "polynomial": _written_as(horner),
    "reciprocal": _written_as(reciprocal),
    "cholesky": _written_as(cholesky_by_columns),
    "lu": _written_as(lu_by_columns),
    "symmetric_product": _written_as(product_and_sum, "alpha", "beta"),
    "triangular_solve": _written_as(substitution, "left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"),
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
        known: whether all its operands are concrete.
    """
    name, rule = step.name, EVERYWHERE.get(step.name)
    if rule is not None or (step.is_plain and known):
        return rule or AS_FORMULAS.get(name)
    if name == "bitcast_convert_type" and known and step.output.is_float and not step.inputs[0].is_float:
        return bits_as_float
    bounded = name not in UNBOUNDED and (name not in ON_CPU or getattr(domain, "platform", "cpu") == "cpu")
    if domain.name in ("dependence", "field", "oracle", "rounded") or (domain.name == "rounding" and bounded):
        return AS_FORMULAS.get(name)
    return None
