"""A stack of layers run one after another: the result that a pipeline of stages must compute.

Source: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2018 (arXiv
1811.06965), section 2.3: a batch is cut into microbatches, each goes through all layers, and gradients are added up
over the microbatches. The order of the layers is that of the circular pipeline of Narayanan et al., 2021 (arXiv
2104.04473), section 2.2: a stage has some layers of every repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

BATCH = ("data", "fsdp", "expert")
"""The mesh axes over which the rows of a microbatch are split."""

Layer = Callable[[Any, jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def sequential(
    inputs: jax.Array,
    positions: jax.Array,
    segments: jax.Array,
    weights: Any,
    *,
    stages: int,
    microbatches: int,
    repeats: int = 1,
    layer: Layer | None = None,
) -> dict[str, jax.Array]:
    """Every microbatch through every layer, one after the other.

    Equivalent to, with `rows` those of a microbatch:

        for w in layers:                                   # all repeats, stages and layers of a stage, in C order
            x[rows], extra[w, rows] = layer(w, x[rows], positions[rows], segments[rows])
        out, extra = x, sum over layers of the mean over microbatches of extra

    Args:
        inputs: `[batch, sequence, embed]`, floating point; microbatch `m` is the rows `m * b` to `(m + 1) * b`.
        positions: int32 `[batch, sequence]`.
        segments: int32 `[batch, sequence]`.
        weights: an array or a pytree of arrays `[repeats, stages, layers of a stage, ...]`.
        stages: how many stages there are, at least 1; on a mesh a multiple of the size of the axis `stage`.
        microbatches: how many parts the batch is cut into, a multiple of `stages`.
        repeats: how often a microbatch goes round, at least 1.
        layer: `layer(weights of one layer, x, positions, segments) -> (y like x, extra, a float32 scalar)`, for the
            rows of one microbatch. None is a small layer, `x + tanh(x @ w + positions / 8 - segments / 2)`, whose
            weights are `[embed, embed]` and whose extra is the mean of the squares of what it adds.

    Returns:
        `out`, shape and dtype of the inputs; `extra`, a scalar of at least float32.

    Raises:
        ValueError: shapes do not fit, the microbatches are no multiple of the stages, or do not divide the batch.
    """
    _check(inputs, positions, segments, weights, stages, microbatches, repeats)
    one = small_layer if layer is None else layer
    flat = jax.tree.map(_in_order, weights)

    def through(rows: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, *places = rows

        def step(x: jax.Array, w: Any) -> tuple[jax.Array, jax.Array]:
            y, extra = one(w, x, *places)
            return _like(y, x), extra

        return jax.lax.scan(step, x, flat)

    parts = tuple(_cut(array, microbatches) for array in (inputs, positions, segments))
    out, extras = jax.lax.map(through, parts)
    return {"out": _joined(out, inputs), "extra": jnp.sum(jnp.mean(extras, axis=0))}


def small_layer(
    weights: jax.Array, x: jax.Array, positions: jax.Array, segments: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The layer of its own: not linear, and another one for every position and segment."""

    def step(
        weights: jax.Array, x: jax.Array, positions: jax.Array, segments: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        place = positions.astype(wide) / 8 - segments.astype(wide) / 2
        product = jnp.matmul(x.astype(wide), weights.astype(wide), precision=jax.lax.Precision.HIGHEST)
        added = jnp.tanh(product + place[..., None])
        return (x.astype(wide) + added).astype(x.dtype), jnp.mean(jnp.square(added))

    # Its weights may be split too: where shardings are part of types, leave the products to the compiler.
    like = (jax.typeof(x).sharding, PartitionSpec())
    return jax.sharding.auto_axes(step, out_sharding=like)(weights, x, positions, segments)


def _explicit() -> bool:
    return AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


def _in_order(array: jax.Array) -> jax.Array:
    """All layers along one dimension, which is not split: every device needs all of them."""
    rest = jax.typeof(array).sharding.spec[3:]
    flatten = jax.sharding.auto_axes(
        lambda array: array.reshape(-1, *array.shape[3:]), out_sharding=PartitionSpec(None, *rest)
    )
    return flatten(array)


def _like(y: jax.Array, x: jax.Array) -> jax.Array:
    """A layer's output lying as its input does, where that is part of the type."""
    return jax.reshard(y, jax.typeof(x).sharding) if _explicit() else y


def _cut(array: jax.Array, microbatches: int) -> jax.Array:
    """`[batch, ...]` to `[microbatches, b, ...]`, the rows of every microbatch split as the batch was."""
    shape = (microbatches, array.shape[0] // microbatches, *array.shape[1:])
    cut = jax.sharding.auto_axes(
        lambda array: _over_batch(array.reshape(shape)),
        out_sharding=PartitionSpec(None, *jax.typeof(array).sharding.spec),
    )
    return cut(array)


def _over_batch(array: jax.Array) -> jax.Array:
    """Rows, dimension 1, split over the axes of the batch; else the compiler may split the microbatches instead."""
    sizes = jax.sharding.get_abstract_mesh().shape
    axes = tuple(axis for axis in BATCH if axis in sizes)
    rows = 1
    for axis in axes:
        rows *= sizes[axis]
    if rows == 1 or array.shape[1] % rows:
        return array
    rest = (PartitionSpec.UNCONSTRAINED,) * (array.ndim - 2)
    return jax.lax.with_sharding_constraint(array, PartitionSpec(None, axes, *rest))


def _joined(parts: jax.Array, inputs: jax.Array) -> jax.Array:
    """The microbatches one after the other again."""
    join = jax.sharding.auto_axes(
        lambda parts: parts.reshape(inputs.shape), out_sharding=jax.typeof(inputs).sharding.spec
    )
    return join(parts)


def _check(
    inputs: jax.Array,
    positions: jax.Array,
    segments: jax.Array,
    weights: Any,
    stages: int,
    microbatches: int,
    repeats: int,
) -> None:
    shapes = positions.shape, segments.shape
    if inputs.ndim != 3 or shapes != (inputs.shape[:2],) * 2:
        raise ValueError(
            f"inputs, positions and segments have shapes {inputs.shape}, {shapes[0]} and {shapes[1]}; expected "
            "[batch, sequence, embed] and twice [batch, sequence]"
        )
    if stages < 1 or repeats < 1:
        raise ValueError(f"stages is {stages} and repeats is {repeats}; expected at least 1")
    split = jax.sharding.get_abstract_mesh().shape.get("stage", 1)
    if stages % split:
        raise ValueError(f"stages is {stages}; expected a multiple of {split}, the size of stage")
    if microbatches < 1 or microbatches % stages:
        raise ValueError(f"microbatches is {microbatches}; expected a multiple of the {stages} stages")
    if inputs.shape[0] % microbatches:
        raise ValueError(f"microbatches is {microbatches}; expected a divisor of the batch's {inputs.shape[0]} rows")
    for array in jax.tree.leaves(weights):
        if array.ndim < 3 or array.shape[:2] != (repeats, stages) or array.shape[2] == 0:
            raise ValueError(
                f"weights have a leaf of shape {array.shape}; expected [{repeats}, {stages}, layers of a stage, ...]"
            )
