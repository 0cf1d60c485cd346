"""A stack of residual layers, rematerialised per iteration, under other policies.

What is computed does not depend on the policy, and what is kept shows in no value: `jax.checkpoint_policies` gets names
that it does not know without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec

Policy = Callable[..., Any]


def iteration_input_only(
    x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array, *, scanned: bool = True
) -> jax.Array:
    """The stack under a policy that keeps the inputs of iterations, and recomputes those of layers.

    Equivalent to the stack without a policy, in values.

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

    Source: MaxText pull request 3922, item 10 (c).
    """
    policy = jax.checkpoint_policies.save_only_these_names("iteration_input")
    return _stack(x, scale, up, down, policy, scanned)


def offloaded(x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array, *, scanned: bool = True) -> jax.Array:
    """The stack that keeps the inputs of iterations, and moves those of layers to the memory of the host.

    Equivalent to the stack without a policy, in values; needs a backend with `pinned_host` memory.

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

    Source: MaxText's `decoder_layer_input=offload`, which was a no-op where the name was missing (issue 4990).
    """
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["iteration_input"],
        names_which_can_be_offloaded=["decoder_layer_input"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    return _stack(x, scale, up, down, policy, scanned)


def nothing_saved(x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array, *, scanned: bool = True) -> jax.Array:
    """The stack that recomputes every iteration from what enters it, whatever has a name.

    Equivalent to the stack without a policy, in values.

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

    Source: `jax.checkpoint` without a policy; MaxText's `remat_policy: full`.
    """
    policy = jax.checkpoint_policies.nothing_saveable
    return _stack(x, scale, up, down, policy, scanned)


def everything_saved(
    x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array, *, scanned: bool = True
) -> jax.Array:
    """The stack that keeps all that the way back needs, and recomputes nothing.

    Equivalent to the stack without `jax.checkpoint`, in values and in what is kept.

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

    Source: the other end of the scale.
    """
    policy = jax.checkpoint_policies.everything_saveable
    return _stack(x, scale, up, down, policy, scanned)


def _stack(x: jax.Array, scale: jax.Array, up: jax.Array, down: jax.Array, policy: Policy, scanned: bool) -> jax.Array:
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
