"""A stack of residual layers, rematerialised per iteration, that saves the inputs of iterations and of layers.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016 (arXiv 1604.06174), section 4; squared ReLU:
So et al., "Primer", 2021 (arXiv 2109.08668). The names are those that the policy of MaxText's pipeline keeps
(`save_only_these_names`), before pull request 3922, item 10 (c).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec


def both_names(x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array, *, scanned: bool = True) -> jax.Array:
    """The stack under a policy that keeps `iteration_input` and `decoder_layer_input` for the way back.

    Equivalent to this, whatever is kept, where every product is added up in at least float32 and rounded once:

        state = 0
        for i in range(iterations):
            state = state + x[i]
            for j in range(layers):
                state = state + relu(state / sqrt(mean(state**2) + 1e-6) * scale[i, j] @ up[i, j])**2 @ down[i, j]

    Args:
        x: `[iterations, tokens, embed]`, floating point: what every iteration is fed.
        scale: `[iterations, layers, embed]`, the dtype of `x`.
        up: `[iterations, layers, embed, mlp]`, the dtype of `x`.
        down: `[iterations, layers, mlp, embed]`, the dtype of `x`.
        scanned: whether the iterations are one loop of the compiler; else they are written out, and the compiler is
            told not to take what is recomputed from the way there.

    Returns:
        `[tokens, embed]`, the dtype of `x`; split as an iteration's part of `x` is.

    Raises:
        ValueError: the shapes do not fit, or the weights have another dtype than `x`.
    """
    if (
        x.ndim != 3
        or up.ndim != 4
        or up.shape[::2] != x.shape[::2]
        or scale.shape != up.shape[:3]
        or down.shape != (*up.shape[:2], *up.shape[:1:-1])
    ):
        raise ValueError(
            f"x, scale, up and down have shapes {x.shape}, {scale.shape}, {up.shape} and {down.shape}; expected "
            "[iterations, tokens, embed], [iterations, layers, embed], [iterations, layers, embed, mlp] and "
            "[iterations, layers, mlp, embed]"
        )
    if not x.dtype == scale.dtype == up.dtype == down.dtype:
        raise ValueError(f"the weights have dtypes {scale.dtype}, {up.dtype} and {down.dtype}; expected {x.dtype}")

    policy = jax.checkpoint_policies.save_only_these_names("iteration_input", "decoder_layer_input")
    recomputed = jax.checkpoint(_iteration, policy=policy, prevent_cse=not scanned)

    def stack(x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        state = jnp.zeros_like(x[0])
        if scanned:
            return lax.scan(recomputed, state, (x, scale, up, down))[0]
        for i in range(x.shape[0]):
            state, _ = recomputed(state, (x[i], scale[i], up[i], down[i]))
        return state

    # The products are left to the compiler where shardings are part of types.
    spec = PartitionSpec(*jax.typeof(x).sharding.spec[1:])
    return jax.sharding.auto_axes(stack, out_sharding=spec)(x, scale, up, down)


def _iteration(state: jax.Array, given: Any) -> tuple[jax.Array, None]:
    feed, *weights = given
    state = checkpoint_name(state + feed, "iteration_input")
    return lax.scan(_layer, state, tuple(weights))[0], None


def _layer(x: jax.Array, weights: Any) -> tuple[jax.Array, None]:
    scale, up, down = weights
    x = checkpoint_name(x, "decoder_layer_input")
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    normed = wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    hidden = jnp.square(jax.nn.relu(_product(normed.astype(x.dtype) * scale, up)))
    return x + _product(hidden, down), None


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """A matrix product, added up in at least float32 and rounded once."""
    wide = jnp.promote_types(left.dtype, jnp.float32)
    found = jnp.matmul(left, right, precision=lax.Precision.HIGHEST, preferred_element_type=wide)
    return found.astype(left.dtype)
