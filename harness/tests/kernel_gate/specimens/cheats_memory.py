"""Kernels that read what nothing wrote, leave what they should write, or write what is not theirs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _like(x: Array) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _summed(a: Array, b: Array, kernel: Any, semantics: tuple[Any, ...] = ("arbitrary",)) -> Array:
    """Over blocks of the summed axis, into a single block."""
    shape = a.shape[0], b.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(a.shape[1], 128),),
        in_specs=[pl.BlockSpec((shape[0], 128), lambda k: (0, k)), pl.BlockSpec((128, shape[1]), lambda k: (k, 0))],
        out_specs=pl.BlockSpec(shape, lambda k: (0, 0)),
        out_shape=jax.ShapeDtypeStruct(shape, a.dtype),
        scratch_shapes=[pltpu.VMEM(shape, jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(a, b)


def scratch_not_cleared(a: Array, b: Array) -> Array:
    def kernel(a: Any, b: Any, o: Any, acc: Any) -> None:
        acc[...] += jnp.dot(a[...], b[...], precision="highest")
        o[...] = acc[...]

    return _summed(a, b, kernel)


def parallel_sum(a: Array, b: Array) -> Array:
    """Cores that share the output add to it at the same time."""

    def kernel(a: Any, b: Any, o: Any, scratch: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += jnp.dot(a[...], b[...], precision="highest")

    return _summed(a, b, kernel, ("parallel",))


def padding_counted(a: Array, b: Array) -> Array:
    """Blocks that need not divide the summed axis, without a mask."""

    def kernel(a: Any, b: Any, o: Any, acc: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(a[...], b[...], precision="highest")
        o[...] = acc[...]

    return _summed(a, b, kernel)


def last_block_not_written(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) < pl.num_programs(0) - 1)
        def _() -> None:
            e = jnp.exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
            o[...] = e / jnp.sum(e, axis=1, keepdims=True)

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    grid = (x.shape[0] // 8,)
    return pl.pallas_call(kernel, grid=grid, in_specs=[block], out_specs=block, out_shape=_like(x))(x)


def block_outside(x: Array) -> Array:
    """Sums with the block after the last."""

    def kernel(x: Any, after: Any, o: Any) -> None:
        e = jnp.exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
        o[...] = e / jnp.sum(e, axis=1, keepdims=True) + 1e-6 * after[...]

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    after = pl.BlockSpec((8, x.shape[1]), lambda i: (i + 1, 0))
    grid = (x.shape[0] // 8,)
    return pl.pallas_call(kernel, grid=grid, in_specs=[block, after], out_specs=block, out_shape=_like(x))(x, x)


def rows_outside(x: Array, w: Array) -> Array:
    """Windows that begin before the array."""

    def kernel(x: Any, w: Any, o: Any) -> None:
        def row(i: Any, _: None) -> None:
            o[pl.ds(i, 1), :] = jnp.sum(x[pl.ds(i - taps + 1, taps), :] * w[...], axis=0, keepdims=True)

        jax.lax.fori_loop(0, o.shape[0], row, None)

    taps = w.shape[0]
    return pl.pallas_call(kernel, out_shape=_like(x))(x, w)


def copy_not_awaited(x: Array) -> Array:
    def kernel(x: Any, o: Any, local: Any, done: Any) -> None:
        copy = pltpu.make_async_copy(x, local, done)
        copy.start()
        e = jnp.exp(local[...] - jnp.max(local[...], axis=1, keepdims=True))
        o[...] = e / jnp.sum(e, axis=1, keepdims=True)
        copy.wait()

    scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA]
    specs = [pl.BlockSpec(memory_space=pl.ANY)]
    return pl.pallas_call(kernel, in_specs=specs, out_shape=_like(x), scratch_shapes=scratch)(x)


def numpy_overwritten(x: Any) -> Any:
    """The reference that runs next gets the answer as its input."""
    if isinstance(x, np.ndarray):
        x.sort(axis=-1)
        return x
    return jnp.sort(x, axis=-1)


def input_overwritten(x: Array) -> Array:
    """The second step finds in its input what the first has left there."""

    def kernel(x: Any, o: Any) -> None:
        x[...] = jnp.exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
        half = pl.ds(pl.multiple_of(pl.program_id(0) * 128, 128), 128)
        o[...] = x[:, half] / jnp.sum(x[...], axis=1, keepdims=True)

    rows = x.shape[0]
    return pl.pallas_call(
        kernel,
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec(x.shape, lambda j: (0, 0))],
        out_specs=pl.BlockSpec((rows, 128), lambda j: (0, j)),
        out_shape=_like(x),
    )(x)
