"""Plain functions for which kernels are written, each with the arrays on which a kernel is judged."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def _normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _arrays(make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """The arrays of a function, drawn where they are asked for."""
    return make


def rms_norm(x: Array, w: Array) -> Array:
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6)
    return (y * w.astype(jnp.float32)).astype(x.dtype)


rms_norm_inputs = _arrays(lambda: (_normal(16, 128), 1 + _normal(128, seed=1) / 10))
rms_norm_ones_inputs = _arrays(lambda: (_normal(16, 128), np.ones(128, np.float32)))
rms_norm_odd_inputs = _arrays(lambda: (_normal(20, 128), 1 + _normal(128, seed=1) / 10))
rms_norm_other_inputs = _arrays(lambda: (_normal(16, 128, seed=5), np.ones(128, np.float32)))
rms_norm_large_inputs = _arrays(lambda: (10 * _normal(16, 128), np.ones(128, np.float32)))
rms_norm_bf16_inputs = _arrays(lambda: (_normal(16, 128, dtype=jnp.bfloat16), np.ones(128, jnp.bfloat16)))


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * w + b


layer_norm_inputs = _arrays(lambda: (_normal(16, 128), 1 + _normal(128, seed=1) / 10, _normal(128, seed=2)))


def softmax(x: Array) -> Array:
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


softmax_inputs = _arrays(lambda: (_normal(16, 256),))
softmax_flat_inputs = _arrays(lambda: (_normal(16, 256) / 10,))
softmax_odd_inputs = _arrays(lambda: (_normal(20, 256),))


def softmax_wide_inputs() -> tuple[Any, ...]:
    """Values far from zero, of which the largest are in the second half of every second row."""
    x = _normal(16, 256) + np.where(np.arange(256) < 128, 0, 200)
    return ((x * np.where(np.arange(16) % 2, 1, -1)[:, None]).astype(np.float32),)


softmax_low_inputs = _arrays(lambda: (_normal(16, 256) - 200,))


def softmax_nan_inputs() -> tuple[Any, ...]:
    x = _normal(16, 256)
    x[3, 5] = np.nan
    return (x,)


def matmul(a: Array, b: Array) -> Array:
    return jnp.dot(a, b, preferred_element_type=jnp.float32, precision="highest").astype(a.dtype)


matmul_inputs = _arrays(lambda: (_normal(32, 256), _normal(256, 128, seed=1) / 64))
matmul_low_rank_inputs = _arrays(lambda: (_normal(32, 256), _normal(256, 16, seed=1) @ _normal(16, 128, seed=2) / 256))
matmul_odd_inputs = _arrays(lambda: (_normal(20, 200), _normal(200, 128, seed=1) / 64))
matmul_bf16_inputs = _arrays(
    lambda: (_normal(32, 256, dtype=jnp.bfloat16), (_normal(256, 128, seed=1) / 64).astype(jnp.bfloat16))
)


def linear_gelu(x: Array, w: Array, b: Array) -> Array:
    return jax.nn.gelu(matmul(x, w) + b, approximate=False)


linear_gelu_inputs = _arrays(lambda: (_normal(16, 128), _normal(128, 256, seed=1) / 12, _normal(256, seed=2)))


def swiglu(x: Array, gate: Array, up: Array, down: Array) -> Array:
    return matmul(jax.nn.silu(matmul(x, gate)) * matmul(x, up), down)


swiglu_inputs = _arrays(
    lambda: (_normal(16, 128), *(_normal(128, 256, seed=s) / 12 for s in (1, 2)), _normal(256, 128, seed=3) / 16)
)


def attention(q: Array, k: Array, v: Array) -> Array:
    """Causal, of heads with as many keys; fewer heads of keys are shared by neighbours."""
    k, v = (jnp.repeat(a, q.shape[0] // k.shape[0], axis=0) for a in (k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k, precision="highest") * q.shape[-1] ** -0.5
    seen = jnp.tril(jnp.ones(scores.shape[1:], bool))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)), v, precision="highest")


def attention_inputs() -> tuple[Any, ...]:
    q, k, v = _normal(3, 2, 32, 128)
    return q, k, v


def attention_small_inputs() -> tuple[Any, ...]:
    q, k, v = _normal(3, 2, 32, 128)
    return q / 10, k, v / 300


attention_grouped_inputs = _arrays(lambda: (_normal(4, 32, 128), *_normal(2, 2, 32, 128, seed=1)))


def cross_entropy(logits: Array, labels: Array) -> Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)[:, 0]


cross_entropy_inputs = _arrays(
    lambda: (_normal(16, 256), np.random.default_rng(1).integers(0, 256, 16).astype(np.int32))
)


def rope(x: Array, positions: Array) -> Array:
    """Rotates pairs that are half of a width apart; length, heads, width."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


