"""Pallas kernels in the domains: honest ones are the formulas of plain code, and wrong ones are not."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import samebits
from samebits.errors import NotCovered
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.kernels import without_references
from samebits.interpret.oracle import Oracle

Array = Any
X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
ROWS = np.array([3, 0, 2, 1], np.int32)


def called(kernel: Callable[..., None], shape: tuple[int, ...], **options: Any) -> Callable[..., Array]:
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, jnp.float32), **options)


def scaled(x: Array, factor: float = 2.0, blocks: int = 2, turned: bool = False) -> Array:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] * factor

    last = blocks - 1
    spec = pl.BlockSpec((4, 16), lambda i: (last - i if turned else i, 0))
    return called(kernel, (8, 16), grid=(blocks,), in_specs=[spec], out_specs=pl.BlockSpec((4, 16), lambda i: (i, 0)))(
        x
    )


def matmul(x: Array, w: Array, start: str = "first step", chunks: int = 4) -> Array:
    def kernel(x_ref: Any, w_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        starts = {"first step": pl.program_id(1) == 0, "never": False, "at a value": x_ref[0, 0] > 1e9}

        @pl.when(starts[start])
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += jnp.dot(x_ref[...], w_ref[...])

        @pl.when(pl.program_id(1) == chunks - 1)
        def _() -> None:
            out_ref[...] = sum_ref[...]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(2, chunks),
        in_specs=[pl.BlockSpec((4, 4), lambda i, k: (i, k)), pl.BlockSpec((4, 8), lambda i, k: (k, 0))],
        out_specs=pl.BlockSpec((4, 8), lambda i, k: (i, 0)),
        scratch_shapes=[pltpu.VMEM((4, 8), jnp.float32)],
    )
    return called(kernel, (8, 8), grid_spec=grid)(x, w)


def chosen_rows(rows: Array, x: Array, next_row: bool = False) -> Array:
    """Blocks of two rows, in an order that is prefetched."""

    def kernel(rows_ref: Any, x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...]

    def place(i: Any, rows_ref: Any) -> tuple[Any, int]:
        return rows_ref[(i + 1) % 4 if next_row else i], 0

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((2, 16), place)],
        out_specs=pl.BlockSpec((2, 16), lambda i, rows_ref: (i, 0)),
    )
    return called(kernel, (8, 16), grid_spec=grid)(rows, x)


def block_sums(x: Array, rows: int = 4) -> Array:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...].sum(0, keepdims=True)

    spec, out = pl.BlockSpec((rows, 16), lambda i: (i, 0)), pl.BlockSpec((1, 16), lambda i: (i, 0))
    return called(kernel, (2, 16), grid=(2,), in_specs=[spec], out_specs=out)(x)


def softmax(x: Array, off: int = 0) -> Array:
    """Row by row in two blocks of keys, with a running maximum and sum."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        def block(number: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            top, total = carry
            scores = x_ref[:, pl.ds(pl.multiple_of(number * 8, 8), 8)]
            higher = jnp.maximum(top, scores.max(-1, keepdims=True))
            return higher, total * jnp.exp(top - higher) + jnp.exp(scores - higher).sum(-1, keepdims=True)

        start = jnp.full((8, 1), -jnp.inf), jnp.zeros((8, 1))
        top, total = jax.lax.fori_loop(0, 2 - off, block, start)
        out_ref[...] = jnp.exp(x_ref[...] - top) / total

    return called(kernel, (8, 16))(x)


def masked_sum(x: Array, limit: int = 10) -> Array:
    """Sums of the first ten of sixteen elements, by loads with a mask."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        lane = jnp.arange(16)
        row = pltpu.load(x_ref, mask=jnp.broadcast_to(lane < limit, (8, 16)))
        out_ref[...] = jnp.where(lane < limit, row, 0.0).sum(-1, keepdims=True)

    return called(kernel, (8, 1))(x)


def differentiable(x: Array, factor: float = 2.0) -> Array:
    """A square by a kernel, whose gradient is another kernel."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] * x_ref[...]

    def backward_kernel(x_ref: Any, g_ref: Any, out_ref: Any) -> None:
        out_ref[...] = factor * x_ref[...] * g_ref[...]

    @jax.custom_vjp
    def square(x: Array) -> Array:
        return called(kernel, x.shape)(x)

    def backward(x: Array, cotangent: Array) -> tuple[Array]:
        return (called(backward_kernel, x.shape)(x, cotangent),)

    square.defvjp(lambda x: (square(x), x), backward)
    return square(x)


