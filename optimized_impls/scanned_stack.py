"""Decoder layers as pipeline stages in a scan, with one part at a time in a form claimed to need less memory.

What is computed is the same; `_Forms` says which parts are in their other form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
WEIGHTS = {"scales": 4, "qkv": 6, "merge": 5, "up": 5, "down": 4}
"""The weights, and how many dimensions they have."""


@dataclass(frozen=True, slots=True)
class _Forms:
    """Which parts have their other form; none is the reference."""

    multiply: bool = False
    no_trivial: bool = False
    causal_type: bool = False
    gather: bool = False
    slices: bool = False
    free_state: bool = False
    one_name: bool = False
    no_cast: bool = False
    dynamic_slice: bool = False


def all_together(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """The activations after all layers, every part in its other form.

    Equivalent to the reference where every row is one segment: `causal_type` does not look at segments.

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

    Source: MaxText pull request 3922, items 4 to 10 and 13.
    """
    forms = _Forms(True, True, True, True, True, True, True, True, True)
    return _run(forms, tokens, segments, table, microbatches, repeats, weights)


def multiply(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """RMSNorm's last product as a multiply.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 5.
    """
    return _run(_Forms(multiply=True), tokens, segments, table, microbatches, repeats, weights)


def no_trivial(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """No constraint for an array that it does not split.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, items 4 (a), 6.
    """
    return _run(_Forms(no_trivial=True), tokens, segments, table, microbatches, repeats, weights)


def causal_type(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """A causal mask known by its type, made of two counters where it is used; no mask array.

    Equivalent to the reference only where every row is one segment: segments are not looked at.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 8.
    """
    return _run(_Forms(causal_type=True), tokens, segments, table, microbatches, repeats, weights)


def gather(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """The embedding as a gather of rows, not as a product with a one-hot array.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 7.
    """
    return _run(_Forms(gather=True), tokens, segments, table, microbatches, repeats, weights)


def slices(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """Rows moved between stages by slices of the whole state, not by messages spelled out.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 10 (a).
    """
    return _run(_Forms(slices=True), tokens, segments, table, microbatches, repeats, weights)


def free_state(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """No constraint on the state that moves, on what the first stage gets and on the numbers of microbatches.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 10 (b).
    """
    return _run(_Forms(free_state=True), tokens, segments, table, microbatches, repeats, weights)


def one_name(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """Only the input of an iteration is kept for the way back, not that of every layer too.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 10 (c).
    """
    return _run(_Forms(one_name=True), tokens, segments, table, microbatches, repeats, weights)


def no_cast(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """No cast of weights, activations and their gradients to the dtype that they have.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, items 9 (b), 13 (b).
    """
    return _run(_Forms(no_cast=True), tokens, segments, table, microbatches, repeats, weights)


def dynamic_slice(
    tokens: Array, segments: Array, table: Array, *, microbatches: int, repeats: int = 1, **weights: Array
) -> Array:
    """Microbatches and weights of a repeat chosen by dynamic slices, not by indices.

    Takes, returns and refuses what `all_together` does. Source: MaxText pull request 3922, item 10 (e).
    """
    return _run(_Forms(dynamic_slice=True), tokens, segments, table, microbatches, repeats, weights)


def _run(
    forms: _Forms,
    tokens: Array,
    segments: Array,
    table: Array,
    microbatches: int,
    repeats: int,
    weights: dict[str, Array],
) -> Array:
    stages = _check(tokens, segments, weights, microbatches, repeats)
    per_stage = microbatches // stages
    rows = (tokens.shape[0] // microbatches, tokens.shape[1])
    laid = partial(_laid, forms)
    waiting = _embedded(forms, laid(tokens.reshape(stages, per_stage, *rows), STAGE, None, BATCH), table)
    waiting = laid(waiting, STAGE, None, BATCH)
    segments = laid(segments.reshape(microbatches, *rows), None, BATCH)
    layers = {name: array.reshape(stages, repeats, -1, *array.shape[2:]) for name, array in weights.items()}
    of_stages = jax.vmap(partial(_stage, forms), spmd_axis_name=STAGE if _devices(STAGE) else None)
    shift = jnp.zeros_like(waiting[:, 0])
    # What comes back to the first stage before its turn is kept here.
    held = jnp.zeros((stages, microbatches, *shift.shape[1:]), shift.dtype) if per_stage > 1 and repeats > 1 else None

    saved = ("iteration_input",) if forms.one_name else ("iteration_input", "decoder_layer_input")
    free = _free if forms.free_state else laid

    @partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names(*saved), prevent_cse=False)
    def iteration(carry: tuple[Array, Array, Array | None], now: Array) -> tuple[Any, None]:
        shift, waiting, held = carry
        shift = free(shift, STAGE, BATCH)
        stage = jnp.arange(stages)
        begun = jnp.maximum(now - stage, 0)
        microbatch, repeat = free(begun % microbatches, STAGE), jnp.minimum(begun // microbatches, repeats - 1)
        slot = now % per_stage
        fed = _at(forms, waiting, slot)
        returned = shift if held is None else _at(forms, held, now % microbatches)
        first = free(jnp.where(now < microbatches, fed, returned), STAGE, BATCH)
        x = checkpoint_name(_on(stage == 0, first, shift), "iteration_input")
        chosen = (
            {name: _chosen(forms, array, repeat) for name, array in layers.items()} if repeats > 1 else _only(layers)
        )
        there = _chosen(forms, segments, microbatch, shared=True)
        y = laid(of_stages(chosen, x, laid(there, STAGE, BATCH)), STAGE, BATCH)
        shift = _rotated(forms, y, 1)
        if held is not None:
            held = held.at[:, (now + 1 - stages) % microbatches].set(shift)
        waiting = waiting.at[:, slot].set(_on(stage == stages - 1, y, _rotated(forms, fed, -1)))
        return (shift, waiting, held), None

    iterations = jnp.arange(microbatches * repeats + stages - 1, dtype=jnp.int32)
    (_, waiting, _), _ = lax.scan(iteration, (shift, waiting, held), iterations)
    # The first result lies where the last stage put it, in the iteration that finished it.
    out = jnp.roll(waiting, 1 - stages, axis=1)
    return out.reshape(*tokens.shape, table.shape[1])


def _stage(forms: _Forms, weights: dict[str, Array], x: Array, segments: Array) -> Array:
    """The layers of one stage in one repeat, each recomputed on the way back."""
    mask = None if forms.causal_type else _mask(forms, segments)
    layer = jax.checkpoint(partial(_layer, forms), prevent_cse=False)

    def step(x: Array, weights: dict[str, Array]) -> tuple[Array, None]:
        return layer(weights, checkpoint_name(x, "decoder_layer_input"), mask), None

    return lax.scan(step, x, weights)[0]


def _layer(forms: _Forms, weights: dict[str, Array], x: Array, mask: Array | None) -> Array:
    cast: Callable[[Array], Array] = (lambda array: array) if forms.no_cast else (lambda array: array.astype(x.dtype))
    weights = {name: cast(array) for name, array in weights.items()}
    laid = partial(_laid, forms)
    query, key, value = _product("bse,eohw->obshw", _norm(forms, x, weights["scales"][0]), weights["qkv"])
    attended = laid(_attention(query, key, value, mask), BATCH, None, "tensor")
    x = laid(x + _product("bshw,hwe->bse", attended, weights["merge"]), BATCH)
    gate, up = _product("bse,eom->obsm", _norm(forms, x, weights["scales"][1]), weights["up"])
    hidden = laid(cast(jax.nn.silu(gate) * up), BATCH, None, "tensor")
    return cast(laid(x + _product("bsm,me->bse", hidden, weights["down"]), BATCH))


def _norm(forms: _Forms, x: Array, scale: Array) -> Array:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    normed = (wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPSILON)).astype(x.dtype)
    scale = _laid(forms, scale, None)
    scaled = normed * scale if forms.multiply else jnp.einsum("...k,k->...k", normed, scale)
    return _laid(forms, scaled, BATCH)


def _mask(forms: _Forms, segments: Array) -> Array:
    """`[batch, 1, seq, seq]` in float32: 0 where a query sees a key, else -inf."""
    order = jnp.arange(segments.shape[1])
    seen = (segments[:, :, None] == segments[:, None, :]) & (order[:, None] >= order)
    return _laid(forms, jnp.where(seen[:, None], 0.0, -jnp.inf).astype(jnp.float32), BATCH)


def _attention(query: Array, key: Array, value: Array, mask: Array | None) -> Array:
    wide = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("bqhw,bkhw->bhqk", query, key, preferred_element_type=wide) * query.shape[-1] ** -0.5
    if mask is None:
        order = (lax.broadcasted_iota(jnp.int32, scores.shape, dimension) for dimension in (2, 3))
        scores = jnp.where(lax.ge(*order), scores, -jnp.inf)
    else:
        scores += mask
    return _product("bhqk,bkhw->bqhw", jax.nn.softmax(scores, axis=-1).astype(query.dtype), value)


def _product(terms: str, left: Array, right: Array) -> Array:
    """Summed in at least float32, and rounded once."""
    wide = jnp.promote_types(left.dtype, jnp.float32)
    return jnp.einsum(terms, left, right, preferred_element_type=wide).astype(left.dtype)


def _embedded(forms: _Forms, tokens: Array, table: Array) -> Array:
    if forms.gather:
        return table.at[tokens].get(mode="fill", fill_value=0, wrap_negative_indices=False)
    one_hot = (tokens[..., None] == jnp.arange(table.shape[0], dtype=jnp.int32)).astype(table.dtype)
    return _product("...v,ve->...e", one_hot, table)


def _at(forms: _Forms, array: Array, slot: Array) -> Array:
    """`array[:, slot]`."""
    if forms.dynamic_slice:
        return lax.dynamic_slice_in_dim(array, slot, 1, 1)[:, 0]
    return array.at[:, slot].get()


def _chosen(forms: _Forms, array: Array, index: Array, *, shared: bool = False) -> Array:
    """`array[stage, index[stage]]` of every stage, or `array[index[stage]]` of an array that the stages share."""

    def take(rows: Array, one: Array) -> Array:
        return lax.dynamic_slice_in_dim(rows, one, 1)[0] if forms.dynamic_slice else rows.at[one].get()

    return jax.vmap(take, in_axes=(None if shared else 0, 0))(array, index)


def _only(layers: dict[str, Array]) -> dict[str, Array]:
    return {name: array[:, 0] for name, array in layers.items()}


def _on(rows: Array, chosen: Array, other: Array) -> Array:
    return jnp.where(rows.reshape(-1, *(1,) * (other.ndim - 1)), chosen, other)


def _rotated(forms: _Forms, state: Array, step: int) -> Array:
    """Every row to the stage `step` after it, the last to the first."""
    if forms.slices:
        cut = state.shape[0] - 1 if step == 1 else 1
        tail = lax.slice_in_dim(state, cut, state.shape[0])
        return jnp.concatenate([tail, lax.slice_in_dim(state, 0, cut)])
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


def _laid(forms: _Forms, array: Array, *axes: Any) -> Array:
    """A constraint on how the array lies; axes that the mesh lacks split nothing."""
    named = (((entry,) if isinstance(entry, str) else entry or ()) for entry in axes)
    spec = [tuple(axis for axis in names if _devices(axis)) or None for names in named]
    if jax.sharding.get_abstract_mesh().empty or (forms.no_trivial and not any(spec)):
        return array
    return lax.with_sharding_constraint(array, PartitionSpec(*spec))


def _free(array: Array, *axes: Any) -> Array:
    """The array as it is, for the compiler to lay out."""
    return array


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
