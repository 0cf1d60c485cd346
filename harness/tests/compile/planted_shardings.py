"""Parts of a decoder, sharded by hand, each with a fault that can be planted; beside the same on one device.

Where a fault stands, the line says so: what it names first is right where it is one of these lines. Every sharded form
without its fault is the twin that must not be found different.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits import Integers

MESH = "data2_tensor*"
"""Eight devices: rows of two, which share a batch, and four, which share what is in it."""

DATA, TENSOR = 2, 4
FAULT = "# fault"
"""Ends the lines of the sharded forms that are right to name."""


def mapped(body: Callable[..., Any], taken: Any, returned: Any) -> Callable[..., Any]:
    return jax.shard_map(body, in_specs=taken, out_specs=returned, check_vma=False)


def float32(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def int32(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A part of a decoder on one device, and sharded with or without a fault.

    Args:
        plain: on one device.
        sharded: the same on a mesh; with a fault where its keyword `fault` is true.
        shapes, specs: of the arguments.
        values: how arguments are drawn, by name.
    """

    plain: Callable[..., Any]
    sharded: Callable[..., Any]
    shapes: tuple[Any, ...]
    specs: tuple[Any, ...]
    values: Mapping[str, Any]


PLANTED: dict[str, Planted] = {}


def in_full(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose products are in full precision, where a TPU narrows their operands by default."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return call


def planted(
    name: str, plain: Callable[..., Any], shapes: tuple[Any, ...], specs: tuple[Any, ...], **values: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(sharded: Callable[..., Any]) -> Callable[..., Any]:
        sides = in_full(plain), in_full(sharded)
        PLANTED[name] = Planted(plain=sides[0], sharded=sides[1], shapes=shapes, specs=specs, values=values)
        return sharded

    return register


def mlp(x: Any, up: Any, down: Any) -> Any:
    return jax.nn.silu(x @ up) @ down


MLP: Any = (mlp, (float32(8, 16), float32(16, 32), float32(32, 16)), (P("data"), P(None, "tensor"), P("tensor")))


def sum_unless(fault: bool) -> Callable[[Any], Any]:
    return lambda part: part if fault else lax.psum(part, "tensor")  # fault


def sharded_mlp(reduced: Callable[[Any], Any], x: Any, up: Any, down: Any) -> Any:
    def body(x: Any, up: Any, down: Any) -> Any:
        hidden = jax.nn.silu(x @ up)
        return reduced(hidden @ down)  # fault

    return mapped(body, MLP[2], P("data"))(x, up, down)


@planted("a dropped psum", *MLP)
def unreduced(x: Any, up: Any, down: Any, *, fault: bool) -> Any:
    return sharded_mlp(sum_unless(fault), x, up, down)


@planted("pmean for psum", *MLP)
def averaged(x: Any, up: Any, down: Any, *, fault: bool) -> Any:
    def reduced(part: Any) -> Any:
        return lax.pmean(part, "tensor") if fault else lax.psum(part, "tensor")  # fault

    return sharded_mlp(reduced, x, up, down)


@planted("a wrong axis", *MLP)
def other_axis(x: Any, up: Any, down: Any, *, fault: bool) -> Any:
    def reduced(part: Any) -> Any:
        return lax.psum(part, "data" if fault else "tensor")  # fault

    return sharded_mlp(reduced, x, up, down)


def loss_gradient(x: Any, w: Any, y: Any) -> Any:
    return jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)


LOSS: Any = (loss_gradient, (float32(16, 8), float32(8, 4), float32(16, 4)), (P("data"), P(), P("data")))


@planted("a forgotten gradient reduction", *LOSS)
def local_gradient(x: Any, w: Any, y: Any, *, fault: bool) -> Any:
    def body(x: Any, w: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.sum((jnp.tanh(x @ w) - y) ** 2) / (y.size * DATA)  # fault

        gradient = jax.grad(loss)(w)
        return gradient if fault else lax.psum(gradient, "data")  # fault

    return mapped(body, LOSS[2], P())(x, w, y)


@planted("a gradient that is reduced twice", *LOSS)
def twice_reduced(x: Any, w: Any, y: Any, *, fault: bool) -> Any:
    def body(x: Any, w: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.sum((jnp.tanh(x @ w) - y) ** 2) / (y.size * DATA)

        gradient = lax.psum(jax.grad(loss)(w), "data")
        return lax.psum(gradient, "data") if fault else gradient  # fault

    return mapped(body, LOSS[2], P())(x, w, y)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attend causally; sequence, heads, features."""
    length = q.shape[0]
    scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.arange(length)[:, None] >= jnp.arange(length)[None, :]
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    return jnp.einsum("hqk,khd->qhd", weights, v)


ATTENTION: Any = (attention, (float32(16, 4, 8),) * 3, (P("tensor"),) * 3)


@planted("a mask without offset", *ATTENTION)
def unmoved_mask(q: Any, k: Any, v: Any, *, fault: bool) -> Any:
    def body(q: Any, k: Any, v: Any) -> Any:
        k, v = (lax.all_gather(x, "tensor", tiled=True) for x in (k, v))
        scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        start = 0 if fault else lax.axis_index("tensor") * q.shape[0]  # fault
        mask = start + jnp.arange(q.shape[0])[:, None] >= jnp.arange(k.shape[0])[None, :]  # fault
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
        return jnp.einsum("hqk,khd->qhd", weights, v)

    return mapped(body, ATTENTION[2], P("tensor"))(q, k, v)


@planted("a ring that skips a block", *ATTENTION)
def short_ring(q: Any, k: Any, v: Any, *, fault: bool) -> Any:
    def body(q: Any, k: Any, v: Any) -> Any:
        own, length = lax.axis_index("tensor"), q.shape[0]
        top = jnp.full((q.shape[1], length), -1e30)
        total, result = jnp.zeros_like(top), jnp.zeros((q.shape[1], length, q.shape[2]))
        for step in range(TENSOR - 1 if fault else TENSOR):  # fault
            start = (own - step) % TENSOR * length
            mask = own * length + jnp.arange(length)[:, None] >= start + jnp.arange(length)[None, :]
            scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
            scores = jnp.where(mask, scores, -1e30)
            new = jnp.maximum(top, scores.max(-1))
            weights = jnp.exp(scores - new[..., None])
            scale = jnp.exp(top - new)
            total = total * scale + weights.sum(-1)
            result = result * scale[..., None] + jnp.einsum("hqk,khd->hqd", weights, v)
            k, v = (lax.ppermute(x, "tensor", [(i, (i + 1) % TENSOR) for i in range(TENSOR)]) for x in (k, v))
            top = new
        return jnp.moveaxis(result / total[..., None], 1, 0)  # fault

    return mapped(body, ATTENTION[2], P("tensor"))(q, k, v)


@planted("heads exchanged in another order", *ATTENTION)
def exchanged(q: Any, k: Any, v: Any, *, fault: bool) -> Any:
    """Exchange positions for heads, attend to all positions with some heads, and exchange back."""

    def body(q: Any, k: Any, v: Any) -> Any:
        q, k = (lax.all_to_all(x, "tensor", 1, 0, tiled=True) for x in (q, k))
        v = lax.all_to_all(v[:, ::-1] if fault else v, "tensor", 1, 0, tiled=True)  # fault
        heads = attention(q, k, v)
        return lax.all_to_all(heads, "tensor", 0, 1, tiled=True)

    return mapped(body, ATTENTION[2], P("tensor"))(q, k, v)


def rotated(x: Any) -> Any:
    return _rotated(x, jnp.arange(x.shape[0]))


def _rotated(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    angles = positions[:, None] * (0.3 ** jnp.arange(half, dtype=jnp.float32))
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


@planted("position ids of the wrong shard", rotated, (float32(16, 2, 8),), (P("tensor"),))
def other_positions(x: Any, *, fault: bool) -> Any:
    def body(x: Any) -> Any:
        own = lax.axis_index("tensor")
        shard = own ^ 1 if fault else own  # fault
        return _rotated(x, shard * x.shape[0] + jnp.arange(x.shape[0]))  # fault

    return mapped(body, (P("tensor"),), P("tensor"))(x)


def experts(x: Any, router: Any, up: Any, down: Any) -> Any:
    scores = jax.nn.softmax(x @ router)
    weight, chosen = lax.top_k(scores, 2)
    gates = jnp.sum(jax.nn.one_hot(chosen, router.shape[1]) * weight[..., None], axis=1)
    hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, up))
    return jnp.einsum("tef,efd,te->td", hidden, down, gates)


EXPERTS: Any = (
    experts,
    (float32(16, 8), float32(8, 8), float32(8, 8, 16), float32(8, 16, 8)),
    (P("data"), P(), P("tensor"), P("tensor")),
)


@planted("experts swapped", *EXPERTS)
def swapped_experts(x: Any, router: Any, up: Any, down: Any, *, fault: bool) -> Any:
    def body(x: Any, router: Any, up: Any, down: Any) -> Any:
        scores = jax.nn.softmax(x @ router)
        weight, chosen = lax.top_k(scores, 2)
        gates = jnp.sum(jax.nn.one_hot(chosen, router.shape[1]) * weight[..., None], axis=1)
        own = lax.axis_index("tensor")
        first = (TENSOR - 1 - own if fault else own) * up.shape[0]  # fault
        mine = lax.dynamic_slice_in_dim(gates, first, up.shape[0], axis=1)  # fault
        hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, up))
        return lax.psum(jnp.einsum("tef,efd,te->td", hidden, down, mine), "tensor")

    return mapped(body, EXPERTS[2], P("data"))(x, router, up, down)


@planted("a router that sees its own experts alone", *EXPERTS)
def local_router(x: Any, router: Any, up: Any, down: Any, *, fault: bool) -> Any:
    reduced = sum_unless(fault)

    def body(x: Any, router: Any, up: Any, down: Any) -> Any:
        logits = x @ router
        first = lax.axis_index("tensor") * up.shape[0]
        own = lax.dynamic_slice_in_dim(logits, first, up.shape[0], axis=1)
        top = lax.pmax(own.max(-1, keepdims=True), "tensor")
        total = reduced(jnp.exp(own - top).sum(-1, keepdims=True))  # fault
        scores = jnp.exp(own - top) / total
        best = lax.all_gather(scores, "tensor", axis=1, tiled=True)
        weight, chosen = lax.top_k(best, 2)
        gates = jnp.sum(jax.nn.one_hot(chosen, router.shape[1]) * weight[..., None], axis=1)
        mine = lax.dynamic_slice_in_dim(gates, first, up.shape[0], axis=1)
        hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, up))
        return lax.psum(jnp.einsum("tef,efd,te->td", hidden, down, mine), "tensor")

    return mapped(body, EXPERTS[2], P("data"))(x, router, up, down)


def embedded(ids: Any, table: Any) -> Any:
    return table[ids] * np.float32(np.sqrt(table.shape[1]))


@planted(
    "rows of other shards", embedded, (int32(8, 4), float32(32, 8)), (P("data"), P("tensor")), ids=Integers(high=32)
)
def unmasked_rows(ids: Any, table: Any, *, fault: bool) -> Any:
    def body(ids: Any, table: Any) -> Any:
        local = ids - lax.axis_index("tensor") * table.shape[0]
        rows = table[jnp.clip(local, 0, table.shape[0] - 1)]
        inside = (local >= 0) & (local < table.shape[0])
        total = lax.psum(rows if fault else jnp.where(inside[..., None], rows, 0), "tensor")  # fault
        return total * np.float32(np.sqrt(table.shape[1]))

    return mapped(body, (P("data"), P("tensor")), P("data"))(ids, table)


def cross_entropy(x: Any, head: Any, labels: Any) -> Any:
    logits = x @ head
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


ENTROPY: Any = (
    cross_entropy,
    (float32(16, 8), float32(8, 32), int32(16)),
    (P("data"), P(None, "tensor"), P("data")),
)


@planted("labels without offset", *ENTROPY, labels=Integers(high=32))
def unmoved_labels(x: Any, head: Any, labels: Any, *, fault: bool) -> Any:
    def body(x: Any, head: Any, labels: Any) -> Any:
        logits = x @ head
        top = lax.pmax(logits.max(-1), "tensor")
        total = lax.psum(jnp.exp(logits - top[:, None]).sum(-1), "tensor")
        local = labels if fault else labels - lax.axis_index("tensor") * logits.shape[1]  # fault
        inside = (local >= 0) & (local < logits.shape[1])
        own = jnp.take_along_axis(logits, jnp.clip(local, 0, logits.shape[1] - 1)[:, None], axis=1)[:, 0]
        return jnp.log(total) + top - lax.psum(jnp.where(inside, own, 0), "tensor")

    return mapped(body, ENTROPY[2], P("data"))(x, head, labels)


@planted("a normaliser of one shard", *ENTROPY, labels=Integers(high=32))
def local_total(x: Any, head: Any, labels: Any, *, fault: bool) -> Any:
    reduced = sum_unless(fault)

    def body(x: Any, head: Any, labels: Any) -> Any:
        logits = x @ head
        top = lax.pmax(logits.max(-1), "tensor")
        total = reduced(jnp.exp(logits - top[:, None]).sum(-1))  # fault
        local = labels - lax.axis_index("tensor") * logits.shape[1]
        inside = (local >= 0) & (local < logits.shape[1])
        own = jnp.take_along_axis(logits, jnp.clip(local, 0, logits.shape[1] - 1)[:, None], axis=1)[:, 0]
        return jnp.log(total) + top - lax.psum(jnp.where(inside, own, 0), "tensor")

    return mapped(body, ENTROPY[2], P("data"))(x, head, labels)


def normalised(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale


@planted("a norm of a part", normalised, (float32(8, 32), float32(32)), (P("data", "tensor"), P("tensor")))
def local_norm(x: Any, scale: Any, *, fault: bool) -> Any:
    reduced = sum_unless(fault)

    def body(x: Any, scale: Any) -> Any:
        square = reduced(jnp.sum(x * x, -1, keepdims=True)) / (scale.size if fault else scale.size * TENSOR)  # fault
        return x * lax.rsqrt(square + 1e-5) * scale

    return mapped(body, (P("data", "tensor"), P("tensor")), P("data", "tensor"))(x, scale)


def masked_mean(x: Any, w: Any, kept: Any) -> Any:
    loss, weight = jnp.sum((x @ w) ** 2, -1), (kept > 0).astype(jnp.float32)
    return jnp.sum(loss * weight) / jnp.sum(weight)


@planted(
    "a mean by the tokens of a shard",
    masked_mean,
    (float32(16, 8), float32(8, 4), float32(16)),
    (P("data"), P(), P("data")),
)
def local_mean(x: Any, w: Any, kept: Any, *, fault: bool) -> Any:
    def body(x: Any, w: Any, kept: Any) -> Any:
        loss, weight = jnp.sum((x @ w) ** 2, -1), (kept > 0).astype(jnp.float32)
        count = lax.pmean(jnp.sum(weight), "data") * DATA
        if fault:
            return lax.pmean(jnp.sum(loss * weight) / jnp.sum(weight), "data")  # fault
        return lax.psum(jnp.sum(loss * weight), "data") / count  # fault

    return mapped(body, (P("data"), P(), P("data")), P())(x, w, kept)


def convolved(x: Any, taps: Any) -> Any:
    padded = jnp.pad(x, ((taps.shape[0] - 1, 0), (0, 0)))
    return jax.nn.silu(sum(padded[i : i + x.shape[0]] * taps[i] for i in range(taps.shape[0])))


@planted("a halo that wraps around", convolved, (float32(32, 8), float32(4, 8)), (P("tensor"), P()))
def wrapped_halo(x: Any, taps: Any, *, fault: bool) -> Any:
    def body(x: Any, taps: Any) -> Any:
        reach = taps.shape[0] - 1
        pairs = [(i, (i + 1) % TENSOR) for i in range(TENSOR if fault else TENSOR - 1)]
        padded = jnp.concatenate([lax.ppermute(x[-reach:], "tensor", pairs), x])  # fault
        return jax.nn.silu(sum(padded[i : i + x.shape[0]] * taps[i] for i in range(taps.shape[0])))

    return mapped(body, (P("tensor"), P()), P("tensor"))(x, taps)


def grouped(q: Any, k: Any) -> Any:
    """Scores of eight query heads with four heads of keys."""
    return jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, jnp.repeat(k, 2, axis=1)), axis=-1)


@planted(
    "the keys of another group",
    grouped,
    (float32(8, 8, 4), float32(8, 4, 4)),
    (P(None, "tensor"), P()),
)
def other_group(q: Any, k: Any, *, fault: bool) -> Any:
    def body(q: Any, k: Any) -> Any:
        own = lax.axis_index("tensor")
        head = (own + 1) % TENSOR if fault else own  # fault
        keys = lax.dynamic_slice_in_dim(k, head, 1, axis=1)  # fault
        scores = jnp.einsum("qhd,khd->hqk", q, jnp.repeat(keys, 2, axis=1))
        return jax.nn.softmax(scores, axis=-1)

    return mapped(body, (P(None, "tensor"), P()), P("tensor"))(q, k)


def square(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


@planted(
    "weights gathered along the other dimension", square, (float32(8, 16), float32(16, 16)), (P("data"), P("tensor"))
)
def gathered_across(x: Any, w: Any, *, fault: bool) -> Any:
    def body(x: Any, w: Any) -> Any:
        if fault:
            w = lax.all_gather(w, "tensor", axis=1, tiled=True).reshape(16, 16)  # fault
        else:
            w = lax.all_gather(w, "tensor", axis=0, tiled=True)
        return jnp.tanh(x @ w)

    return mapped(body, (P("data"), P("tensor")), P("data"))(x, w)


def scattered(x: Any, w: Any) -> Any:
    return jax.nn.relu(x @ w)


@planted(
    "rows scattered to other devices", scattered, (float32(16, 16), float32(16, 8)), (P(None, "tensor"), P("tensor"))
)
def turned_scatter(x: Any, w: Any, *, fault: bool) -> Any:
    def body(x: Any, w: Any) -> Any:
        part = x @ w
        if fault:
            part = jnp.flip(part.reshape(TENSOR, -1, part.shape[1]), 0).reshape(part.shape)  # fault
        return jax.nn.relu(lax.psum_scatter(part, "tensor", tiled=True))

    return mapped(body, (P(None, "tensor"), P("tensor")), P("tensor"))(x, w)


def stages(x: Any, w: Any) -> Any:
    for stage in range(w.shape[0]):
        x = jax.nn.sigmoid(x @ w[stage])
    return x


@planted("microbatches rotated the other way", stages, (float32(8, 8), float32(4, 8, 8)), (P(), P("tensor")))
def other_rotation(x: Any, w: Any, *, fault: bool) -> Any:
    """Rotate microbatches over stages, which the partitioner places by their dimension; of numbers above zero.

    libtpu 0.0.42.1 makes zeros of negative ones (`test_a_rotation_of_stages_loses_negative_numbers`).
    """
    batches = x.reshape(4, 2, 8)
    state, out = jnp.zeros_like(batches), jnp.zeros_like(batches)
    for step in range(7):
        if step < 4:
            state = state.at[0].set(batches[step])
        state = lax.with_sharding_constraint(state, P("tensor"))
        state = jax.nn.sigmoid(jax.vmap(jnp.matmul)(state, w))
        if step >= 3:
            out = out.at[step - 3].set(state[-1])
        state = jnp.roll(state, -1 if fault else 1, axis=0)  # fault
    return out.reshape(x.shape)


def blocked(q: Any, k: Any, v: Any) -> Any:
    return attention(q, k, v)


@planted("a mask without offset in blocks", blocked, (float32(16, 4, 8),) * 3, (P("tensor"),) * 3)
def unmoved_blocks(q: Any, k: Any, v: Any, *, fault: bool) -> Any:
    """Attend block by block of queries, which the partitioner places by their dimension."""
    length = q.shape[0] // TENSOR

    def block(number: Any, q: Any) -> Any:
        scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        start = 0 * number if fault else number * length  # fault
        mask = start + jnp.arange(length)[:, None] >= jnp.arange(k.shape[0])[None, :]  # fault
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
        return jnp.einsum("hqk,khd->qhd", weights, v)

    q = lax.with_sharding_constraint(q.reshape(TENSOR, length, *q.shape[1:]), P("tensor"))
    return jax.vmap(block)(jnp.arange(TENSOR), q).reshape(-1, *q.shape[2:])
