"""The feed-forward of a gated layer, whose hidden activations are cast back to the dtype of the layer.

Source: Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv 2002.05202), equation 6 (SwiGLU); that the hidden
activations are cast before the last product is MaxText's, and the cast that pull request 3922, item 9, takes away.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec


def cast_kept(
    x: jax.Array,
    gate: jax.Array,
    up: jax.Array,
    down: jax.Array,
    *,
    activations_in_float32: bool = False,
    product_casts: bool = False,
) -> jax.Array:
    """A gated layer with the cast of its hidden activations written out, whatever their dtype is.

    Equivalent to `((silu(x @ gate) * (x @ up)).astype(x.dtype) @ down).astype(x.dtype)`, where every product is added
    up in at least float32 and rounded to the dtype of its operands once, and the activation is computed in at least
    float32 if asked for.

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
        if activations_in_float32:
            wide = jnp.promote_types(x.dtype, jnp.float32)
            gates, ups = gates.astype(wide), ups.astype(wide)
        hidden = (jax.nn.silu(gates) * ups).astype(x.dtype)
        if product_casts:
            hidden = hidden.astype(down.dtype)
        return _product(hidden, down).astype(x.dtype)

    spec = PartitionSpec(*jax.typeof(x).sharding.spec)
    return jax.sharding.auto_axes(layer, out_sharding=spec)(x, gate, up, down)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """A matrix product in the promoted dtype, added up in at least float32."""
    dtype = jnp.promote_types(left.dtype, right.dtype)
    wide = jnp.promote_types(dtype, jnp.float32)
    precision = lax.Precision.HIGHEST
    return jnp.matmul(left, right, precision=precision, preferred_element_type=wide).astype(dtype)
