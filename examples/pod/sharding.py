"""Shardings that hold on a mesh, automatic or explicit, and are left out on one device."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P


def _explicit() -> bool:
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and AxisType.Explicit in mesh.axis_types


def at(x: jax.Array, *spec: Any) -> jax.Array:
    """Return an array, sharded by a spec."""
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
