"""What the decoders have in common: shardings that are left out on one device, norm, rotary positions, loss, AdamW."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

EPSILON = 1e-5

Params = dict[str, jax.Array]


def _explicit() -> bool:
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and AxisType.Explicit in mesh.axis_types


def at(x: jax.Array, *spec: Any) -> jax.Array:
    """Return an array, sharded by a spec on a mesh whose axes are automatic or explicit."""
    if jax.sharding.get_abstract_mesh().empty:
        return x
    if _explicit():
        return jax.sharding.reshard(x, P(*spec))
    return jax.lax.with_sharding_constraint(x, P(*spec))


def einsum(formula: str, x: jax.Array, y: jax.Array, *spec: Any) -> jax.Array:
    """Return an einsum, sharded by a spec."""
    if _explicit():
        return jnp.einsum(formula, x, y, out_sharding=P(*spec))
    return at(jnp.einsum(formula, x, y), *spec)


def rows(table: jax.Array, index: jax.Array, *spec: Any) -> jax.Array:
    """Return rows of a table, sharded by a spec."""
    if _explicit():
        return table.at[index].get(out_sharding=P(*spec))
    return at(table[index], *spec)


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPSILON) * scale


def rotary(x: jax.Array, base: float) -> jax.Array:
    """Rotate pairs of `[batch, sequence, heads, head]` by their positions."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * base ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def softmax_of_earlier(scores: jax.Array) -> jax.Array:
    """Causal softmax of `[..., queries, keys]`."""
    queries, keys = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[-2:], axis) for axis in (0, 1))
    return jax.nn.softmax(jnp.where(queries >= keys, scores, -1e30), -1)


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean cross entropy of `[batch, sequence, vocabulary]`."""
    picked = jnp.sum(jnp.where(jnp.arange(logits.shape[-1]) == targets[..., None], logits, 0), -1)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def adamw(params: Params, first: Params, second: Params, grads: Params) -> tuple[Params, Params, Params]:
    """Return parameters and moments after the first step of AdamW."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)
    params = jax.tree.map(
        lambda p, m, v: p - 1e-3 * (m / 0.1 / (jnp.sqrt(v / 0.05) + 1e-8) + 0.1 * p), params, first, second
    )
    return params, first, second
