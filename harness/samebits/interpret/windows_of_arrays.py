"""Convolutions and reductions over windows: each window's elements are taken, then multiplied or reduced.

An index array says which element of the operand stands in which place of which window; one number past the last element
stands for what is outside. So padding, strides, dilation and groups are data movement, the same in every domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type
from samebits.interpret.rewritten import rewritten

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
        fill: the number of what is outside.
        dimensions, strides, padding, base_dilation, window_dilation: as `jax.lax.reduce_window`.
    """
    for axis, ((low, high), spread) in enumerate(zip(padding, base_dilation, strict=True)):
        length = ids.shape[axis]
        spaced = max(length + max(length - 1, 0) * (spread - 1), 0)
        shape = list(ids.shape)
        shape[axis] = spaced
        grown = np.full(shape, fill, np.int64)
        at: list[Any] = [slice(None)] * ids.ndim
        at[axis] = slice(0, spaced, spread)
        grown[tuple(at)] = ids
        widths = [(0, 0)] * ids.ndim
        widths[axis] = (max(low, 0), max(high, 0))
        grown = np.pad(grown, widths, constant_values=fill)
        at[axis] = slice(max(-low, 0), grown.shape[axis] - max(-high, 0))
        ids = grown[tuple(at)]
    sizes = list(zip(ids.shape, dimensions, strides, window_dilation, strict=True))
    starts = [np.arange(0, max(length - (size - 1) * apart, 0), step) for length, size, step, apart in sizes]
    places = [np.arange(size) * apart for _, size, _, apart in sizes]
    rank = ids.ndim
    where = tuple(
        start.reshape([-1 if dim == axis else 1 for dim in range(2 * rank)])
        + place.reshape([-1 if dim == rank + axis else 1 for dim in range(2 * rank)])
        for axis, (start, place) in enumerate(zip(starts, places, strict=True))
    )
    return np.asarray(ids[where])


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
