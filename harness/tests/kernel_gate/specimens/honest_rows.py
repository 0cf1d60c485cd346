"""Kernels over rows: norms, softmax, losses, sums and sorting."""

import functools
import logging
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

EPSILON = 1e-6
TUNED: dict[tuple[int, ...], int] = {(16, 256): 16, (20, 256): 20, (1024, 4096): 128}
LOG = logging.getLogger(__name__)


def _normed(x: Any, w: Any, o: Any) -> None:
    y = x[...].astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + EPSILON)
    o[...] = (y * w[...].astype(jnp.float32)).astype(o.dtype)


def _norm_call(x: Array, w: Array, rows: int) -> Array:
    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        _normed,
        grid=(pl.cdiv(x.shape[0], rows),),
        in_specs=[block, pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, w.reshape(1, -1))


def rms_norm_blocks(x: Array, w: Array) -> Array:
    return _norm_call(x, w, 8)


def rms_norm_bf16(x: Array, w: Array) -> Array:
    """Statistics in float32; the result is as its input."""
    return _norm_call(x, w, 16)


def rms_norm_whole(x: Array, w: Array) -> Array:
    return pl.pallas_call(_normed, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, w)


def rms_norm_refuses(x: Array, w: Array) -> Array:
    if x.shape[0] % 8:
        raise ValueError(f"expected rows in multiples of 8, got {x.shape[0]}: pad them")
    return _norm_call(x, w, 8)


def rms_norm_falls_back(x: Array, w: Array) -> Array:
    if x.shape[0] % 8:
        y = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + EPSILON)
        return y * w
    return _norm_call(x, w, 8)


def rms_norm_padded(x: Array, w: Array) -> Array:
    padded = jnp.pad(x, ((0, -x.shape[0] % 8), (0, 0)))
    return _norm_call(padded, w, 8)[: x.shape[0]]


def rms_norm_fori(x: Array, w: Array) -> Array:
    def kernel(x: Any, w: Any, o: Any) -> None:
        def row(i: Any, _: None) -> None:
            y = x[pl.ds(i, 1), :]
            o[pl.ds(i, 1), :] = y / jnp.sqrt(jnp.sum(y * y) / x.shape[1] + EPSILON) * w[...]

        jax.lax.fori_loop(0, x.shape[0], row, None)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, w.reshape(1, -1))


@jax.custom_vjp
def rms_norm_vjp(x: Array, w: Array) -> Array:
    return _norm_call(x, w, 8)


def _norm_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    def kernel(x: Any, w: Any, g: Any, dx: Any, dw: Any) -> None:
        r = jax.lax.rsqrt(jnp.mean(x[...] ** 2, axis=-1, keepdims=True) + EPSILON)
        y, gw = x[...] * r, g[...] * w[...]
        dx[...] = r * (gw - y * jnp.mean(gw * y, axis=-1, keepdims=True))
        dw[...] = jnp.sum(g[...] * y, axis=0, keepdims=True)

    x, w = saved
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((1, w.size), w.dtype)]
    dx, dw = pl.pallas_call(kernel, out_shape=shapes)(x, w.reshape(1, -1), g)
    return dx, dw[0]


rms_norm_vjp.defvjp(lambda x, w: (_norm_call(x, w, 8), (x, w)), _norm_backward)


