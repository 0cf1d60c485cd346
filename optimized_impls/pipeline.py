"""The circular pipeline: every stage holds some layers of every repeat, and stages work on different microbatches.

One iteration runs all stages at once, as one vectorised call; then every result moves to the next stage. Stage `s` has
microbatch `m` of repeat `r` in iteration `r * microbatches + m + s`. Before its first microbatch and after its last a
stage has nothing to do: in such a bubble it runs a microbatch whose results nobody reads.

The stages are vectorised by `jax.vmap` on auto axes, in explicit mode too, because that takes most layers. With jax
0.10.2 the other ways do not: inside a `shard_map` over `stage` no second one is lowered and no `auto_axes` runs; where
`jax.vmap` reads off the types that rows are split, a `psum_scatter` in the layer, or the gradient of an `all_gather`,
is not lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec

STAGE = "stage"
"""The mesh axis over which the stages are split."""
BATCH = ("data", "fsdp", "expert")
"""The mesh axes over which the rows of a microbatch are split, where their types do not say it."""
FREE = PartitionSpec.UNCONSTRAINED

Layer = Callable[[Any, jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
Move = Callable[[jax.Array], jax.Array]
State = tuple[jax.Array, jax.Array, jax.Array | None]


def circular(
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
    """All layers as a circular pipeline whose results move by messages between neighbouring stages.

    Equivalent to every microbatch through every layer, one after the other, in `microbatches * repeats + stages - 1`
    iterations.

    Args:
        inputs: `[batch, sequence, embed]`, floating point; microbatch `m` is the rows `m * b` to `(m + 1) * b`.
        positions: int32 `[batch, sequence]`.
        segments: int32 `[batch, sequence]`.
        weights: an array or a pytree of arrays `[repeats, stages, layers of a stage, ...]`.
        stages: how many stages there are, at least 1; on a mesh a multiple of the size of the axis `stage`.
        microbatches: how many parts the batch is cut into, a multiple of `stages`.
        repeats: how often a microbatch goes round, at least 1.
        layer: `layer(weights of one layer, x, positions, segments) -> (y like x, extra, a float32 scalar)`, for the
            rows of one microbatch. It runs under `jax.vmap` over the stages, where all axes are auto, and in bubbles on
            rows of the inputs. A `shard_map` in it must be over all axes (jax 0.10.2 fails on others). None is a small
            layer, `x + tanh(x @ w + positions / 8 - segments / 2)`, whose weights are `[embed, embed]` and
            whose extra is the mean of the squares of what it adds.

    Returns:
        `out`, shape and dtype of the inputs; `extra`, a scalar of at least float32.

    Raises:
        ValueError: shapes do not fit, the microbatches are no multiple of the stages, or do not divide the batch.

    Source: MaxText's pipeline since pull request 2744, after Narayanan et al., 2021 (arXiv 2104.04473), section 2.2,
        and Xu et al., 2021 (arXiv 2105.04663), section 3.3.
    """
    moves = partial(_sent, to_next=True), partial(_sent, to_next=False)
    return _pipeline(inputs, positions, segments, weights, stages, microbatches, repeats, layer, moves)


def circular_slice(
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
    """All layers as a circular pipeline whose results move by slices put together in another order.

    Args:
        inputs: `[batch, sequence, embed]`, floating point; microbatch `m` is the rows `m * b` to `(m + 1) * b`.
        positions: int32 `[batch, sequence]`.
        segments: int32 `[batch, sequence]`.
        weights: an array or a pytree of arrays `[repeats, stages, layers of a stage, ...]`.
        stages: how many stages there are, at least 1; on a mesh a multiple of the size of the axis `stage`.
        microbatches: how many parts the batch is cut into, a multiple of `stages`.
        repeats: how often a microbatch goes round, at least 1.
        layer: as for `circular`.

    Returns:
        `out`, shape and dtype of the inputs; `extra`, a scalar of at least float32.

    Raises:
        ValueError: shapes do not fit, the microbatches are no multiple of the stages, or do not divide the batch.

    Source: MaxText's pipeline before pull request 2744, and pull request 3922, item 10.
    """
    moves = partial(_sliced, to_next=True), partial(_sliced, to_next=False)
    return _pipeline(inputs, positions, segments, weights, stages, microbatches, repeats, layer, moves)


def _pipeline(
    inputs: jax.Array,
    positions: jax.Array,
    segments: jax.Array,
    weights: Any,
    stages: int,
    microbatches: int,
    repeats: int,
    layer: Layer | None,
    moves: tuple[Move, Move],
) -> dict[str, jax.Array]:
    _check(inputs, positions, segments, weights, stages, microbatches, repeats)
    to_next, to_previous = moves
    per_stage = microbatches // stages
    stage, many = jnp.arange(stages, dtype=jnp.int32), jnp.int32(microbatches)
    run = _vmapped(partial(_stage, _small_layer if layer is None else layer))
    places = tuple(_cut(array, (microbatches,), (None,)) for array in (positions, segments))
    # The inputs wait on all stages: stage s has microbatches s * per_stage to (s + 1) * per_stage. A slot moves one
    # stage towards the first whenever it is used, and what the last stage has finished takes the place behind.
    waiting = _cut(inputs, (stages, per_stage), (_axis(), None))
    # What a stage works on in a bubble: rows that the layer is meant for, so that no NaN comes of 0 * inf.
    spare = jax.lax.stop_gradient(_at(waiting, 0))
    # With more microbatches than stages, what the last stage has finished is not at once the first stage's turn.
    held = None
    if repeats > 1 and microbatches > stages:
        held = _over_stages(jnp.zeros_like(jnp.concatenate([waiting] * stages, axis=1)))

    def iteration(state: State, now: jax.Array) -> tuple[State, jax.Array]:
        shifted, waiting, held = state
        begun = now - stage
        busy = (begun >= 0) & (begun < microbatches * repeats)
        begun = jnp.where(busy, begun, 0)
        microbatch, repeat, slot = lax.rem(begun, many), lax.div(begun, many), lax.rem(now, jnp.int32(per_stage))
        returned = shifted if held is None else _at(held, lax.rem(now, many))
        fed = jnp.where(now < microbatches, _at(waiting, slot), returned)
        x = _where(stage == 0, fed, shifted)
        x = _where(busy, x, spare)
        there = tuple(_microbatch_of_each(place, microbatch) for place in places)
        y, extra = run(jax.tree.map(lambda array: _repeat_of_each(array, repeat), weights), x, *there)
        y = _over_stages(y)
        shifted = to_next(y)
        if held is not None:
            held = _put(held, shifted, lax.rem(now + (many - (stages - 1)), many))
        waiting = _put(waiting, _where(stage == stages - 1, y, to_previous(_at(waiting, slot))), slot)
        return (shifted, waiting, held), _where(busy, extra, jnp.zeros_like(extra))

    iterations = microbatches * repeats + stages - 1
    (_, waiting, _), extras = lax.scan(iteration, (spare, waiting, held), jnp.arange(iterations, dtype=jnp.int32))
    # Microbatch 0 was finished in iteration `microbatches * (repeats - 1) + stages - 1`, which says its slot.
    out = jnp.roll(waiting, 1 - stages, axis=1)
    return {"out": _joined(out, inputs), "extra": jnp.sum(extras) / microbatches}


def _stage(
    layer: Layer, weights: Any, x: jax.Array, positions: jax.Array, segments: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """All layers of one stage in one repeat, and the sum of their extras."""

    def step(x: jax.Array, weights: Any) -> tuple[jax.Array, jax.Array]:
        return layer(weights, x, positions, segments)

    y, extras = lax.scan(step, x, weights)
    return y, jnp.sum(extras)


def _small_layer(
    weights: jax.Array, x: jax.Array, positions: jax.Array, segments: jax.Array
) -> tuple[jax.Array, jax.Array]:
    wide = jnp.promote_types(x.dtype, jnp.float32)
    place = positions.astype(wide) / 8 - segments.astype(wide) / 2
    product = jnp.matmul(x.astype(wide), weights.astype(wide), precision=lax.Precision.HIGHEST)
    added = jnp.tanh(product + place[..., None])
    return (x.astype(wide) + added).astype(x.dtype), jnp.mean(jnp.square(added))


# What each stage has, one row for each.


def _vmapped(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` for all stages at once, on auto axes in both modes."""
    stages = jax.vmap(run, spmd_axis_name=_axis())

    def call(weights: Any, x: jax.Array, *places: jax.Array) -> tuple[jax.Array, jax.Array]:
        like = (jax.typeof(x).sharding, PartitionSpec(_axis()))
        return jax.sharding.auto_axes(stages, out_sharding=like)(weights, x, *places)

    return call


