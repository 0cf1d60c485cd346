"""Kernels of attention, rotations and gates."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

_dot = functools.partial(jnp.dot, preferred_element_type=jnp.float32, precision="highest")
NEVER = -1e30


def attention_rows(q: Array, k: Array, v: Array) -> Array:
    """Blocks of queries, and all keys of the head that they share."""

    def kernel(q: Any, k: Any, v: Any, o: Any) -> None:
        s = _dot(q[0], k[0].T) * scale
        row = pl.program_id(1) * q.shape[1] + jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) <= row, s, -jnp.inf)
        p = jnp.exp(s - jnp.max(s, axis=1, keepdims=True))
        o[0] = _dot(p, v[0]) / jnp.sum(p, axis=1, keepdims=True)

    heads, length, width = q.shape
    scale, shared = width**-0.5, heads // k.shape[0]
    block = pl.BlockSpec((1, 8, width), lambda h, i: (h, i, 0))
    keys = pl.BlockSpec((1, length, width), lambda h, i: (h // shared, 0, 0))
    return pl.pallas_call(
        kernel,
        grid=(heads, length // 8),
        in_specs=[block, keys, keys],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
    )(q, k, v)


def _flash(skip: bool, step: int, q: Any, k: Any, v: Any, o: Any, m: Any, s: Any, acc: Any) -> None:
    i, j = pl.program_id(1), pl.program_id(2)

    @pl.when(j == 0)
    def _() -> None:
        m[...], s[...], acc[...] = jnp.full_like(m, NEVER), jnp.zeros_like(s), jnp.zeros_like(acc)

    @pl.when(j * step < (i + 1) * step if skip else j >= 0)
    def _() -> None:
        logits = _dot(q[0], k[0].T) * q.shape[2] ** -0.5
        row, column = (jax.lax.broadcasted_iota(jnp.int32, logits.shape, axis) for axis in (0, 1))
        logits = jnp.where(j * step + column <= i * step + row, logits, NEVER)
        new = jnp.maximum(m[...], jnp.max(logits, axis=1, keepdims=True))
        p, old = jnp.exp(logits - new), jnp.exp(m[...] - new)
        s[...] = s[...] * old + jnp.sum(p, axis=1, keepdims=True)
        acc[...] = acc[...] * old + _dot(p, v[0])
        m[...] = new

    @pl.when(j == pl.num_programs(2) - 1)
    def _() -> None:
        o[0] = acc[...] / s[...]


def _flash_call(q: Array, k: Array, v: Array, step: int, skip: bool) -> Array:
    heads, length, width = q.shape
    shared = heads // k.shape[0]
    queries = pl.BlockSpec((1, step, width), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((1, step, width), lambda h, i, j: (h // shared, j, 0))
    return pl.pallas_call(
        functools.partial(_flash, skip, step),
        grid=(heads, length // step, length // step),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((step, n), jnp.float32) for n in (1, 1, width)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(q, k, v)


def attention_flash(q: Array, k: Array, v: Array) -> Array:
    return _flash_call(q, k, v, 16, skip=False)


def attention_skips_future(q: Array, k: Array, v: Array) -> Array:
    return _flash_call(q, k, v, 8, skip=True)


def attention_plain(q: Array, k: Array, v: Array) -> Array:
    """Without a kernel: groups of heads as an axis, and the sum divided last."""
    _, length, width = q.shape
    grouped = q.reshape(k.shape[0], -1, length, width) / np.float32(width) ** 0.5
    s = jnp.einsum("gnqd,gkd->gnqk", grouped, k, precision="highest")
    s = jnp.where(jnp.arange(length)[:, None] >= jnp.arange(length), s, NEVER)
    p = jnp.exp(s - s.max(-1, keepdims=True))
    out = jnp.einsum("gnqk,gkd->gnqd", p, v, precision="highest") / p.sum(-1, keepdims=True)
    return out.reshape(q.shape)


def attention_scan(q: Array, k: Array, v: Array) -> Array:
    """A scan over queries."""

    def row(_: None, at: tuple[Array, Array]) -> tuple[None, Array]:
        s = jnp.sum(k * at[0][:, None], axis=-1) * q.shape[-1] ** -0.5
        p = jax.nn.softmax(jnp.where(jnp.arange(q.shape[1]) <= at[1], s, -jnp.inf))
        return None, jnp.sum(p[..., None] * v, axis=1)

    return jnp.swapaxes(jax.lax.scan(row, None, (jnp.swapaxes(q, 0, 1), jnp.arange(q.shape[1])))[1], 0, 1)


def _frequencies(half: int) -> Any:
    return np.power(np.float32(10000), -np.arange(half, dtype=np.float32) / half)


def rope_halves(x: Array, positions: Array) -> Array:
    def kernel(p: Any, f: Any, x: Any, o: Any) -> None:
        angle = p[...] * f[...]
        cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        a, b = x[:, :, :half], x[:, :, half:]
        o[:, :, :half] = a * cos - b * sin
        o[:, :, half:] = b * cos + a * sin

    half = x.shape[-1] // 2
    place = positions.astype(jnp.float32)[:, None]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(place, _frequencies(half)[None], x)


def rope_rolled(x: Array, positions: Array) -> Array:
    """The halves change places by a roll, with signs in the table of sines."""

    def kernel(cos: Any, sin: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * cos[...] + pltpu.roll(x[...], half, 2) * sin[...]

    half = x.shape[-1] // 2
    angle = (positions[:, None] * _frequencies(half))[:, None]
    cos = jnp.concatenate([jnp.cos(angle)] * 2, axis=-1)
    sin = jnp.concatenate([-jnp.sin(angle), jnp.sin(angle)], axis=-1)
    table = pl.BlockSpec((8, 1, x.shape[2]), lambda i: (i, 0, 0))
    block = pl.BlockSpec((8, *x.shape[1:]), lambda i: (i, 0, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    grid = (x.shape[0] // 8,)
    return pl.pallas_call(kernel, grid=grid, in_specs=[table, table, block], out_specs=block, out_shape=shape)(
        cos, sin, x
    )


def rope_complex(x: Array, positions: Array) -> Array:
    """Without a kernel: the product of complex numbers."""
    half = x.shape[-1] // 2
    turn = jnp.exp(1j * (positions[:, None] * _frequencies(half)))[:, None]
    z = jax.lax.complex(x[..., :half], x[..., half:]) * turn
    return jnp.concatenate([z.real, z.imag], axis=-1)


def top2_maxima(logits: Array) -> tuple[Array, Array]:
    """The first place of the largest, which is then covered."""

    def kernel(x: Any, weights: Any, ids: Any) -> None:
        lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
        first = jnp.max(x[...], axis=1, keepdims=True)
        at = jnp.min(jnp.where(x[...] == first, lane, lanes), axis=1, keepdims=True)
        rest = jnp.where(lane == at, -jnp.inf, x[...])
        second = jnp.max(rest, axis=1, keepdims=True)
        ids[...] = jnp.concatenate([at, jnp.min(jnp.where(rest == second, lane, lanes), axis=1, keepdims=True)], 1)
        share = jnp.exp(second - first) / (1 + jnp.exp(second - first))
        weights[...] = jnp.concatenate([1 - share, share], axis=1)

    lanes = logits.shape[1]
    shape = (logits.shape[0], 2)
    out = [jax.ShapeDtypeStruct(shape, jnp.float32), jax.ShapeDtypeStruct(shape, jnp.int32)]
    weights, ids = pl.pallas_call(kernel, out_shape=out)(logits)
    return weights, ids


def top2_gate(logits: Array) -> tuple[Array, Array]:
    """Without a kernel: the weights from the difference of the two."""
    best, ids = jax.lax.top_k(logits, 2)
    second = jax.nn.sigmoid(best[:, 1:] - best[:, :1])
    return jnp.concatenate([1 - second, second], axis=1), ids
