"""Convolutions, pooling and Fourier transforms, directly and as products."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, Function, f32, like, normal

N = 8
CIRCULAR = {"x": normal(3, N), "h": normal(N, scale=0.5)}


def circular(x: Array, h: Array) -> Array:
    x32, h32 = f32(x), f32(h)
    return like(sum(jnp.roll(x32, i, -1) * h32[i] for i in range(N)), x)


_SHIFTS = (np.arange(N)[:, None] - np.arange(N)[None, :]) % N

FOURIER_CONVOLUTION = Formula(
    name="circular_convolution",
    reference=circular,
    args=CIRCULAR,
    honest={
        "circulant_matrix": lambda x, h: x @ h[_SHIFTS].T,
        "fft": lambda x, h: jnp.fft.ifft(jnp.fft.fft(x) * jnp.fft.fft(h)).real,
        "rfft": lambda x, h: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(h), N),
    },
    twins={
        "correlation": lambda x, h: jnp.fft.ifft(jnp.fft.fft(x) * jnp.conj(jnp.fft.fft(h))).real,
        "not_periodic": lambda x, h: jax.vmap(lambda row: jnp.convolve(row, h)[:N])(x),
        "scaled": lambda x, h: jnp.fft.ifft(jnp.fft.fft(x) * jnp.fft.fft(h), norm="ortho").real,
        "shifted_by_one": lambda x, h: jnp.roll(x @ h[_SHIFTS].T, 1, -1),
    },
)


_ANGLE = 2 * np.pi * np.arange(N // 2 + 1)[:, None] * np.arange(N) / N
_COS, _SIN = np.cos(_ANGLE).astype(np.float32), np.sin(_ANGLE).astype(np.float32)

POWER_SPECTRUM = Formula(
    name="power_spectrum",
    reference=lambda x: like(jnp.abs(jnp.fft.fft(f32(x))[:, : N // 2 + 1]) ** 2, x),
    args={"x": normal(4, N)},
    honest={
        "rfft": lambda x: jnp.square(jnp.fft.rfft(x).real) + jnp.square(jnp.fft.rfft(x).imag),
        "conjugate": lambda x: (jnp.fft.rfft(x) * jnp.conj(jnp.fft.rfft(x))).real,
        "matrices": lambda x: (x @ _COS.T) ** 2 + (x @ _SIN.T) ** 2,
    },
    twins={
        "magnitude": lambda x: jnp.abs(jnp.fft.rfft(x)),
        "divided": lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2 / N,
        "real_part": lambda x: jnp.fft.rfft(x).real ** 2,
        "centred": lambda x: jnp.abs(jnp.fft.rfft(x - x.mean(-1, keepdims=True))) ** 2,
    },
    gradients=False,
)

IMAGE = {"x": normal(2, 6, 6, 3), "w": normal(3, 3, 3, 4, scale=0.3)}
LAYOUT = ("NHWC", "HWIO", "NHWC")


def convolution(x: Array, w: Array) -> Array:
    return like(jax.lax.conv_general_dilated(f32(x), f32(w), (1, 1), "VALID", dimension_numbers=LAYOUT), x)


def patches(x: Array, w: Array) -> Array:
    """All patches as rows of one matrix (im2col)."""
    rows = jnp.stack([x[:, i : i + 4, j : j + 4] for i in range(3) for j in range(3)], 3)
    return rows.reshape(2, 4, 4, 27) @ w.reshape(27, 4)


CONVOLUTION = Formula(
    name="convolution",
    reference=convolution,
    args=IMAGE,
    honest={
        "patches": patches,
        "sum_of_products": lambda x, w: sum(x[:, i : i + 4, j : j + 4] @ w[i, j] for i in range(3) for j in range(3)),
    },
    twins={
        "flipped": lambda x, w: jax.lax.conv_general_dilated(
            x, w[::-1, ::-1], (1, 1), "VALID", dimension_numbers=LAYOUT
        ),
        "transposed": lambda x, w: jax.lax.conv_general_dilated(
            x, w.swapaxes(0, 1), (1, 1), "VALID", dimension_numbers=LAYOUT
        ),
        "same_and_cut": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAYOUT)[
            :, :4, :4
        ],
    },
)

SEQUENCE = {"x": normal(2, 8, 3), "w": normal(4, 3, scale=0.5)}


def causal_convolution(x: Array, w: Array) -> Array:
    padded = jnp.pad(f32(x), ((0, 0), (3, 0), (0, 0)))
    return like(sum(padded[:, i : i + 8] * f32(w)[i] for i in range(4)), x)


def _depthwise(x: Array, w: Array, padding: tuple[int, int]) -> Array:
    return jax.lax.conv_general_dilated(
        x, w[:, None], (1,), [padding], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=3
    )


CAUSAL_CONVOLUTION = Formula(
    name="causal_depthwise_convolution",
    reference=causal_convolution,
    args=SEQUENCE,
    honest={
        "depthwise": lambda x, w: _depthwise(x, w, (3, 0)),
        "gathered": lambda x, w: jnp.einsum(
            "btkc,kc->btc", jnp.pad(x, ((0, 0), (3, 0), (0, 0)))[:, np.arange(8)[:, None] + np.arange(4)], w
        ),
    },
    twins={
        "looks_ahead": lambda x, w: _depthwise(x, w, (2, 1)),
        "reversed": lambda x, w: _depthwise(x, w[::-1], (3, 0)),
        "wraps_around": lambda x, w: sum(jnp.roll(x, 3 - i, 1) * w[i] for i in range(4)),
    },
)

PLANE = {"x": normal(2, 6, 6, 3)}


def average_pool(x: Array) -> Array:
    return like(f32(x).reshape(2, 3, 2, 3, 2, 3).mean((2, 4)), x)


def _pool(x: Array, start: float, operation: Function, stride: int = 2) -> Array:
    return jax.lax.reduce_window(x, start, operation, (1, 2, 2, 1), (1, stride, stride, 1), "VALID")


AVERAGE_POOL = Formula(
    name="average_pool",
    reference=average_pool,
    args=PLANE,
    honest={
        "reduce_window": lambda x: _pool(x, 0.0, jax.lax.add) / 4,
        "strided": lambda x: (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) * 0.25,
        "einsum": lambda x: jnp.einsum("bhiwjc->bhwc", x.reshape(2, 3, 2, 3, 2, 3)) / 4,
    },
    twins={
        "sum": lambda x: _pool(x, 0.0, jax.lax.add),
        "corner": lambda x: x[:, ::2, ::2],
        "halves_apart": lambda x: x.reshape(2, 2, 3, 2, 3, 3).mean((1, 3)),
    },
)


def max_pool(x: Array) -> Array:
    return like(f32(x).reshape(2, 3, 2, 3, 2, 3).max((2, 4)), x)


MAX_POOL = Formula(
    name="max_pool",
    reference=max_pool,
    # Mostly below zero: of normal numbers one draw in 30 has no window whose largest is, and 0 is no other start there.
    args={"x": normal(2, 6, 6, 3, offset=-1.0)},
    honest={
        "reduce_window": lambda x: _pool(x, -jnp.inf, jax.lax.max),
        "strided": lambda x: jnp.maximum(
            jnp.maximum(x[:, ::2, ::2], x[:, 1::2, ::2]), jnp.maximum(x[:, ::2, 1::2], x[:, 1::2, 1::2])
        ),
    },
    twins={
        "from_zero": lambda x: _pool(x, 0.0, jax.lax.max),
        "of_magnitudes": lambda x: _pool(jnp.abs(x), -jnp.inf, jax.lax.max),
        "column_forgotten": lambda x: jnp.maximum(x[:, ::2, ::2], x[:, 1::2, ::2]),
    },
)

ALL = (FOURIER_CONVOLUTION, POWER_SPECTRUM, CONVOLUTION, CAUSAL_CONVOLUTION, AVERAGE_POOL, MAX_POOL)