def _microbatch_of_each(place: jax.Array, microbatch: jax.Array) -> jax.Array:
    """`place[microbatch[s]]` for every stage s."""
    spec = PartitionSpec(_axis(), *jax.typeof(place).sharding.spec[1:])
    return _taken(place, microbatch, 0, spec)


def _repeat_of_each(array: jax.Array, repeat: jax.Array) -> jax.Array:
    """`array[repeat[s], s]` for every stage s."""
    spec = PartitionSpec(_axis(), *jax.typeof(array).sharding.spec[2:])
    if array.shape[0] == 1:
        return _over_stages(lax.squeeze(array, (0,)), spec)
    return _taken(array, repeat, 1, spec)


def _taken(array: jax.Array, index: jax.Array, stage: int, spec: PartitionSpec) -> jax.Array:
    """Another index on every stage has no sharding rule: in explicit mode too, leave it to the compiler."""

    def take(array: jax.Array, index: jax.Array) -> jax.Array:
        one = partial(lax.dynamic_index_in_dim, keepdims=False)
        return _constrained(jax.vmap(one, in_axes=(1 if stage else None, 0))(array, index), STAGE)

    return jax.sharding.auto_axes(take, out_sharding=spec)(array, index)


def _where(rows: jax.Array, chosen: jax.Array, other: jax.Array) -> jax.Array:
    """`chosen` on some stages, `other` on the rest; the rows say which, and are not split where the others are."""
    select = jax.sharding.auto_axes(
        lambda rows, chosen, other: jnp.where(rows.reshape(-1, *(1,) * (other.ndim - 1)), chosen, other),
        out_sharding=jax.typeof(other).sharding,
    )
    return select(rows, chosen, other)


