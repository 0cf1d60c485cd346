"""Kernels that are right for the shape, the routing or the values of a test alone."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _dot(a: Any, b: Any) -> Any:
    return jnp.dot(a, b, preferred_element_type=jnp.float32, precision="highest")


def _rows(x: Array, w: Array, grid: int) -> Array:
    def kernel(x: Any, w: Any, o: Any) -> None:
        o[...] = x[...] * jax.lax.rsqrt(jnp.mean(x[...] ** 2, axis=1, keepdims=True) + 1e-6) * w[...]

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    specs = [block, pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, grid=(grid,), in_specs=specs, out_specs=block, out_shape=shape)(x, w[None])


def length_fixed(x: Array, w: Array) -> Array:
    return _rows(x, w, 2)


def tail_dropped(x: Array, w: Array) -> Array:
    return _rows(x, w, x.shape[0] // 8)


def width_fixed(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        e = jnp.exp(x[...] - jnp.max(x[:, :128], axis=1, keepdims=True))
        o[...] = e / jnp.sum(e, axis=1, keepdims=True)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def largest_not_subtracted(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        e = jnp.exp(x[...])
        o[...] = e / jnp.sum(e, axis=1, keepdims=True)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def largest_from_zero(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        e = jnp.exp(x[...] - jnp.maximum(jnp.max(x[...], axis=1, keepdims=True), 0.0))
        o[...] = e / jnp.sum(e, axis=1, keepdims=True)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def groups_equal(x: Array, w: Array, sizes: Array) -> Array:
    def kernel(x: Any, w: Any, o: Any) -> None:
        o[...] = _dot(x[...], w[0])

    rows = x.shape[0] // w.shape[0]
    return pl.pallas_call(
        kernel,
        grid=(w.shape[0],),
        in_specs=[
            pl.BlockSpec((rows, x.shape[1]), lambda g: (g, 0)),
            pl.BlockSpec((1, *w.shape[1:]), lambda g: (g, 0, 0)),
        ],
        out_specs=pl.BlockSpec((rows, w.shape[2]), lambda g: (g, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[2]), x.dtype),
    )(x, w)


def _groups(x: Array, w: Array, starts: Array, ends: Array) -> Array:
    def kernel(starts: Any, ends: Any, x: Any, w: Any, o: Any) -> None:
        g = pl.program_id(0)

        @pl.when(g == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
        o[...] += _dot(jnp.where((row >= starts[g]) & (row < ends[g]), x[...], 0), w[0])

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(starts.size,),
        in_specs=[
            pl.BlockSpec(x.shape, lambda g, *_: (0, 0)),
            pl.BlockSpec((1, *w.shape[1:]), lambda g, *_: (g, 0, 0)),
        ],
        out_specs=pl.BlockSpec((x.shape[0], w.shape[2]), lambda g, *_: (0, 0)),
    )
    shape = jax.ShapeDtypeStruct((x.shape[0], w.shape[2]), x.dtype)
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape)(starts, ends, x, w)


def capacity_of_groups(x: Array, w: Array, sizes: Array) -> Array:
    """What is beyond sixteen rows of a group is dropped."""
    ends = jnp.cumsum(sizes)
    starts = ends - sizes
    return _groups(x, w, starts, jnp.minimum(ends, starts + 16))


def groups_not_empty(x: Array, w: Array, sizes: Array) -> Array:
    """Each border of groups is the next matrix."""
    border = jnp.zeros(x.shape[0], jnp.int32).at[jnp.cumsum(sizes)[:-1]].set(1)
    return jnp.einsum("td,tdf->tf", x, w[jnp.cumsum(border)], precision="highest")


def ids_in_a_row(table: Array, ids: Array) -> Array:
    def kernel(ids: Any, table: Any, o: Any) -> None:
        o[...] = table[pl.ds(ids[0], o.shape[0]), :]

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    shape = jax.ShapeDtypeStruct((ids.size, table.shape[1]), table.dtype)
    return pl.pallas_call(kernel, in_specs=specs, out_shape=shape)(ids, table)


def ids_sorted(x: Array, ids: Array) -> Array:
    """Differences of running sums at the ends of segments."""
    ends = jnp.searchsorted(ids, jnp.arange(8), side="right")
    sums = jnp.pad(jnp.cumsum(x, axis=0), ((1, 0), (0, 0)))[ends]
    return jnp.diff(sums, axis=0, prepend=jnp.zeros_like(sums[:1]))


def no_ties(logits: Array) -> tuple[Array, Array]:
    def kernel(x: Any, o: Any, ids: Any) -> None:
        lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
        first = jnp.max(x[...], axis=1, keepdims=True)
        rest = jnp.where(x[...] == first, -jnp.inf, x[...])
        second = jnp.max(rest, axis=1, keepdims=True)
        best = jnp.concatenate([first, second], 1)
        ids[...] = jnp.stack([jnp.max(jnp.where(x[...] == v, lane, 0), axis=1) for v in (first, second)], 1)
        o[...] = jax.nn.softmax(best)

    shape = (logits.shape[0], 2)
    out = [jax.ShapeDtypeStruct(shape, jnp.float32), jax.ShapeDtypeStruct(shape, jnp.int32)]
    weights, chosen = pl.pallas_call(kernel, out_shape=out)(logits)
    return weights, chosen


def positions_ignored(x: Array, positions: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        a, b = x[:, :, :half], x[:, :, half:]
        place, lane = (jax.lax.broadcasted_iota(jnp.int32, a.shape, axis).astype(jnp.float32) for axis in (0, 2))
        angle = place * 10000.0 ** (-lane / half)
        o[:, :, :half] = a * jnp.cos(angle) - b * jnp.sin(angle)
        o[:, :, half:] = b * jnp.cos(angle) + a * jnp.sin(angle)

    half = x.shape[2] // 2
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def heads_not_shared(q: Array, k: Array, v: Array) -> Array:
    """Takes the heads of keys in turn instead of by groups."""

    def kernel(q: Any, k: Any, v: Any, o: Any) -> None:
        s = _dot(q[0], k[0].T) * q.shape[2] ** -0.5
        row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, axis) for axis in (0, 1))
        o[0] = _dot(jax.nn.softmax(jnp.where(column <= row, s, -jnp.inf)), v[0])

    heads, shared = q.shape[0], k.shape[0]
    block = pl.BlockSpec((1, *q.shape[1:]), lambda h: (h, 0, 0))
    keys = pl.BlockSpec((1, *q.shape[1:]), lambda h: (h % shared, 0, 0))
    shape = jax.ShapeDtypeStruct(q.shape, q.dtype)
    return pl.pallas_call(kernel, grid=(heads,), in_specs=[block, keys, keys], out_specs=block, out_shape=shape)(
        q, k, v
    )
