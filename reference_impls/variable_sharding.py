"""A gated layer whose variables are sharded at creation: `flax_always_shard_variable` is on, the default.

Source: Flax documentation, "FLIP 4844: automatic sharding of `nnx.Variable`": a variable that names the axes of its
dimensions is put under a sharding constraint, or resharded where axes are explicit, when it is created.
"""

from __future__ import annotations

import flax
import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType

RULES = (("embed", "fsdp"), ("mlp", "tensor"))
"""From the names of dimensions to mesh axes."""


def always(x: jax.Array, up: jax.Array, down: jax.Array) -> dict[str, jax.Array]:
    """What the layer gives, and its variables as they lie, made with the option on.

    Equivalent to `{"out": jax.nn.relu(x @ up) @ down, "up": up, "down": down}`, where `up` is split over `fsdp` and
    `tensor`, and `down` over `tensor` and `fsdp`. The option is set while the variables
    are made, and then as it was. Without a mesh nothing is split.

    Args:
        x: [batch, embed], floating point.
        up: [embed, mlp].
        down: [mlp, embed].

    Returns:
        `out` [batch, embed], in the dtype of x and split as x is; `up` and `down`.

    Raises:
        ValueError: the shapes do not fit.
    """
    if x.ndim != 2 or up.shape[:1] != x.shape[1:] or down.shape != up.shape[::-1]:
        raise ValueError(
            f"x, up and down have shapes {x.shape}, {up.shape} and {down.shape}; "
            "expected [batch, embed], [embed, mlp] and [mlp, embed]"
        )
    # Without a mesh Flax refuses to make a variable that names axes while the option is on.
    on = not jax.sharding.get_abstract_mesh().empty
    with flax.config.temp_flip_flag("always_shard_variable", on):
        layer = _Layer(up, down)
    return {"out": layer(x), "up": layer.up[...], "down": layer.down[...]}


class _Layer(nnx.Module):
    def __init__(self, up: jax.Array, down: jax.Array) -> None:
        self.up = nnx.Param(up, out_sharding=("embed", "mlp"), sharding_rules=RULES)
        self.down = nnx.Param(down, out_sharding=("mlp", "embed"), sharding_rules=RULES)

    def __call__(self, x: jax.Array) -> jax.Array:
        def run(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
            return jnp.matmul(jax.nn.relu(jnp.matmul(x, up)), down)

        if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
            run = jax.sharding.auto_axes(run, out_sharding=jax.typeof(x).sharding.spec)
        return run(x, self.up[...], self.down[...])
