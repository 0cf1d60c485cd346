"""Pairs of one formula whose second form costs accuracy: standard code, and sums in a narrow type.

Both are functions of arrays. Of the first kind a user is to hear that it is rounding, with the accuracy that it costs;
of the second that accuracy is lost, since the loss grows with the length of a sum or leaves the bound of the reference.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.check.corpus.formula import Function, f32

Array = Any


@dataclass(frozen=True, slots=True)
class Specimen:
    """Two forms of a formula.

    Args:
        name: lower-case letters, digits and `_`.
        reference, variant: the two forms.
        inputs: draws the arrays that both take.
        parallel: whether the variant runs on a mesh of eight devices, over which the summed dimension is split.
        gradients: whether gradients are compared.
    """

    name: str
    reference: Function
    variant: Function
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    parallel: bool = False
    gradients: bool = False

    def options(self) -> dict[str, Any]:
        """Of `samebits.check`, beside the functions and the arrays."""
        chosen: dict[str, Any] = {"gradients": self.gradients}
        return chosen | {"mesh": "tp8", "specs": (P(None, "tp"), P("tp", None))} if self.parallel else chosen


def normal(*shapes: tuple[int, ...], dtype: Any = "float32", scale: float = 1.0, offset: float = 0.0) -> Any:
    """What draws arrays of normal numbers."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        return tuple(jnp.asarray(rng.normal(offset, scale, shape), dtype) for shape in shapes)

    return draw


BF = jnp.bfloat16


def like(y: Array, x: Array) -> Array:
    return y.astype(x.dtype)


# --- standard code ---------------------------------------------------------------------------------------------------


def product(x: Array, w: Array) -> Array:
    return like(f32(x) @ f32(w), x)