Case = tuple[Callable[..., Array], Callable[..., Array], tuple[Array, ...]]
PLAIN: dict[str, Case] = {
    "scaled": (lambda x: 2 * x, scaled, (X,)),
    "matmul": (lambda x, w: x @ w, matmul, (X, W)),
    "rows": (lambda rows, x: x.reshape(4, 2, 16)[rows].reshape(8, 16), chosen_rows, (ROWS, X)),
    "block sums": (lambda x: x.reshape(2, 4, 16).sum(1), block_sums, (X,)),
    "softmax": (lambda x: jax.nn.softmax(x, -1), softmax, (X,)),
    "masked sum": (lambda x: x[:, :10].sum(-1, keepdims=True), masked_sum, (X,)),
    "differentiable": (lambda x: x * x, differentiable, (X,)),
}
"""Plain code, a kernel, and arrays."""

FAULTS: dict[str, tuple[str, Callable[..., Array]]] = {
    "another factor": ("scaled", functools.partial(scaled, factor=2.0002)),
    "blocks in another order": ("scaled", functools.partial(scaled, turned=True)),
    "a block that no step writes": ("scaled", functools.partial(scaled, blocks=1)),
    "a sum that starts with what was never written": ("matmul", functools.partial(matmul, start="never")),
    "a sum that a value starts": ("matmul", functools.partial(matmul, start="at a value")),
    "a chunk too few": ("matmul", functools.partial(matmul, chunks=3)),
    "the next row": ("rows", functools.partial(chosen_rows, next_row=True)),
    "half of the keys": ("softmax", functools.partial(softmax, off=1)),
    "a lane too many": ("masked sum", functools.partial(masked_sum, limit=11)),
    "another gradient": ("differentiable", functools.partial(differentiable, factor=2.0002)),
}


NAMED = {
    "a block that no step writes": "no step of the grid writes 'out_ref'[4:8, 0:16]",
    "a sum that starts with what was never written": "'sum_ref' is read at step (0, 0), before anything is written",
}
"""What is wrong whatever the values are, in words."""

SEEN_AS_NAN = ("a sum that a value starts",)
"""What values alone make wrong."""


@pytest.mark.parametrize("name", PLAIN)
def test_an_honest_kernel_is_its_plain_form(name: str) -> None:
    plain, kernel, arrays = PLAIN[name]
    shown = samebits.prove(plain, kernel, *arrays, gradients=name == "differentiable")
    assert shown.verdict in ("proved", "rounding"), shown
    assert shown.ok, shown
    if name == "differentiable":
        assert {leaf.place.direction for leaf in shown.leaves} == {"forward", "gradient"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_kernel_is_never_proved(name: str) -> None:
    case, kernel = FAULTS[name]
    plain, _, arrays = PLAIN[case]
    shown = samebits.prove(plain, kernel, *arrays, gradients=case == "differentiable")
    assert not shown.ok, shown
    assert shown.verdict == ("error" if name in SEEN_AS_NAN else "different"), shown
    assert NAMED.get(name, "NaN" if name in SEEN_AS_NAN else "") in str(shown)


def test_a_block_that_sticks_out_is_never_proved() -> None:
    def plain(x: Array) -> Array:
        return jnp.stack([x[:5].sum(0), x[5:].sum(0)])

    shown = samebits.prove(plain, functools.partial(block_sums, rows=5), X, gradients=False)
    assert shown.verdict == "error", shown
    assert "NaN" in str(shown)


@pytest.mark.parametrize("name", PLAIN)
def test_the_interpretation_is_what_the_kernel_computes(name: str) -> None:
    plain, kernel, arrays = PLAIN[name]
    (value,) = Interpreter(Oracle(), "cpu")(jax.make_jaxpr(kernel)(*arrays), *arrays)
    assert np.allclose(value, plain(*arrays), rtol=1e-5, atol=1e-6)


def attention(q: Array, k: Array, v: Array, causal: bool = False, scale: float = 1.0) -> Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q * scale, k)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def rms(x: Array, w: Array) -> Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def centred(x: Array, w: Array, b: Array) -> Array:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b