def _at(slots: jax.Array, slot: jax.Array | int) -> jax.Array:
    return lax.dynamic_index_in_dim(slots, slot, 1, keepdims=False)


def _put(slots: jax.Array, rows: jax.Array, slot: jax.Array) -> jax.Array:
    return lax.dynamic_update_index_in_dim(slots, rows, slot, 1)


# How a row gets to the next stage, the last one's to the first, or the other way round.


def _sent(state: jax.Array, *, to_next: bool) -> jax.Array:
    """By a message from every device to its neighbour."""
    devices = jax.sharding.get_abstract_mesh().shape.get(STAGE, 1)

    def step(rows: jax.Array) -> jax.Array:
        # Splits, and no slices: the transpose of a split is a concatenation, so that the gradient only moves rows too.
        if to_next:
            rest, edge = lax.split(rows, (rows.shape[0] - 1, 1))
        else:
            edge, rest = lax.split(rows, (1, rows.shape[0] - 1))
        if devices > 1:
            hop = 1 if to_next else -1
            edge = lax.ppermute(edge, STAGE, [(device, (device + hop) % devices) for device in range(devices)])
        return jnp.concatenate([edge, rest] if to_next else [rest, edge])

    if devices == 1:
        return step(state)
    split = PartitionSpec(STAGE)
    return jax.shard_map(step, in_specs=split, out_specs=split, axis_names={STAGE})(state)


def _sliced(state: jax.Array, *, to_next: bool) -> jax.Array:
    """By slices of the whole state; the compiler makes the messages."""
    cut = state.shape[0] - 1 if to_next else 1
    move = jax.sharding.auto_axes(
        lambda state: _constrained(jnp.concatenate([state[cut:], state[:cut]]), STAGE),
        out_sharding=jax.typeof(state).sharding,
    )
    return move(state)


# How arrays lie on the mesh.


def _explicit() -> bool:
    return AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


def _axis() -> str | None:
    return STAGE if STAGE in jax.sharding.get_abstract_mesh().axis_names else None


def _over_stages(array: jax.Array, spec: PartitionSpec | None = None) -> jax.Array:
    """Rows split over the stages; in explicit mode as `spec` says, or as they are."""
    if not _explicit():
        return _constrained(array, STAGE)
    return array if spec is None else jax.reshard(array, spec)


def _constrained(array: jax.Array, *axes: Any) -> jax.Array:
    """Leading dimensions split over axes of the mesh, where they divide; the rest as the compiler likes."""
    sizes = jax.sharding.get_abstract_mesh().shape
    entries: list[Any] = []
    for length, entry in zip(array.shape, axes, strict=False):
        there = tuple(axis for axis in (entry if isinstance(entry, tuple) else (entry,)) if axis in sizes)
        rows = 1
        for axis in there:
            rows *= sizes[axis]
        entries.append(there if there and length % rows == 0 else FREE)
    if all(entry is FREE for entry in entries):
        return array
    return lax.with_sharding_constraint(array, PartitionSpec(*entries, *(FREE,) * (array.ndim - len(entries))))


def _cut(array: jax.Array, leading: tuple[int, ...], axes: tuple[str | None, ...]) -> jax.Array:
    """`[batch, ...]` to `[*leading, b, ...]`, the rows of every microbatch split as the batch was."""
    rows = array.shape[0]
    for size in leading:
        rows //= size
    cut = jax.sharding.auto_axes(
        lambda array: _constrained(array.reshape(*leading, rows, *array.shape[1:]), *axes, BATCH),
        out_sharding=PartitionSpec(*axes, *jax.typeof(array).sharding.spec),
    )
    return cut(array)


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
    """Check the arguments."""
    shapes = positions.shape, segments.shape
    if inputs.ndim != 3 or shapes != (inputs.shape[:2],) * 2:
        raise ValueError(
            f"inputs, positions and segments have shapes {inputs.shape}, {shapes[0]} and {shapes[1]}; expected "
            "[batch, sequence, embed] and twice [batch, sequence]"
        )
    if stages < 1 or repeats < 1:
        raise ValueError(f"stages is {stages} and repeats is {repeats}; expected at least 1")
    split = jax.sharding.get_abstract_mesh().shape.get(STAGE, 1)
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
