"""Kernels of products: matrices, experts, rows of tables and convolutions."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _dot(a: Any, b: Any) -> Any:
    return jnp.dot(a, b, preferred_element_type=jnp.float32, precision="highest")


def _accumulated(a: Any, b: Any, o: Any, acc: Any) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += _dot(a[...], b[...])

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        o[...] = acc[...].astype(o.dtype)


def _tiled(a: Array, b: Array, tile: tuple[int, int, int], backwards: bool = False) -> Array:
    (rows, inner), columns = a.shape, b.shape[1]
    m, n, k = tile
    last = inner // k - 1
    at: Any = (lambda p: last - p) if backwards else (lambda p: p)
    return pl.pallas_call(
        _accumulated,
        grid=(rows // m, columns // n, inner // k),
        in_specs=[pl.BlockSpec((m, k), lambda i, j, p: (i, at(p))), pl.BlockSpec((k, n), lambda i, j, p: (at(p), j))],
        out_specs=pl.BlockSpec((m, n), lambda i, j, p: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), a.dtype),
        scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(a, b)


def matmul_tiles(a: Array, b: Array) -> Array:
    return _tiled(a, b, (16, 128, 64))


def matmul_backwards(a: Array, b: Array) -> Array:
    return _tiled(a, b, (32, 128, 128), backwards=True)


def matmul_wide_sum(a: Array, b: Array) -> Array:
    """Bfloat16 multiplied, and float32 summed."""
    return _tiled(a, b, (32, 128, 32))


def matmul_halves(a: Array, b: Array) -> Array:
    half = a.shape[1] // 2
    return _tiled(a[:, :half], b[:half], (8, 128, 128)) + _tiled(a[:, half:], b[half:], (8, 128, 128))


def matmul_masked(a: Array, b: Array) -> Array:
    """Blocks that divide nothing: what is outside of the summed axis must be made zero on both sides."""

    def kernel(a: Any, b: Any, o: Any) -> None:
        k = pl.program_id(1)

        @pl.when(k == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        left = inner - k * 128
        x = jnp.where(jax.lax.broadcasted_iota(jnp.int32, a.shape, 1) < left, a[...], 0)
        y = jnp.where(jax.lax.broadcasted_iota(jnp.int32, b.shape, 0) < left, b[...], 0)
        o[...] += _dot(x, y)

    (rows, inner), columns = a.shape, b.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(rows, 8), pl.cdiv(inner, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k)), pl.BlockSpec((128, columns), lambda i, k: (k, 0))],
        out_specs=pl.BlockSpec((8, columns), lambda i, k: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), a.dtype),
    )(a, b)


def matmul_fori(a: Array, b: Array) -> Array:
    def kernel(a: Any, b: Any, o: Any) -> None:
        def step(k: Any, total: Any) -> Any:
            chunk = pl.ds(pl.multiple_of(k * 64, 64), 64)
            return total + _dot(a[:, chunk], b[chunk, :])

        o[...] = jax.lax.fori_loop(0, a.shape[1] // 64, step, jnp.zeros(o.shape, jnp.float32)).astype(o.dtype)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype))(a, b)


def matmul_transposed(a: Array, b: Array) -> Array:
    """The transposed product of what is transposed."""
    return _tiled(b.T, a.T, (64, a.shape[0], 64)).T


@jax.custom_vjp
def matmul_vjp(a: Array, b: Array) -> Array:
    return _tiled(a, b, (16, 128, 128))


matmul_vjp.defvjp(
    lambda a, b: (_tiled(a, b, (16, 128, 128)), (a, b)),
    lambda saved, g: (_tiled(g, saved[1].T, (16, 128, 128)), _tiled(saved[0].T, g, (128, 128, g.shape[0]))),
)


def linear_gelu_fused(x: Array, w: Array, b: Array) -> Array:
    def kernel(x: Any, w: Any, b: Any, o: Any) -> None:
        y = _dot(x[...], w[...]) + b[...]
        o[...] = y * 0.5 * (1 + jax.lax.erf(y * 0.5**0.5))

    rows, columns = x.shape[0], w.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(columns // 128,),
        in_specs=[
            pl.BlockSpec(x.shape, lambda j: (0, 0)),
            pl.BlockSpec((x.shape[1], 128), lambda j: (0, j)),
            pl.BlockSpec((1, 128), lambda j: (0, j)),
        ],
        out_specs=pl.BlockSpec((rows, 128), lambda j: (0, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
    )(x, w, b[None])


def linear_gelu_aliased(x: Array, w: Array, b: Array) -> Array:
    """The product is written over in place."""

    def kernel(y: Any, b: Any, o: Any) -> None:
        z = y[...] + b[...]
        o[...] = 0.5 * z * (1 + jax.lax.erf(z / jnp.sqrt(2.0)))

    y = _dot(x, w)
    shape = jax.ShapeDtypeStruct(y.shape, y.dtype)
    return pl.pallas_call(kernel, out_shape=shape, input_output_aliases={0: 0})(y, b[None])


def swiglu_fused(x: Array, gate: Array, up: Array, down: Array) -> Array:
    """Blocks of the hidden axis, whose parts are summed in the output."""

    def kernel(x: Any, gate: Any, up: Any, down: Any, o: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        g = _dot(x[...], gate[...])
        o[...] += _dot(g * jax.lax.logistic(g) * _dot(x[...], up[...]), down[...])

    rows, width = x.shape
    block = pl.BlockSpec((8, width), lambda i, h: (i, 0))
    columns = pl.BlockSpec((width, 128), lambda i, h: (0, h))
    return pl.pallas_call(
        kernel,
        grid=(rows // 8, gate.shape[1] // 128),
        in_specs=[block, columns, columns, pl.BlockSpec((128, width), lambda i, h: (h, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, gate, up, down)


def swiglu_joined(x: Array, gate: Array, up: Array, down: Array) -> Array:
    """Two products as a single one, and a kernel between it and the last."""

    def kernel(y: Any, o: Any) -> None:
        g, u = y[:, :hidden], y[:, hidden:]
        o[...] = g / (1 + jnp.exp(-g)) * u

    hidden = gate.shape[1]
    y = _dot(x, jnp.concatenate([gate, up], axis=1))
    h = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], hidden), x.dtype), interpret=True)(y)
    return _dot(h, down)


def grouped_matmul_masked(x: Array, w: Array, sizes: Array) -> Array:
    """Each group multiplies all rows, and keeps its own."""

    def kernel(ends: Any, x: Any, w: Any, o: Any) -> None:
        group = pl.program_id(0)

        @pl.when(group == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        start = jnp.where(group == 0, 0, ends[jnp.maximum(group - 1, 0)])
        row = jax.lax.broadcasted_iota(jnp.int32, o.shape, 0)
        mine = (row >= start) & (row < ends[group])
        o[...] = jnp.where(mine, _dot(x[...], w[0]), o[...])

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(w.shape[0],),
        in_specs=[pl.BlockSpec(x.shape, lambda g, _: (0, 0)), pl.BlockSpec((1, *w.shape[1:]), lambda g, _: (g, 0, 0))],
        out_specs=pl.BlockSpec((x.shape[0], w.shape[2]), lambda g, _: (0, 0)),
    )
    shape = jax.ShapeDtypeStruct((x.shape[0], w.shape[2]), x.dtype)
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape)(jnp.cumsum(sizes), x, w)


def grouped_matmul_rows(x: Array, w: Array, sizes: Array) -> Array:
    """The matrix of each row is fetched by its group."""

    def kernel(group: Any, x: Any, w: Any, o: Any) -> None:
        o[0] = _dot(x[0], w[0])

    rows, width = x.shape
    group = jnp.searchsorted(jnp.cumsum(sizes), jnp.arange(rows), side="right").astype(jnp.int32)
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(rows,),
        in_specs=[
            pl.BlockSpec((1, 1, width), lambda i, _: (i, 0, 0)),
            pl.BlockSpec((1, *w.shape[1:]), lambda i, group: (group[i], 0, 0)),
        ],
        out_specs=pl.BlockSpec((1, 1, w.shape[2]), lambda i, _: (i, 0, 0)),
    )
    shape = jax.ShapeDtypeStruct((rows, 1, w.shape[2]), x.dtype)
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape)(group, x[:, None], w)[:, 0]


def grouped_matmul_ragged(x: Array, w: Array, sizes: Array) -> Array:
    """The operation that jax has for it."""
    return jax.lax.ragged_dot(x, w, sizes, precision="highest")


def embedding_prefetched(table: Array, ids: Array) -> Array:
    def kernel(ids: Any, row: Any, o: Any) -> None:
        o[...] = row[...]

    width = table.shape[1]
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=ids.shape,
        in_specs=[pl.BlockSpec((1, 1, width), lambda i, ids: (ids[i], 0, 0))],
        out_specs=pl.BlockSpec((1, 1, width), lambda i, ids: (i, 0, 0)),
    )
    shape = jax.ShapeDtypeStruct((ids.size, 1, width), table.dtype)
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape)(ids, table[:, None])[:, 0]


def embedding_loop(table: Array, ids: Array) -> Array:
    def kernel(ids: Any, table: Any, o: Any) -> None:
        @pl.loop(0, o.shape[0])
        def _(i: Any) -> None:
            o[pl.ds(i, 1), :] = table[pl.ds(ids[i], 1), :]

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    shape = jax.ShapeDtypeStruct((ids.size, table.shape[1]), table.dtype)
    return pl.pallas_call(kernel, in_specs=specs, out_shape=shape)(ids, table)


def conv_shifts(x: Array, w: Array) -> Array:
    def kernel(x: Any, w: Any, o: Any) -> None:
        row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
        total = x[...] * w[taps - 1]
        for late in range(1, taps):
            total += jnp.where(row >= late, jnp.roll(x[...], late, axis=0), 0) * w[taps - 1 - late]
        o[...] = total

    taps = w.shape[0]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, w)


def conv_copies(x: Array, w: Array) -> Array:
    """Windows that overlap are copied from main memory."""

    def kernel(x: Any, w: Any, o: Any, window: Any, done: Any) -> None:
        copy = pltpu.make_async_copy(x.at[pl.ds(pl.program_id(0) * 8, 8 + taps - 1)], window, done)
        copy.start()
        copy.wait()
        o[...] = sum(window[i : i + 8, :] * w[i] for i in range(taps))

    taps, width = w.shape
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(w.shape, lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, width), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((8 + taps - 1, width), x.dtype), pltpu.SemaphoreType.DMA],
    )(jnp.pad(x, ((taps - 1, 0), (0, 0))), w)
