"""The meaning of XLA's operations on data of one partition, in `jax.lax`.

Source: XLA, "Operation semantics".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from samebits.errors import CouldNotRun
from samebits.hlo import layouts
from samebits.hlo.convolutions import convolution
from samebits.hlo.products import in_passes
from samebits.hlo.sorting import is_total, largest, ordered_bits, sort
from samebits.hlo.steps import HloStep
from samebits.hlo.types import literal_array

_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "abs": lax.abs, "acos": lax.acos, "acosh": lax.acosh, "add": lax.add, "and": lax.bitwise_and, "asin": lax.asin,
    "asinh": lax.asinh, "atan2": lax.atan2, "atanh": lax.atanh, "cbrt": lax.cbrt, "ceil": lax.ceil,
    "complex": lax.complex, "cosh": lax.cosh, "cosine": lax.cos, "count-leading-zeros": lax.clz, "divide": lax.div,
    "erf": lax.erf, "exponential": lax.exp, "exponential-minus-one": lax.expm1, "floor": lax.floor, "imag": lax.imag,
    "is-finite": lax.is_finite, "log": lax.log, "log-plus-one": lax.log1p, "logistic": lax.logistic,
    "maximum": lax.max, "minimum": lax.min, "multiply": lax.mul, "negate": lax.neg, "not": lax.bitwise_not,
    "or": lax.bitwise_or, "popcnt": lax.population_count, "power": lax.pow, "real": lax.real, "remainder": lax.rem,
    "rsqrt": lax.rsqrt, "shift-left": lax.shift_left, "shift-right-arithmetic": lax.shift_right_arithmetic,
    "shift-right-logical": lax.shift_right_logical, "sign": lax.sign, "sine": lax.sin, "sinh": lax.sinh,
    "sqrt": lax.sqrt, "subtract": lax.sub, "tan": lax.tan, "tanh": lax.tanh, "xor": lax.bitwise_xor,
    "round-nearest-afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round-nearest-even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
}  # fmt: skip
"""Operations whose result has the shape and, but for `complex` and its parts, the dtype of the operands."""

_OF_PREDICATES: Mapping[str, Callable[..., Any]] = {"add": lax.bitwise_or, "multiply": lax.bitwise_and}
"""The arithmetic of predicates."""

_COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge,
}  # fmt: skip

_BOTH: Mapping[str, Callable[..., Any]] = {
    "add": lax.add, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip
"""The operations by which a reduction combines two values, where the computation that it calls is one of them."""


def combiner(step: HloStep, number: int = 0) -> str | None:
    """Return the opcode of the one operation by which a called computation combines its two parameters; else None.

    Casts around it are left out: they say in which precision the values are combined.
    """
    computation = step.program.module.computations[step.inst.called_computation_ids[number]]

    def bare(number: int) -> Any:
        inst = computation.instructions[number]
        while inst.opcode in ("convert", "copy", "bitcast"):
            inst = computation.instructions[inst.operand_ids[0]]
        return inst

    root = bare(computation.root)
    if root.opcode == "parameter":
        return f"parameter {root.parameter_number}"
    if root.opcode not in _BOTH:
        return None
    taken = sorted(inst.parameter_number for inst in map(bare, root.operand_ids) if inst.opcode == "parameter")
    return str(root.opcode) if taken == [0, 1] else None


def combine(step: HloStep, number: int = 0) -> Callable[..., Any]:
    """Return the function by which a called computation combines: of `jax.lax` where it is a plain operation."""
    plain = _BOTH.get(combiner(step, number) or "")
    return plain if plain is not None else step.called(number)


def _constant(step: HloStep) -> Any:
    array = literal_array(step.inst.literal)
    if array is None:
        raise step.refuse(f"a constant of element type {step.inst.shape.element_type} cannot be read")
    return array


def _elementwise(step: HloStep) -> Any:
    opcode, values = step.inst.opcode, step.values
    if values[0].dtype == np.bool_ and opcode in _OF_PREDICATES:
        return _OF_PREDICATES[opcode](*values)
    return _ELEMENTWISE[opcode](*values)


def _compare(step: HloStep) -> Any:
    direction = step.inst.comparison_direction
    first, second = step.values
    if not is_total(step.inst) or not jnp.issubdtype(first.dtype, jnp.floating):
        return _COMPARISONS[direction](first, second)
    # A float's bits, those of negative numbers turned around, are integers in its total order.
    return _COMPARISONS[direction](ordered_bits(first), ordered_bits(second))


def _select(step: HloStep) -> Any:
    predicate, yes, no = step.values
    if np.ndim(predicate) == 0 and np.ndim(yes):
        predicate = jnp.broadcast_to(predicate, np.shape(yes))
    return lax.select(predicate, yes.astype(step.dtype), no.astype(step.dtype))


def cast(step: HloStep) -> Any:
    """Cast bytes, of several arrays in their order, to another shape through the layouts of all."""
    kind, target = step.dtype, layouts.Placement.of(step.inst.shape)
    sources = [source for shape in step.shapes if (source := layouts.Placement.of(shape)) is not None]
    if len(sources) < len(step.shapes) or target is None:
        raise step.refuse("a cast through tiles that pad tiles")
    value = step.values[0]
    if len(sources) > 1 or value.dtype.itemsize != kind.itemsize:
        try:
            return layouts.cast_memory([*zip(step.values, sources, strict=True)], target, step.dims, kind)
        except CouldNotRun as error:
            raise step.refuse(str(error)) from None
    same = value if value.dtype == kind else layouts.as_dtype(value.reshape(-1), kind).reshape(value.shape)
    result, unwritten = layouts.cast(same, sources[0], target, step.dims, step.program.filler_of(step.inst, kind))
    if unwritten:
        step.program.unwritten.add(step.inst.name)
    return result


def _bitcast_convert(step: HloStep) -> Any:
    value = step.values[0]
    same = np.dtype(np.bool_) in (value.dtype, step.dtype) and value.dtype.itemsize == step.dtype.itemsize
    return value.astype(step.dtype) if same else lax.bitcast_convert_type(value, step.dtype)


def _broadcast(step: HloStep) -> Any:
    where = tuple(step.inst.dimensions)
    order = np.argsort(where)
    value = step.values[0] if list(order) == [*range(len(where))] else lax.transpose(step.values[0], tuple(order))
    return lax.broadcast_in_dim(value, step.dims, tuple(sorted(where)))


def _slice(step: HloStep) -> Any:
    parts = step.inst.slices
    starts, limits, strides = ([getattr(part, name) for part in parts] for name in ("start", "limit", "stride"))
    return lax.slice(step.values[0], starts, limits, strides)


def _at_starts(function: Callable[..., Any], arrays: Sequence[Any], starts: Sequence[Any]) -> Any:
    """Slice or update arrays at start indices; where all partitions have the same ones, `vmap` gives one slice of all.

    JAX's own rule makes it a gather or a scatter, which takes several times as long to run and to interpret.

    Args:
        function: of arrays and start indices, with any leading dimensions that are taken whole.
    """
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def rule(size: int, batched: Any, arrays: Sequence[Any], starts: Sequence[Any]) -> tuple[Any, bool]:
        if any(batched[1]) or not starts:
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))
            return jax.vmap(function, in_axes=axes, axis_size=size)(arrays, starts), True
        whole = [
            array if is_batched else jnp.broadcast_to(array, (size, *array.shape))
            for array, is_batched in zip(arrays, batched[0], strict=True)
        ]
        return _at_starts(function, whole, [np.zeros((), starts[0].dtype), *starts]), True  # of the next axis too

    return mapped(list(arrays), list(starts))


def _dynamic_slice(step: HloStep) -> Any:
    operand, *starts = step.values
    sizes = tuple(step.inst.dynamic_slice_sizes)

    def taken(arrays: Sequence[Any], starts: Sequence[Any]) -> Any:
        (array,) = arrays
        return lax.dynamic_slice(array, starts, (*array.shape[: array.ndim - len(sizes)], *sizes))

    return _at_starts(taken, [operand], _inside(starts, operand.shape, sizes))


def _dynamic_update_slice(step: HloStep) -> Any:
    operand, update, *starts = step.values

    def written(arrays: Sequence[Any], starts: Sequence[Any]) -> Any:
        operand, update = arrays
        return lax.dynamic_update_slice(operand, update, starts)

    return _at_starts(written, [operand, update], _inside(starts, operand.shape, update.shape))


def _inside(starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    """Clamp start indices as XLA does: `lax` counts negative ones from the end."""
    if len(starts) == 1 and np.ndim(starts[0]) == 1:
        starts = [starts[0][number] for number in range(len(shape))]
    return [
        lax.clamp(np.array(0, start.dtype), start, np.array(whole - size, start.dtype))
        if whole != size
        else np.array(0, start.dtype)
        for start, whole, size in zip(starts, shape, sizes, strict=True)
    ]


def _pad(step: HloStep) -> Any:
    parts = [(part.low, part.high, part.interior) for part in step.inst.padding.dimensions]
    value, filler = (value.astype(step.dtype) for value in step.values)
    return lax.pad(value, filler, parts)


def _dot(step: HloStep) -> Any:
    numbers = step.inst.dot
    contracting = tuple(numbers.lhs_contracting), tuple(numbers.rhs_contracting)
    batch = tuple(numbers.lhs_batch), tuple(numbers.rhs_batch)
    lhs, rhs = step.values
    return lax.dot_general(lhs, rhs, (contracting, batch), step.precision, preferred_element_type=step.dtype)


def _map(step: HloStep) -> Any:
    flat = jax.vmap(step.called())(*(jnp.ravel(value) for value in step.values))
    return jnp.reshape(flat, step.dims)


_REDUCERS: Mapping[str, Callable[..., Any]] = {
    "add": jnp.sum, "multiply": jnp.prod, "maximum": jnp.max, "minimum": jnp.min, "and": jnp.all, "or": jnp.any,
}  # fmt: skip


def _reduce(step: HloStep) -> Any:
    """Reduce by any computation, of several arrays at once."""
    half = len(step.values) // 2
    arrays, starts = step.values[:half], step.values[half:]
    over = tuple(step.inst.dimensions)
    if half == 1:
        return reduced(step, arrays[0], starts[0], over)
    computation = step.called()
    return tuple(lax.reduce(tuple(arrays), tuple(starts), lambda a, b: tuple(computation(*a, *b)), over))


def reduced(step: HloStep, array: Any, start: Any, over: tuple[int, ...]) -> Any:
    """Reduce one array over dimensions by the computation that an instruction calls, from a start value or None."""
    both = combine(step)
    name = combiner(step) or ""
    plain = name in _REDUCERS and (name not in ("and", "or") or array.dtype == np.bool_)
    if not plain:
        identity = start if start is not None else _identity(name, array.dtype)
        if identity is None:
            raise step.refuse("a reduction whose start value is not known")
        return lax.reduce(array, identity, both, over)
    kwargs = {"dtype": array.dtype} if name in ("add", "multiply") else {}
    if not all(array.shape[axis] for axis in over):
        return jnp.broadcast_to(start, [size for axis, size in enumerate(array.shape) if axis not in over])
    total = _REDUCERS[name](array, axis=over, **kwargs)
    neutral = _identity(name, array.dtype)
    if start is None or (isinstance(start, np.ndarray) and start == neutral):
        return total
    return both(total, jnp.broadcast_to(start, total.shape))


def _identity(name: str, dtype: Any) -> Any:
    """Return the value that a combination leaves as it is."""
    dtype = np.dtype(dtype)
    if name in ("maximum", "minimum"):
        least = name == "maximum"
        if dtype == np.bool_:
            return np.array(not least)
        if jnp.issubdtype(dtype, jnp.floating):
            return np.array(-np.inf if least else np.inf, dtype)
        limits = jnp.iinfo(dtype)
        return np.array(limits.min if least else limits.max, dtype)
    if name == "and":
        return np.array(True) if dtype == np.bool_ else np.array(-1).astype(dtype)
    values = {"add": 0, "or": 0, "xor": 0, "multiply": 1}
    return np.array(values[name], dtype) if name in values else None


def _reduce_window(step: HloStep) -> Any:
    half = len(step.values) // 2
    dims = step.inst.window.dimensions
    size, stride, base, dilation = (
        tuple(getattr(dim, name) for dim in dims) for name in ("size", "stride", "base_dilation", "window_dilation")
    )
    padding = [(dim.low, dim.high) for dim in dims]
    arrays, starts = tuple(step.values[:half]), tuple(step.values[half:])
    if half == 1:
        return lax.reduce_window(arrays[0], starts[0], combine(step), size, stride, padding, base, dilation)
    computation = step.called()
    both = lambda a, b: tuple(computation(*a, *b))  # noqa: E731
    return tuple(lax.reduce_window(arrays, starts, both, size, stride, padding, base, dilation))


def _select_and_scatter(step: HloStep) -> Any:
    """Add each number to where its window has its largest or smallest element: the transpose of a reduction by it."""
    operand, source, start = step.values
    chosen = step.program.module.computations[step.inst.called_computation_ids[0]]
    test = chosen.instructions[chosen.root]
    sides = [inst.parameter_number for inst in chosen.operands(test) if inst.opcode == "parameter"]
    extremes = {"GE": (lax.max, -np.inf), "LE": (lax.min, np.inf)}
    plain = test.opcode == "compare" and test.comparison_direction in extremes and sides == [0, 1]
    if not plain or combiner(step, 1) != "add" or not jnp.issubdtype(operand.dtype, jnp.floating):
        raise step.refuse("a select-and-scatter of other computations")
    both, least = extremes[test.comparison_direction]
    dims = step.inst.window.dimensions
    size, stride, padding = [d.size for d in dims], [d.stride for d in dims], [(d.low, d.high) for d in dims]

    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, np.array(least, x.dtype), both, size, stride, padding)

    (scattered,) = jax.vjp(pooled, operand)[1](source)
    return scattered + start


def _index_last(numbers: Any, indices: Any, batching: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """Return indices with their vector in the last dimension, and the batching dimensions that they have then."""
    vector = numbers.index_vector_dim
    if vector == indices.ndim:
        return indices[..., None], tuple(batching)
    moved = jnp.moveaxis(indices, vector, -1) if vector != indices.ndim - 1 else indices
    return moved, tuple(dim - (dim > vector) for dim in batching)


def _gather(step: HloStep) -> Any:
    numbers = step.inst.gather
    indices, batching = _index_last(numbers, step.values[1], numbers.start_indices_batching_dims)
    dimensions = lax.GatherDimensionNumbers(
        tuple(numbers.offset_dims),
        tuple(numbers.collapsed_slice_dims),
        tuple(numbers.start_index_map),
        tuple(numbers.operand_batching_dims),
        batching,
    )
    sizes = tuple(step.inst.gather_slice_sizes)
    return lax.gather(step.values[0], indices, dimensions, sizes, mode=lax.GatherScatterMode.CLIP)


_SCATTERS: Mapping[str, Callable[..., Any]] = {
    "add": lax.scatter_add, "multiply": lax.scatter_mul, "maximum": lax.scatter_max, "minimum": lax.scatter_min,
    "parameter 1": lax.scatter,
}  # fmt: skip


def _scatter(step: HloStep) -> Any:
    """Update by indices; updates that lie outside are left out, as XLA does."""
    numbers, half = step.inst.scatter, len(step.values) // 2
    indices, batching = _index_last(numbers, step.values[half], numbers.scatter_indices_batching_dims)
    dimensions = lax.ScatterDimensionNumbers(
        tuple(numbers.update_window_dims),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.scatter_dims_to_operand_dims),
        tuple(numbers.operand_batching_dims),
        batching,
    )
    arrays, updates = step.values[:half], step.values[half + 1 :]
    rule = _SCATTERS.get(combiner(step) or "") if half == 1 else None
    if rule is None:
        results = _scattered(step, arrays, indices, updates, dimensions)
        return results if half > 1 else results[0]
    return rule(arrays[0], indices, updates[0], dimensions, mode=lax.GatherScatterMode.FILL_OR_DROP)


def _scattered(
    step: HloStep, arrays: Sequence[Any], indices: Any, updates: Sequence[Any], numbers: lax.ScatterDimensionNumbers
) -> tuple[Any, ...]:
    """Update several arrays, or by a computation of its own: one window after the other, as XLA's loop does."""
    shape, rank = arrays[0].shape, updates[0].ndim
    outer = [axis for axis in range(rank) if axis not in numbers.update_window_dims]
    absent = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = iter(numbers.update_window_dims)
    window = [1 if axis in absent else updates[0].shape[next(kept)] for axis in range(len(shape))]
    batches = [
        lax.broadcasted_iota(indices.dtype, indices.shape[:-1], axis) for axis in numbers.scatter_indices_batching_dims
    ]
    vectors = jnp.concatenate([indices, *(batch[..., None] for batch in batches)], axis=-1)
    vectors = vectors.reshape(-1, vectors.shape[-1])
    axes = [*numbers.scatter_dims_to_operand_dims, *numbers.operand_batching_dims]
    rows = [
        lax.transpose(update, (*outer, *numbers.update_window_dims)).reshape(len(vectors), *window)
        for update in updates
    ]

    def one_window(number: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        zero = np.zeros((), indices.dtype)
        starts = [vectors[number, axes.index(axis)] if axis in axes else zero for axis in range(len(shape))]
        inside = jnp.all(
            jnp.stack(
                [
                    (start >= 0) & (start <= np.array(size - part, start.dtype))
                    for start, size, part in zip(starts, shape, window, strict=True)
                ]
            )
        )
        starts = _inside(starts, shape, window)
        old = [lax.dynamic_slice(array, starts, window) for array in arrays]
        flat = [part.reshape(-1) for part in (*old, *(row[number] for row in rows))]
        new = jax.vmap(step.called())(*flat)
        results = new if isinstance(new, tuple) else (new,)
        return tuple(
            lax.dynamic_update_slice(array, jnp.where(inside, result.reshape(window), part), starts)
            for array, result, part in zip(arrays, results, old, strict=True)
        )

    return tuple(lax.fori_loop(0, len(vectors), one_window, tuple(jnp.asarray(array) for array in arrays)))


def _rng_bit_generator(step: HloStep) -> Any:
    shape = step.inst.shape.tuple_shapes[1]
    dtype = step.program.dtype(step.inst, shape)
    algorithm = lax.RandomAlgorithm(step.inst.rng_algorithm)
    return lax.rng_bit_generator(step.values[0], tuple(shape.dimensions), dtype, algorithm)


RULES: Mapping[str, Callable[[HloStep], Any]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    "bitcast": cast,
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "clamp": lambda step: lax.clamp(*step.values),
    "compare": _compare,
    "concatenate": lambda step: lax.concatenate(step.values, step.inst.dimensions[0]),
    "constant": _constant,
    "convert": lambda step: lax.convert_element_type(step.values[0], step.dtype),
    "convolution": in_passes(convolution),
    "dot": in_passes(_dot),
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": lambda step: lax.fft(step.values[0], lax.FftType(step.inst.fft_type), tuple(step.inst.fft_length)),
    "gather": _gather,
    "iota": lambda step: lax.broadcasted_iota(step.dtype, step.dims, step.inst.dimensions[0]),
    "map": _map,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-precision": lambda step: lax.reduce_precision(
        step.values[0], step.inst.exponent_bits, step.inst.mantissa_bits
    ),
    "reduce-window": _reduce_window,
    "reshape": lambda step: lax.reshape(step.values[0], step.dims),
    "reverse": lambda step: lax.rev(step.values[0], tuple(step.inst.dimensions)),
    "rng-bit-generator": _rng_bit_generator,
    "scatter": _scatter,
    "select": _select,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "sort": sort,
    "topk": largest,
    "transpose": lambda step: lax.transpose(step.values[0], tuple(step.inst.dimensions)),
}
"""By opcode: what an instruction returns for the values of its operands."""
