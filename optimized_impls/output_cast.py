"""The feed-forward of a gated layer without the cast of its hidden activations, or with it where the dtype changes.

`cast_removed` is the same only where the activations already have the dtype of the layer, or where the next product
casts them itself. `cast_if_needed` asks for the dtype first: the same always.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

Cast = Literal["never", "if needed"]


def cast_removed(
    x: jax.Array,
    gate: jax.Array,
    up: jax.Array,
    down: jax.Array,
    *,
    activations_in_float32: bool = False,
    product_casts: bool = False,
) -> jax.Array:
    """The layer without a cast: activations in float32 stay so, and make the last product one of float32.

    Args:
        x: `[tokens, embed]`, floating point.
        gate, up: `[embed, mlp]`, the dtype of `x`.
        down: `[mlp, embed]`, the dtype of `x`.
        activations_in_float32: whether `silu` and the product with the gate are computed in at least float32.
        product_casts: whether the last product casts what it gets to the dtype of its weights, as a grouped matrix
            product does; else it promotes, as an einsum does.

    Returns:
        `[tokens, embed]`, the dtype of `x`; split as `x` is.

    Raises:
        ValueError: the shapes do not fit, or the weights have another dtype than `x`.

    Source: MaxText pull request 3922, item 9 (b).
    """
    return _layer(x, gate, up, down, "never", activations_in_float32, product_casts)


def cast_if_needed(
    x: jax.Array,
    gate: jax.Array,
    up: jax.Array,
    down: jax.Array,
    *,
    activations_in_float32: bool = False,
    product_casts: bool = False,
) -> jax.Array:
    """The layer with a cast of the hidden activations where they have another dtype than the layer.

    Args:
        x: `[tokens, embed]`, floating point.
        gate, up: `[embed, mlp]`, the dtype of `x`.
        down: `[mlp, embed]`, the dtype of `x`.
        activations_in_float32: whether `silu` and the product with the gate are computed in at least float32.
        product_casts: whether the last product casts what it gets to the dtype of its weights, as a grouped matrix
            product does; else it promotes, as an einsum does.

    Returns:
        `[tokens, embed]`, the dtype of `x`; split as `x` is.

    Raises:
        ValueError: the shapes do not fit, or the weights have another dtype than `x`.
    """
    return _layer(x, gate, up, down, "if needed", activations_in_float32, product_casts)


def _layer(
    x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array, cast: Cast, in_float32: bool, product_casts: bool
) -> jax.Array:
    if (
        x.ndim != 2
        or gate.shape != (x.shape[1], down.shape[0])
        or up.shape != gate.shape
        or down.shape[1:] != x.shape[1:]
    ):
        raise ValueError(
            f"x, gate, up and down have shapes {x.shape}, {gate.shape}, {up.shape} and {down.shape}; expected "
            "[tokens, embed], [embed, mlp], [embed, mlp] and [mlp, embed]"
        )
    if not x.dtype == gate.dtype == up.dtype == down.dtype:
        raise ValueError(f"the weights have dtypes {gate.dtype}, {up.dtype} and {down.dtype}; expected {x.dtype}")

    def layer(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        gates, ups = _product(x, gate), _product(x, up)
        wide = jnp.promote_types(x.dtype, jnp.float32) if in_float32 else x.dtype
        hidden = jax.nn.silu(gates.astype(wide)) * ups.astype(wide)
        if cast == "if needed" and hidden.dtype != x.dtype:
            hidden = hidden.astype(x.dtype)
        if product_casts:
            hidden = hidden.astype(down.dtype)
        return _product(hidden, down).astype(x.dtype)

    # The products are left to the compiler where shardings are part of types.
    spec = PartitionSpec(*jax.typeof(x).sharding.spec)
    return jax.sharding.auto_axes(layer, out_sharding=spec)(x, gate, up, down)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """A matrix product in the promoted dtype, added up in at least float32 and rounded once."""
    dtype = jnp.promote_types(left.dtype, right.dtype)
    wide = jnp.promote_types(dtype, jnp.float32)
    found = jnp.matmul(left, right, precision=lax.Precision.HIGHEST, preferred_element_type=wide)
    return found.astype(dtype)