def layer_norm_masked(x: Array, w: Array, b: Array) -> Array:
    """In blocks of twelve rows, which need not divide them: what is outside counts as zero."""

    def kernel(x: Any, w: Any, b: Any, o: Any) -> None:
        row = pl.program_id(0) * 12 + jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
        y = jnp.where(row < rows, x[...], 0.0)
        y = y - jnp.mean(y, axis=1, keepdims=True)
        o[...] = y * jax.lax.rsqrt(jnp.mean(y * y, axis=1, keepdims=True) + 1e-5) * w[...] + b[...]

    rows, width = x.shape
    block, one = pl.BlockSpec((12, width), lambda i: (i, 0)), pl.BlockSpec((1, width), lambda i: (0, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        kernel, grid=(pl.cdiv(rows, 12),), in_specs=[block, one, one], out_specs=block, out_shape=shape
    )
    return call(x, w[None], b[None])


def _softmaxed(x: Any, o: Any) -> None:
    e = jnp.exp(x[...] - jnp.max(x[...], axis=-1, keepdims=True))
    o[...] = e / jnp.sum(e, axis=-1, keepdims=True)


def _softmax_call(x: Array, rows: int, kernel: Callable[..., None] = _softmaxed) -> Array:
    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    parallel = pltpu.CompilerParams(dimension_semantics=("parallel",))
    grid = (pl.cdiv(x.shape[0], rows),)
    return pl.pallas_call(
        kernel, grid=grid, in_specs=[block], out_specs=block, out_shape=shape, compiler_params=parallel
    )(x)


@functools.partial(jax.jit, static_argnames="rows")
def softmax_jit(x: Array, rows: int = 8) -> Array:
    return _softmax_call(x, rows)


def _scaled_powers(x: Any, o: Any, *, factor: float) -> None:
    y = x[...] * factor
    p = jnp.exp2(y - jnp.max(y, axis=-1, keepdims=True))
    o[...] = p * (1 / jnp.sum(p, axis=-1, keepdims=True))


def softmax_partial(x: Array) -> Array:
    return _softmax_call(x, 8, functools.partial(_scaled_powers, factor=math.log2(math.e)))


def softmax_tuned(x: Array) -> Array:
    """The sizes that were measured as fastest."""
    return _softmax_call(x, TUNED.get(x.shape, 8))


def softmax_backend(x: Array) -> Array:
    rows = {"tpu": 256, "gpu": 4}.get(jax.default_backend(), 8)
    return _softmax_call(x, min(rows, x.shape[0]))


@functools.lru_cache(maxsize=64)
def _built(shape: tuple[int, ...], dtype: Any) -> Callable[[Array], Array]:
    rows = next(n for n in (16, 8, 4, 2, 1) if shape[0] % n == 0)
    return jax.jit(lambda x: _softmax_call(x.astype(dtype), rows))


def softmax_lru(x: Array) -> Array:
    return _built(x.shape, x.dtype)(x)


def softmax_prints(x: Array) -> Array:
    print(f"softmax of {x.shape}")
    LOG.info("blocks of %d rows", 8)
    return _softmax_call(x, 8)


def softmax_online(x: Array) -> Array:
    """The largest value and the sum of blocks of columns, which a second kernel uses."""

    def statistics(x: Any, m: Any, s: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            m[...] = jnp.full_like(m, -jnp.inf)
            s[...] = jnp.zeros_like(s)

        largest = jnp.maximum(m[...], jnp.max(x[...], axis=1, keepdims=True))
        s[...] = s[...] * jnp.exp(m[...] - largest) + jnp.sum(jnp.exp(x[...] - largest), axis=1, keepdims=True)
        m[...] = largest

    def divide(x: Any, m: Any, s: Any, o: Any) -> None:
        o[...] = jnp.exp(x[...] - m[...]) / s[...]

    rows = x.shape[0]
    out = pl.BlockSpec((rows, 1), lambda j: (0, 0))
    m, s = pl.pallas_call(
        statistics,
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec((rows, 128), lambda j: (0, j))],
        out_specs=[out, out],
        out_shape=[jax.ShapeDtypeStruct((rows, 1), jnp.float32)] * 2,
    )(x)
    return pl.pallas_call(divide, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, m, s)


@jax.custom_vjp
def softmax_vjp(x: Array) -> Array:
    return _softmax_call(x, 8)


def _softmax_backward(y: Array, g: Array) -> tuple[Array]:
    def kernel(y: Any, g: Any, dx: Any) -> None:
        dx[...] = y[...] * (g[...] - jnp.sum(y[...] * g[...], axis=-1, keepdims=True))

    return (pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype))(y, g),)


softmax_vjp.defvjp(lambda x: (_softmax_call(x, 8),) * 2, _softmax_backward)


def cross_entropy_rows(logits: Array, labels: Array) -> Array:
    def kernel(x: Any, label: Any, o: Any) -> None:
        m = jnp.max(x[...], axis=1, keepdims=True)
        total = m + jnp.log(jnp.sum(jnp.exp(x[...] - m), axis=1, keepdims=True))
        hit = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1) == label[...]
        o[...] = total - jnp.sum(jnp.where(hit, x[...], 0.0), axis=1, keepdims=True)

    shape = jax.ShapeDtypeStruct((logits.shape[0], 1), logits.dtype)
    return pl.pallas_call(kernel, out_shape=shape)(logits, labels[:, None])[:, 0]