def ring_of_partial_products(x: Array, w: Array) -> Array:
    """Each device's partial product goes around, and each adds what comes by."""

    @partial(jax.shard_map, in_specs=(P(None, "tp"), P("tp", None)), out_specs=P("tp"), check_vma=False)
    def body(x: Array, w: Array) -> Array:
        n = lax.axis_size("tp")
        ring = [(i, (i + 1) % n) for i in range(n)]
        own = x @ w

        def step(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
            passing, total = state
            passing = lax.ppermute(passing, "tp", ring)
            return passing, total + passing

        _, total = lax.fori_loop(0, n - 1, step, (own, own))
        return total[None]

    return body(x, w)[0]


def ring_unrolled(x: Array, w: Array) -> Array:
    @partial(jax.shard_map, in_specs=(P(None, "tp"), P("tp", None)), out_specs=P("tp"), check_vma=False)
    def body(x: Array, w: Array) -> Array:
        n = lax.axis_size("tp")
        total = passing = x @ w
        for _ in range(n - 1):
            passing = lax.ppermute(passing, "tp", [(i, (i + 1) % n) for i in range(n)])
            total = total + passing
        return total[None]

    return body(x, w)[0]


def convolution(x: Array, w: Array) -> Array:
    """Causal, of each channel by itself."""
    k, d = w.shape
    kernel = f32(w)[:, None, :]
    return like(
        lax.conv_general_dilated(
            f32(x), kernel, (1,), [(k - 1, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=d
        ),
        x,
    )


def convolution_by_shifts(x: Array, w: Array) -> Array:
    k, length = w.shape[0], x.shape[1]
    padded = jnp.pad(x, ((0, 0), (k - 1, 0), (0, 0)))
    return sum(padded[:, i : i + length] * w[i] for i in range(k))


def rms_times_one_plus(x: Array, w: Array) -> Array:
    y = f32(x) * lax.rsqrt(jnp.mean(jnp.square(f32(x)), -1, keepdims=True) + 1e-6)
    return like(y * (1.0 + f32(w)), x)


def rms_one_plus_narrow(x: Array, w: Array) -> Array:
    y = f32(x) * lax.rsqrt(jnp.mean(jnp.square(f32(x)), -1, keepdims=True) + 1e-6)
    return like(y, x) * (1 + w)


def rms_distributed(x: Array, w: Array) -> Array:
    y = f32(x) * lax.rsqrt(jnp.mean(jnp.square(f32(x)), -1, keepdims=True) + 1e-6)
    y = like(y, x)
    return y + y * w


def smoothed(logits: Array, labels: Array) -> Array:
    logp = jax.nn.log_softmax(f32(logits), -1)
    soft = jax.nn.one_hot(labels, logits.shape[-1]) * 0.9 + 0.1 / logits.shape[-1]
    return like(-jnp.sum(soft * logp, -1), logits)


def smoothed_by_parts(logits: Array, labels: Array) -> Array:
    """The log normaliser less what is picked and the mean, in the dtype of the logits."""
    logz = jax.nn.logsumexp(logits, -1)
    picked = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0]
    return logz - 0.9 * picked - 0.1 * jnp.mean(logits, -1)


def z_loss(logits: Array, labels: Array) -> Array:
    logz = jax.nn.logsumexp(f32(logits), -1)
    picked = jnp.take_along_axis(f32(logits), labels[:, None], -1)[:, 0]
    return like(logz - picked + 1e-2 * jnp.square(logz), logits)


def z_loss_by_hand(logits: Array, labels: Array) -> Array:
    top = jnp.max(logits, -1, keepdims=True)
    logz = (jnp.log(jnp.sum(jnp.exp(logits - top), -1, keepdims=True)) + top)[:, 0]
    logp = jnp.take_along_axis(logits - logz[:, None], labels[:, None], -1)[:, 0]
    return -logp + 1e-2 * logz * logz


def logsumexp(x: Array) -> Array:
    return like(jax.nn.logsumexp(f32(x), -1), x)


def logsumexp_by_hand(x: Array) -> Array:
    top = jnp.max(x, -1, keepdims=True)
    return jnp.log(jnp.sum(jnp.exp(x - top), -1)) + top[..., 0]


def silu_gate(x: Array, y: Array) -> Array:
    return like(jax.nn.silu(f32(x)) * f32(y), x)


def residual(x: Array, y: Array, z: Array) -> Array:
    return like(f32(x) + f32(y) + f32(z), x)


def rotated(x: Array, y: Array) -> Array:
    return like(f32(x) * jnp.cos(f32(y)) - f32(jnp.roll(x, 1, -1)) * jnp.sin(f32(y)), x)


def logits_of(dtype: Any, rows: int = 16, vocab: int = 64, scale: float = 3.0) -> Any:
    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        return jnp.asarray(rng.normal(0, scale, (rows, vocab)), dtype), jnp.asarray(rng.integers(0, vocab, rows))

    return draw


PRODUCT = normal((16, 64), (64, 32), dtype=BF)
ROWS = normal((16, 64), dtype=BF, scale=3)
TWO, THREE = (normal(*[(16, 64)] * count, dtype=BF) for count in (2, 3))
SCALED = normal((16, 64), (64,), dtype=BF)
TAPS = normal((2, 16, 8), (4, 8), dtype=BF)
HONEST = (
    Specimen("ring", product, ring_of_partial_products, PRODUCT, parallel=True),
    Specimen("residual", residual, lambda x, y, z: x + y + z, THREE),
    Specimen("shifts", convolution, convolution_by_shifts, TAPS),
    Specimen("logsumexp", logsumexp, logsumexp_by_hand, ROWS, gradients=True),
    Specimen("ring_unrolled", product, ring_unrolled, PRODUCT, parallel=True),
    Specimen("shifts_gradient", convolution, convolution_by_shifts, TAPS, gradients=True),
    Specimen("one_plus", rms_times_one_plus, rms_one_plus_narrow, SCALED, gradients=True),
    Specimen("distributed", rms_times_one_plus, rms_distributed, SCALED, gradients=True),
    Specimen("smoothing", smoothed, smoothed_by_parts, logits_of(BF), gradients=True),
    Specimen("z_loss", z_loss, z_loss_by_hand, logits_of(BF), gradients=True),
    Specimen("silu_gate", silu_gate, lambda x, y: x * jax.nn.sigmoid(x) * y, TWO, gradients=True),
    Specimen("rotated", rotated, lambda x, y: x * jnp.cos(y) - jnp.roll(x, 1, -1) * jnp.sin(y), TWO, gradients=True),
)
"""Each costs accuracy in some leaf, and none of them is a fault."""


# --- sums in a narrow type -------------------------------------------------------------------------------------------


def total(x: Array) -> Array:
    return like(jnp.sum(f32(x), -1), x)


def total_in(dtype: Any) -> Function:
    def function(x: Array) -> Array:
        return lax.reduce(x.astype(dtype), np.zeros((), dtype), lax.add, (x.ndim - 1,)).astype(x.dtype)

    return function


def running(dtype: Any) -> Function:
    """One after the other, in a loop."""

    def function(x: Array) -> Array:
        start = jnp.zeros(x.shape[:-1], dtype)
        return lax.scan(lambda s, v: (s + v.astype(dtype), None), start, jnp.moveaxis(x, -1, 0))[0].astype(x.dtype)

    return function


def running_unrolled(x: Array) -> Array:
    out = x[..., 0]
    for i in range(1, x.shape[-1]):
        out = out + x[..., i]
    return out


def softmax(x: Array) -> Array:
    return like(jax.nn.softmax(f32(x), -1), x)


def softmax_bf16_sum(x: Array) -> Array:
    e = jnp.exp(x - jnp.max(x, -1, keepdims=True))
    return e / lax.reduce(e, np.zeros((), e.dtype), lax.add, (x.ndim - 1,))[..., None]


def product_running(x: Array, w: Array) -> Array:
    """A running sum of outer products in the dtype of x."""
    out = jnp.zeros((x.shape[0], w.shape[1]), x.dtype)
    return lax.scan(lambda s, xw: (s + xw[0][:, None] * xw[1][None], None), out, (x.T, w))[0]


def product_blocks(x: Array, w: Array) -> Array:
    """Blocks of four, added in the dtype of x."""
    k = x.shape[1] // 4
    out = jnp.zeros((x.shape[0], w.shape[1]), x.dtype)
    blocks = x.reshape(x.shape[0], k, 4).swapaxes(0, 1), w.reshape(k, 4, -1)
    return lax.scan(lambda s, xw: (s + xw[0] @ xw[1], None), out, blocks)[0]


def sharded_running(x: Array, w: Array) -> Array:
    @partial(jax.shard_map, in_specs=(P(None, "tp"), P("tp", None)), out_specs=P(), check_vma=False)
    def body(x: Array, w: Array) -> Array:
        return lax.psum(product_running(x, w), "tp")

    return body(x, w)


BY_64, BY_64_FLOAT32 = normal((16, 64), dtype=BF), normal((16, 64))
OUTER = normal((16, 64), (64, 32), dtype=BF)
FAULTS = (
    Specimen("sum_in_bfloat16", total, total_in(BF), BY_64_FLOAT32),
    Specimen("running_sum", total, running(BF), BY_64),
    Specimen(
        "one_pass_variance",
        lambda x: like(jnp.mean(jnp.square(f32(x) - jnp.mean(f32(x), -1, keepdims=True)), -1), x),
        lambda x: like(jnp.mean(jnp.square(f32(x)), -1) - jnp.square(jnp.mean(f32(x), -1)), x),
        normal((16, 64), offset=30),
    ),
    Specimen("product_blocks", product, product_blocks, normal((16, 128), (128, 32), dtype=BF)),
    Specimen("sum_in_float16", total, total_in(jnp.float16), BY_64_FLOAT32, gradients=True),
    Specimen("narrow_sum", total, total_in(BF), normal((16, 128), dtype=BF)),
    Specimen("running_sum_unrolled", total, running_unrolled, BY_64),
    Specimen(
        "running_sum_while",
        total,
        lambda x: lax.fori_loop(
            0,
            x.shape[-1],
            lambda i, s: s + lax.dynamic_index_in_dim(x, i, x.ndim - 1, False),
            jnp.zeros(x.shape[:-1], x.dtype),
        ),
        BY_64,
    ),
    Specimen(
        "prefix_sum",
        lambda x: like(jnp.cumsum(f32(x), -1), x),
        lambda x: jnp.moveaxis(
            lax.scan(lambda s, v: (s + v,) * 2, jnp.zeros(x.shape[:-1], x.dtype), jnp.moveaxis(x, -1, 0))[1], 0, -1
        ),
        BY_64,
        gradients=True,
    ),
    Specimen("softmax_in_bfloat16", softmax, lambda x: like(jax.nn.softmax(x.astype(BF), -1), x), BY_64_FLOAT32),
    Specimen("softmax_narrow_sum", softmax, softmax_bf16_sum, BY_64),
    Specimen(
        "product_in_bfloat16",
        product,
        lambda x, w: like(lax.dot(x.astype(BF), w.astype(BF), preferred_element_type=BF), x),
        normal((16, 64), (64, 32)),
    ),
    Specimen("product_running", product, product_running, OUTER, gradients=True),
    Specimen("sharded_running", product, sharded_running, normal((16, 256), (256, 32), dtype=BF), parallel=True),
    Specimen(
        "scatter",
        lambda x, i: like(jax.ops.segment_sum(f32(x), i, 4), x),
        lambda x, i: jnp.zeros((4, x.shape[1]), x.dtype).at[i].add(x),
        lambda rng: (jnp.asarray(rng.normal(size=(256, 32)), BF), jnp.asarray(rng.integers(0, 4, 256))),
    ),
)
"""Each loses accuracy, the more the longer its sum is."""
