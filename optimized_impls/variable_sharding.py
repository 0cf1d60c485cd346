"""The same layer with `flax_always_shard_variable` off: its variables are unsharded, or sharded by constraints.

The option is one of the process, read whenever a variable is made, and no part of what `jax.jit` looks a program up by.
So it is set around the making of the variables alone, and what it was before stands again after an error too.
"""

from __future__ import annotations

import flax
import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec

RULES = {"embed": "fsdp", "mlp": "tensor"}
"""From the names of dimensions to mesh axes."""


def never(x: jax.Array, up: jax.Array, down: jax.Array) -> dict[str, jax.Array]:
    """What the layer gives, and its variables, which lie as they came.

    Args:
        x: [batch, embed], floating point.
        up: [embed, mlp].
        down: [mlp, embed].

    Returns:
        `out` [batch, embed], in the dtype of x and split as x is; `up` and `down`.

    Raises:
        ValueError: the shapes do not fit.

    Source: MaxText pull request 3922, item 13 (a).
    """
    _check(x, up, down)
    with flax.config.temp_flip_flag("always_shard_variable", False):
        layer = _Gated(up, down)
    return {"out": layer(x), "up": layer.up[...], "down": layer.down[...]}


def requested(x: jax.Array, up: jax.Array, down: jax.Array) -> dict[str, jax.Array]:
    """What the layer gives, and its variables, which lie as the code asks, by the names that they carry.

    Args:
        x: [batch, embed], floating point.
        up: [embed, mlp].
        down: [mlp, embed].

    Returns:
        `out` [batch, embed], in the dtype of x and split as x is; `up` and `down`.

    Raises:
        ValueError: the shapes do not fit.

    Source: MaxText pull request 3922, item 13 (a): "only where the model code asks for it"; `nnx.get_partition_spec`.
    """
    _check(x, up, down)
    with flax.config.temp_flip_flag("always_shard_variable", False):
        layer = _Gated(up, down)
    for variable in (layer.up, layer.down):
        entries = [RULES[name] for name in variable.get_metadata("out_sharding")]
        variable.set_value(_laid(variable[...], PartitionSpec(*entries)))
    return {"out": layer(x), "up": layer.up[...], "down": layer.down[...]}


class _Gated(nnx.Module):
    def __init__(self, up: jax.Array, down: jax.Array) -> None:
        self.up = nnx.Param(up, out_sharding=("embed", "mlp"), sharding_rules=tuple(RULES.items()))
        self.down = nnx.Param(down, out_sharding=("mlp", "embed"), sharding_rules=tuple(RULES.items()))

    def __call__(self, x: jax.Array) -> jax.Array:
        if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
            lies = jax.typeof(x).sharding.spec
            return jax.sharding.auto_axes(_run, out_sharding=lies)(x, self.up[...], self.down[...])
        return _run(x, self.up[...], self.down[...])


def _run(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    return jnp.matmul(nnx.relu(jnp.matmul(x, up)), down)


def _laid(array: jax.Array, spec: PartitionSpec) -> jax.Array:
    """The array under a constraint, which has to be a reshard where shardings are part of types."""
    if jax.sharding.get_abstract_mesh().empty:
        return array
    if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
        return jax.reshard(array, spec)
    return jax.lax.with_sharding_constraint(array, spec)


def _check(x: jax.Array, up: jax.Array, down: jax.Array) -> None:
    if x.ndim != 2 or up.shape[:1] != x.shape[1:] or down.shape != up.shape[::-1]:
        raise ValueError(
            f"x, up and down have shapes {x.shape}, {up.shape} and {down.shape}; "
            "expected [batch, embed], [embed, mlp] and [mlp, embed]"
        )