def cross_entropy_blocks(logits: Array, labels: Array) -> Array:
    """Over blocks of the vocabulary, with what is between them in scratch."""

    def kernel(x: Any, label: Any, o: Any, m: Any, s: Any, hit: Any) -> None:
        j = pl.program_id(0)

        @pl.when(j == 0)
        def _() -> None:
            m[...] = jnp.full_like(m, -jnp.inf)
            s[...], hit[...] = jnp.zeros_like(s), jnp.zeros_like(hit)

        new = jnp.maximum(m[...], jnp.max(x[...], axis=1, keepdims=True))
        s[...] = s[...] * jnp.exp(m[...] - new) + jnp.sum(jnp.exp(x[...] - new), axis=1, keepdims=True)
        m[...] = new
        column = j * 128 + jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
        hit[...] += jnp.sum(jnp.where(column == label[...], x[...], 0.0), axis=1, keepdims=True)

        @pl.when(j == pl.num_programs(0) - 1)
        def _() -> None:
            o[...] = m[...] + jnp.log(s[...]) - hit[...]

    rows = logits.shape[0]
    whole = pl.BlockSpec((rows, 1), lambda j: (0, 0))
    return pl.pallas_call(
        kernel,
        grid=(logits.shape[1] // 128,),
        in_specs=[pl.BlockSpec((rows, 128), lambda j: (0, j)), whole],
        out_specs=whole,
        out_shape=jax.ShapeDtypeStruct((rows, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((rows, 1), jnp.float32)] * 3,
    )(logits, labels[:, None])[:, 0]


def cumsum_carried(x: Array) -> Array:
    """A sum that is carried from block to block."""

    def kernel(x: Any, o: Any, carried: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            carried[...] = jnp.zeros_like(carried)

        total = carried[...]
        for i in range(x.shape[0]):
            total = total + x[i : i + 1, :]
            o[i : i + 1, :] = total
        carried[...] = total

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    scratch = [pltpu.VMEM((1, x.shape[1]), x.dtype)]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block, out_shape=shape, scratch_shapes=scratch
    )
    return call(x)


def cumsum_doubling(x: Array) -> Array:
    """Adds what is one, two, four and more rows before."""

    def kernel(x: Any, o: Any) -> None:
        row, total = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0), x[...]
        step = 1
        while step < x.shape[0]:
            total, step = total + jnp.where(row >= step, jnp.roll(total, step, axis=0), 0.0), 2 * step
        o[...] = total

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def sort_network(x: Array) -> Array:
    """A network of neighbours, which are compared as often as a row is long; NaN is the largest."""

    def kernel(x: Any, o: Any) -> None:
        lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)

        def step(i: Any, y: Any) -> Any:
            after = jnp.where(lane == width - 1, y, jnp.roll(y, -1, axis=1))
            before = jnp.where(lane == 0, y, jnp.roll(y, 1, axis=1))
            as_right = jnp.where((before > y) | (before != before), before, y)
            return jnp.where((lane + i) % 2 == 1, as_right, jnp.where((y > after) | (y != y), after, y))

        o[...] = jax.lax.fori_loop(0, width, step, x[...])

    width = x.shape[1]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def segment_sum_loop(x: Array, ids: Array) -> Array:
    def kernel(ids: Any, x: Any, o: Any) -> None:
        def add(i: Any, _: None) -> None:
            o[pl.ds(ids[i], 1), :] += x[pl.ds(i, 1), :]

        o[...] = jnp.zeros_like(o)
        jax.lax.fori_loop(0, x.shape[0], add, None)

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    shape = jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype)
    return pl.pallas_call(kernel, in_specs=specs, out_shape=shape)(ids, x)


def segment_sum_masks(x: Array, ids: Array) -> Array:
    def kernel(ids: Any, x: Any, o: Any) -> None:
        mask = ids[...] == pl.program_id(0)
        o[0] = jnp.sum(jnp.where(mask, x[...], 0.0), axis=0, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(8,),
        in_specs=[pl.BlockSpec((x.shape[0], 1), lambda s: (0, 0)), pl.BlockSpec(x.shape, lambda s: (0, 0))],
        out_specs=pl.BlockSpec((1, 1, x.shape[1]), lambda s: (s, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((8, 1, x.shape[1]), x.dtype),
    )(ids[:, None], x)[:, 0]