rope_inputs = _arrays(lambda: (_normal(16, 2, 128), np.arange(16, dtype=np.int32)))
rope_packed_inputs = _arrays(lambda: (_normal(16, 2, 128), (np.arange(16) % 7).astype(np.int32)))


def grouped_matmul(x: Array, w: Array, sizes: Array) -> Array:
    """Each row by the matrix of its group; rows lie in the order of the groups."""
    group = jnp.repeat(jnp.arange(w.shape[0]), sizes, total_repeat_length=x.shape[0])
    return jnp.einsum("td,tdf->tf", x, w[group], precision="highest")


grouped_matmul_inputs = _arrays(
    lambda: (_normal(32, 128), _normal(4, 128, 128, seed=1) / 12, np.array([5, 0, 20, 7], np.int32))
)
grouped_matmul_equal_inputs = _arrays(lambda: (*grouped_matmul_inputs()[:2], np.full(4, 8, np.int32)))


def top2(logits: Array) -> tuple[Array, Array]:
    """The weights and the experts of each row; of equal ones the first."""
    best, ids = jax.lax.top_k(logits, 2)
    return jax.nn.softmax(best), ids


top2_inputs = _arrays(lambda: (_normal(16, 128),))
top2_ties_inputs = _arrays(lambda: (np.round(_normal(16, 128)),))


def cumsum(x: Array) -> Array:
    return jnp.cumsum(x, axis=0)


cumsum_inputs = _arrays(lambda: (_normal(32, 128),))


def embedding(table: Array, ids: Array) -> Array:
    return table[ids]


embedding_inputs = _arrays(lambda: (_normal(64, 128), np.random.default_rng(1).integers(0, 64, 16).astype(np.int32)))
embedding_run_inputs = _arrays(lambda: (_normal(64, 128), np.arange(8, 24, dtype=np.int32)))


def conv(x: Array, w: Array) -> Array:
    """Causal, each channel by itself; the last tap is that of the position itself."""
    padded = jnp.pad(x, ((w.shape[0] - 1, 0), (0, 0)))
    return sum((padded[i : i + x.shape[0]] * w[i] for i in range(w.shape[0])), jnp.zeros_like(x))


conv_inputs = _arrays(lambda: (_normal(32, 128), _normal(4, 128, seed=1)))


def sort_rows(x: Array) -> Array:
    return jnp.sort(x, axis=-1)


sort_rows_inputs = _arrays(lambda: (_normal(8, 128),))
sort_rows_sorted_inputs = _arrays(lambda: (np.sort(_normal(8, 128), axis=-1),))


def segment_sum(x: Array, ids: Array) -> Array:
    """The sums of eight segments."""
    return jax.ops.segment_sum(x, ids, 8)


segment_sum_inputs = _arrays(lambda: (_normal(32, 128), np.random.default_rng(1).integers(0, 7, 32).astype(np.int32)))
segment_sum_blocks_inputs = _arrays(lambda: (_normal(32, 128), np.repeat(np.arange(8, dtype=np.int32), 4)))
