"""Sequences that are split over a mesh of four devices, or over a mapped axis with a name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from tests.properties.specimens.specimen import LENGTH, SEGMENTS, WIDTH, Specimen, X, arrays, pair, twins

SHARDS = 4
AXIS = "context"
ROW = P(None, AXIS)
NEXT = [(i, (i + 1) % SHARDS) for i in range(SHARDS)]


def on_mesh(function: Callable[..., Any], *arguments: Array) -> Any:
    """Run it on every shard of the length."""
    mesh = Mesh(np.array(jax.devices()[:SHARDS]), (AXIS,))
    return jax.shard_map(function, mesh=mesh, in_specs=(ROW,) * len(arguments), out_specs=ROW, check_vma=False)(
        *arguments
    )


def mapped(function: Callable[..., Any], *arguments: Array) -> Array:
    """Run it on parts of the length, one after the other in a mapped axis."""
    parts = [jnp.moveaxis(a.reshape(2, SHARDS, LENGTH // SHARDS, *a.shape[2:]), 1, 0) for a in arguments]
    return jnp.moveaxis(jax.vmap(function, axis_name=AXIS)(*parts), 0, 1).reshape(arguments[0].shape)


def ring(x: Array, w: Array, *, source: int) -> Array:
    """Causal attention: keys and values go round; with the wrong sign of `source` the mask is of another shard's."""
    size = LENGTH // SHARDS

    def shard(part: Array) -> Array:
        q, k, v = jnp.einsum("bsd,nde->nbse", part, w) / WIDTH**0.5
        mine, places = lax.axis_index(AXIS), jnp.arange(size)
        out, total = jnp.zeros_like(q), jnp.zeros(q.shape[:2])
        for turn in range(SHARDS):
            columns = (mine + source * turn) % SHARDS * size + places
            s = jnp.where((mine * size + places)[:, None] >= columns, jnp.einsum("bqd,bkd->bqk", q, k), -jnp.inf)
            out, total = out + jnp.exp(s) @ v, total + jnp.exp(s).sum(-1)
            k, v = lax.ppermute((k, v), AXIS, NEXT)
        return out / total[..., None]

    out: Array = on_mesh(shard, x)
    return out


def ring_of_documents(x: Array, w: Array, segment_ids: Array, *, rotate: bool) -> Array:
    """Attention in documents: the ids of keys go round with them, or stay where they were."""

    def shard(part: Array, ids: Array) -> Array:
        q, k, v = jnp.einsum("bsd,nde->nbse", part, w) / WIDTH**0.5

        def turn(_: int, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            k, v, keys, out, total = carry
            p = jnp.where(ids[:, :, None] == keys[:, None], jnp.exp(jnp.einsum("bqd,bkd->bqk", q, k)), 0.0)
            out, total = out + p @ v, total + p.sum(-1)
            k, v, moved = lax.ppermute((k, v, keys), AXIS, NEXT)
            return k, v, moved if rotate else keys, out, total

        zero = jnp.zeros(q.shape[:2])
        *_, out, total = lax.fori_loop(0, SHARDS, turn, (k, v, ids, jnp.zeros_like(q), zero))
        return out / total[..., None]

    out: Array = on_mesh(shard, x, segment_ids)
    return out


def halo(x: Array, kernel: Array, *, back: bool, run: Callable[..., Any]) -> Array:
    """A convolution of two taps: the last token of the shard before comes first, or the first one of the next shard."""

    def shard(part: Array) -> Array:
        index = lax.axis_index(AXIS)
        if back:
            edge = jnp.where(index > 0, lax.ppermute(part[:, -1:], AXIS, NEXT), 0.0)
            beside = jnp.concatenate([edge, part[:, :-1]], axis=1)
        else:
            edge = lax.ppermute(part[:, :1], AXIS, [(b, a) for a, b in NEXT])
            beside = jnp.concatenate([part[:, 1:], jnp.where(index < SHARDS - 1, edge, 0.0)], axis=1)
        return part * kernel[0] + beside * kernel[1]

    out: Array = run(shard, x)
    return out


def prefix(x: Array, *, strict: bool) -> Array:
    """Cumulative sums: each shard adds what all shards have before it, or what all have."""

    def shard(part: Array) -> Array:
        sums = lax.all_gather(part.sum(1), AXIS)
        earlier = jnp.arange(SHARDS) < lax.axis_index(AXIS)
        offset = jnp.where(earlier[:, None, None], sums, 0.0).sum(0) if strict else lax.psum(part.sum(1), AXIS)
        return jnp.cumsum(part, axis=1) + offset[:, None]

    out: Array = on_mesh(shard, x)
    return out


def gathered(x: Array, w: Array, *, local: bool) -> Array:
    """Keys and values are gathered; the positions of queries are local, or those of the whole sequence."""

    def shard(part: Array) -> Array:
        q, k, v = jnp.einsum("bsd,nde->nbse", part, w) / WIDTH**0.5
        k, v = lax.all_gather((k, v), AXIS, axis=1, tiled=True)
        size = part.shape[1]
        index = SHARDS - 1 if local else lax.axis_index(AXIS)
        mask = (index * size + jnp.arange(size))[:, None] >= jnp.arange(LENGTH)
        p = jax.nn.softmax(jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, k), -1e30))
        return p @ v

    out: Array = on_mesh(shard, x)
    return out


MESH: tuple[Specimen, ...] = (
    *pair("ring_source", twins(ring, source=(1, -1)), "causal", arrays(x=X, w=(3, WIDTH, WIDTH))),
    *pair(
        "ring_documents",
        twins(ring_of_documents, rotate=(False, True)),
        "packed",
        arrays(x=X, w=(3, WIDTH, WIDTH), segment_ids=SEGMENTS),
        segment_ids="segment_ids",
    ),
    *pair(
        "halo_of_next",
        twins(partial(halo, run=on_mesh), back=(False, True)),
        "causal",
        arrays(x=X, kernel=(2, WIDTH)),
        gradient=True,
    ),
    *pair(
        "halo_mapped", twins(partial(halo, run=mapped), back=(False, True)), "causal", arrays(x=X, kernel=(2, WIDTH))
    ),
    *pair("prefix_of_shards", twins(prefix, strict=(False, True)), "causal", arrays(x=X)),
    *pair("gathered_keys", twins(gathered, local=(True, False)), "causal", arrays(x=X, w=(3, WIDTH, WIDTH))),
)
