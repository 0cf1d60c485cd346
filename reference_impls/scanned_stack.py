"""Decoder layers as pipeline stages in a scan, every part in its original form, before its memory was optimised.

Source: the circular pipeline is that of Xu et al., "GSPMD: General and Scalable Parallelization for ML Computation
Graphs", 2021 (arXiv 2105.04663), section 3.3, as in Praxis and MaxText; the layer is that of Touvron et al., "LLaMA",
2023 (arXiv 2302.13971), section 2.2; recomputation: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016
(arXiv 1604.06174). The forms are those that MaxText's pull request 3922 replaces.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec

STAGE = "stage"
BATCH = ("data", "fsdp")
EPSILON = 1e-6
SAVED = ("iteration_input", "decoder_layer_input")
WEIGHTS = {"scales": 4, "qkv": 6, "merge": 5, "up": 5, "down": 4}
"""The weights, and how many dimensions they have."""


def as_before(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """The activations after all layers, worked out by stages that each have another microbatch.

    Equivalent to an embedding and the layers one after the other: those of repeat 0 on stage 0, 1, ..., then those of
    repeat 1; on stage `s`, layers `[layers // repeats * repeat, layers // repeats * (repeat + 1))`. A layer is
    `x += attention(norm(x))`, then `x += (silu(gate) * up) @ down` of `norm(x)`; a token sees those before it and
    itself, of its own segment.

    Args:
        tokens: int `[batch, seq]`; one outside of the table is embedded as zeros.
        segments: int `[batch, seq]`, the number of each token's document.
        table: `[vocab, embed]`, floating point, finite.
        microbatches: how many, a multiple of the stages; each is a row of neighbours in the batch.
        repeats: how often a microbatch goes through all stages.
        weights: of the dtype of the table: `scales [stages, layers, 2, embed]`, `qkv [stages, layers, embed, 3, heads,
            width]`, `merge [stages, layers, heads, width, embed]`, `up [stages, layers, embed, 2, mlp]` (gate, up) and
            `down [stages, layers, mlp, embed]`.

    Returns:
        `[batch, seq, embed]`, the dtype of the table; sums, softmax and roots in at least float32.

    Raises:
        ValueError: weights are missing, or shapes or counts do not fit.
    """
    stages = _check(tokens, segments, weights, microbatches, repeats)
    per_stage = microbatches // stages
    rows = (tokens.shape[0] // microbatches, tokens.shape[1])
    waiting = _embedded(_laid(tokens.reshape(stages, per_stage, *rows), STAGE, None, BATCH), table)
    waiting = _laid(waiting, STAGE, None, BATCH)
    segments = _laid(segments.reshape(microbatches, *rows), None, BATCH)
    layers = {name: array.reshape(stages, repeats, -1, *array.shape[2:]) for name, array in weights.items()}
    of_stages = jax.vmap(_stage, spmd_axis_name=STAGE if _devices(STAGE) else None)
    shift = jnp.zeros_like(waiting[:, 0])
    # What comes back to the first stage before its turn is kept here.
    held = jnp.zeros((stages, microbatches, *shift.shape[1:]), shift.dtype) if per_stage > 1 and repeats > 1 else None

    @partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names(*SAVED), prevent_cse=False)
    def iteration(carry: tuple[Array, Array, Array | None], now: Array) -> tuple[Any, None]:
        shift, waiting, held = carry
        shift = _laid(shift, STAGE, BATCH)
        stage = jnp.arange(stages)
        begun = jnp.maximum(now - stage, 0)
        microbatch, repeat = _laid(begun % microbatches, STAGE), jnp.minimum(begun // microbatches, repeats - 1)
        slot = now % per_stage
        fed = waiting.at[:, slot].get()
        returned = shift if held is None else held.at[:, now % microbatches].get()
        first = _laid(jnp.where(now < microbatches, fed, returned), STAGE, BATCH)
        x = checkpoint_name(_on(stage == 0, first, shift), "iteration_input")
        chosen = {name: _chosen(array, repeat) for name, array in layers.items()} if repeats > 1 else _only(layers)
        there = _chosen(segments, microbatch, shared=True)
        y = _laid(of_stages(chosen, x, _laid(there, STAGE, BATCH)), STAGE, BATCH)
        shift = _rotated(y, 1)
        if held is not None:
            held = held.at[:, (now + 1 - stages) % microbatches].set(shift)
        waiting = waiting.at[:, slot].set(_on(stage == stages - 1, y, _rotated(fed, -1)))
        return (shift, waiting, held), None

    iterations = jnp.arange(microbatches * repeats + stages - 1, dtype=jnp.int32)
    (_, waiting, _), _ = lax.scan(iteration, (shift, waiting, held), iterations)
    # The first result lies where the last stage put it, in the iteration that finished it.
    out = jnp.roll(waiting, 1 - stages, axis=1)
    return out.reshape(*tokens.shape, table.shape[1])


def _stage(weights: dict[str, Array], x: Array, segments: Array) -> Array:
    """The layers of one stage in one repeat, each recomputed on the way back."""
    mask = _mask(segments)
    layer = jax.checkpoint(_layer, prevent_cse=False)

    def step(x: Array, weights: dict[str, Array]) -> tuple[Array, None]:
        return layer(weights, checkpoint_name(x, "decoder_layer_input"), mask), None

    return lax.scan(step, x, weights)[0]


def _layer(weights: dict[str, Array], x: Array, mask: Array) -> Array:
    weights = {name: array.astype(x.dtype) for name, array in weights.items()}
    query, key, value = _product("bse,eohw->obshw", _norm(x, weights["scales"][0]), weights["qkv"])
    attended = _laid(_attention(query, key, value, mask), BATCH, None, "tensor")
    x = _laid(x + _product("bshw,hwe->bse", attended, weights["merge"]), BATCH)
    gate, up = _product("bse,eom->obsm", _norm(x, weights["scales"][1]), weights["up"])
    hidden = _laid((jax.nn.silu(gate) * up).astype(x.dtype), BATCH, None, "tensor")
    return _laid(x + _product("bsm,me->bse", hidden, weights["down"]), BATCH).astype(x.dtype)


def _norm(x: Array, scale: Array) -> Array:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    normed = (wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPSILON)).astype(x.dtype)
    return _laid(jnp.einsum("...k,k->...k", normed, _laid(scale, None)), BATCH)


def _mask(segments: Array) -> Array:
    """`[batch, 1, seq, seq]` in float32: 0 where a query sees a key, else -inf."""
    order = jnp.arange(segments.shape[1])
    seen = (segments[:, :, None] == segments[:, None, :]) & (order[:, None] >= order)
    return _laid(jnp.where(seen[:, None], 0.0, -jnp.inf).astype(jnp.float32), BATCH)


def _attention(query: Array, key: Array, value: Array, mask: Array) -> Array:
    wide = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("bqhw,bkhw->bhqk", query, key, preferred_element_type=wide) * query.shape[-1] ** -0.5
    return _product("bhqk,bkhw->bqhw", jax.nn.softmax(scores + mask, axis=-1).astype(query.dtype), value)


def _product(terms: str, left: Array, right: Array) -> Array:
    """Summed in at least float32, and rounded once."""
    wide = jnp.promote_types(left.dtype, jnp.float32)
    return jnp.einsum(terms, left, right, preferred_element_type=wide).astype(left.dtype)


def _embedded(tokens: Array, table: Array) -> Array:
    one_hot = (tokens[..., None] == jnp.arange(table.shape[0], dtype=jnp.int32)).astype(table.dtype)
    return _product("...v,ve->...e", one_hot, table)


def _chosen(array: Array, index: Array, *, shared: bool = False) -> Array:
    """`array[stage, index[stage]]` of every stage, or `array[index[stage]]` of an array that the stages share."""

    def take(rows: Array, one: Array) -> Array:
        return rows.at[one].get()

    return jax.vmap(take, in_axes=(None if shared else 0, 0))(array, index)


def _only(layers: dict[str, Array]) -> dict[str, Array]:
    return {name: array[:, 0] for name, array in layers.items()}


def _on(rows: Array, chosen: Array, other: Array) -> Array:
    return jnp.where(rows.reshape(-1, *(1,) * (other.ndim - 1)), chosen, other)


def _rotated(state: Array, step: int) -> Array:
    """Every row to the stage `step` after it, the last to the first, by messages between devices."""
    devices = _devices(STAGE) or 1

    def move(rows: Array) -> Array:
        edge, rest = (rows[-1:], rows[:-1]) if step == 1 else (rows[:1], rows[1:])
        if devices > 1:
            edge = lax.ppermute(edge, STAGE, [(device, (device + step) % devices) for device in range(devices)])
        return jnp.concatenate([edge, rest] if step == 1 else [rest, edge])

    if devices == 1:
        return move(state)
    split = PartitionSpec(STAGE)
    return jax.shard_map(move, in_specs=split, out_specs=split, axis_names={STAGE})(state)


def _devices(axis: str) -> int:
    """The size of a mesh axis, 0 if there is none."""
    return jax.sharding.get_abstract_mesh().shape.get(axis, 0)


def _laid(array: Array, *axes: Any) -> Array:
    """A constraint on how the array lies, those that split nothing included; axes that the mesh lacks split nothing."""
    if jax.sharding.get_abstract_mesh().empty:
        return array
    named = (((entry,) if isinstance(entry, str) else entry or ()) for entry in axes)
    spec = [tuple(axis for axis in names if _devices(axis)) or None for names in named]
    return lax.with_sharding_constraint(array, PartitionSpec(*spec))


def _check(tokens: Array, segments: Array, weights: dict[str, Array], microbatches: int, repeats: int) -> int:
    """The number of stages, after checking the arguments."""
    if tokens.ndim != 2 or segments.shape != tokens.shape:
        raise ValueError(
            f"tokens and segments have shapes {tokens.shape} and {segments.shape}; expected twice [batch, seq]"
        )
    if {name: array.ndim for name, array in weights.items()} != WEIGHTS:
        found = {name: array.shape for name, array in weights.items()}
        raise ValueError(f"weights are {found}; expected {', '.join(WEIGHTS)}, each [stages, layers, ...]")
    (stages, layers), *others = {array.shape[:2] for array in weights.values()}
    if others or repeats < 1 or layers % repeats:
        shapes = [array.shape[:2] for array in weights.values()]
        raise ValueError(f"weights have {shapes} stages and layers; expected the same, in {repeats} equal parts")
    if microbatches < 1 or microbatches % stages or tokens.shape[0] % microbatches:
        raise ValueError(
            f"microbatches is {microbatches}; expected a multiple of the {stages} stages that divides the batch's "
            f"{tokens.shape[0]} rows"
        )
    return stages