def drawn(*shapes: tuple[int, ...]) -> tuple[Array, ...]:
    rng = np.random.default_rng(2)
    return tuple((0.1 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning", "ignore:.*tokamax:DeprecationWarning")
@pytest.mark.parametrize("name", ["flash", "causal flash", "another scale", "rms_norm", "layer_norm"])
def test_kernels_of_jax_are_their_plain_forms(name: str) -> None:
    """Forward and gradient: flash attention for TPUs in blocks, and norms for GPUs."""
    from jax.experimental.pallas.ops.gpu import layer_norm, rms_norm
    from jax.experimental.pallas.ops.tpu import flash_attention

    heads = drawn(*[(1, 1, 256, 128)] * 3)
    sizes = dict.fromkeys(inspect.signature(flash_attention.BlockSizes).parameters, 128) | {"block_b": 1}
    flash = functools.partial(flash_attention.flash_attention, block_sizes=flash_attention.BlockSizes(**sizes))
    causal = name == "causal flash"
    cases: dict[str, Case] = {
        "rms_norm": (
            rms,
            lambda x, w: rms_norm.rms_norm(x, w, jnp.zeros_like(w), interpret=True),
            drawn((2, 4, 16), (16,)),
        ),
        "layer_norm": (
            centred,
            lambda x, w, b: layer_norm.layer_norm(x, w, b, interpret=True),
            drawn((2, 4, 16), (16,), (16,)),
        ),
    }
    scale = 1.0001 if name == "another scale" else 1.0
    by_heads = functools.partial(attention, causal=causal, scale=scale), functools.partial(flash, causal=causal), heads
    plain, kernel, arrays = cases.get(name, by_heads)
    shown = samebits.prove(plain, kernel, *arrays)
    assert shown.verdict == ("different" if name == "another scale" else "rounding"), shown
    assert len({leaf.place.leaf for leaf in shown.leaves}) == 1 + len(arrays)
    if name == "causal flash":
        assert samebits.causal(kernel, *arrays, axis=2).ok


def test_what_a_kernel_reads_is_followed() -> None:
    assert samebits.batch_rows(lambda x: softmax(x), X, gradient=False).ok
    shown = samebits.batch_rows(lambda x: scaled(x, turned=True), X, gradient=False)
    assert shown.verdict == "refuted"
    assert "evaluated in float64, for it cannot run here" in repr(shown)


@pytest.mark.filterwarnings("ignore:.*tokamax:DeprecationWarning")
def test_lanes_that_a_mask_leaves_out_may_lie_outside() -> None:
    from jax.experimental.pallas.ops.gpu import rms_norm

    plain, kernel = rms, lambda x, w: rms_norm.rms_norm(x, w, jnp.zeros_like(w), interpret=True)
    shown = samebits.prove(plain, kernel, *drawn((2, 4, 16), (16,)), gradients=False)
    assert shown.ok, shown


def test_a_jax_without_an_interpretation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax._src.pallas.hlo_interpreter", None)
    with pytest.raises(NotCovered, match="this jax has no interpretation of kernels"):
        without_references(jax.make_jaxpr(lambda x: scaled(x, 3.0))(X).eqns[0])


def test_a_kernel_that_needs_a_device_is_named() -> None:
    def kernel(x_ref: Any, out_ref: Any, semaphore: Any) -> None:
        copy = pltpu.make_async_remote_copy(x_ref, out_ref, semaphore, semaphore, device_id=(1,))
        copy.start()
        copy.wait()

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(1,),
        in_specs=[pl.BlockSpec((8, 16), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, 16), lambda i: (0, 0)),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )
    program = jax.make_jaxpr(called(kernel, (8, 16), grid_spec=grid))(X)
    with pytest.raises(NotCovered, match="pallas_call"):
        without_references(program.eqns[0])


def test_kernels_run_on_a_cpu_without_asking() -> None:
    outcome = samebits.check(lambda x: x * 2.0, scaled, X, gradients=False)
    assert outcome.ok and any("interpretation" in note for note in outcome.notes)
    assert samebits.check(lambda x: x * 2.0, functools.partial(scaled, turned=True), X, gradients=False).verdict == (
        "different"
    )
    with pytest.raises(ValueError, match="interpret mode"):  # outside of samebits jax says what it always said
        jax.jit(functools.partial(scaled, factor=3.0)).lower(X).compile()


def normed(x: Array) -> Array:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] * jax.lax.rsqrt((x_ref[...] * x_ref[...]).mean(-1, keepdims=True) + 1e-6)

    return called(kernel, x.shape)(x)


def test_an_interpretation_that_compiles_alike_proves_nothing() -> None:
    """A device that runs the kernel sums in another order; kernels that are the same are one program."""
    plain = samebits.check(
        lambda x: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6), normed, X, gradients=False
    )
    assert plain.ok and plain.verdict in ("bitwise", "rounding")
    assert samebits.check(normed, lambda x: normed(x + 0), X, gradients=False).ok
    assert samebits.check(normed, lambda x: normed(jnp.asarray(x)), X, gradients=False).verdict == "proved"
