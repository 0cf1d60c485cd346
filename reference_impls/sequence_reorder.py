"""The reorder that balances causal attention over context-parallel ranks, written as a gather by a list of indices.

Source: Llama Team, "The Llama 3 Herd of Models", 2024 (arXiv 2407.21783), section 3.3.2, "Context parallelism for
long sequences": the sequence is cut into `2 * cp` chunks and rank `r` gets chunks `r` and `2 * cp - 1 - r`, so that
under a causal mask every rank has the same work.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def gather(x: jax.Array, *, cp: int, axis: int, to_contiguous: bool) -> jax.Array:
    """Put the chunks of a sequence into load-balanced order, or back into the order of the text.

    Equivalent to `jnp.concatenate([jnp.split(x, 2 * cp, axis)[chunk] for chunk in order], axis)`, where `order` is
    `[0, 2cp-1, 1, 2cp-2, ..., cp-1, cp]` and to go back the inverse of that permutation. For `cp=2` eight tokens
    0..7 become `[0, 1, 6, 7, 2, 3, 4, 5]`.

    Args:
        x: any shape and dtype; its `axis` is the sequence, in tokens.
        cp: number of context-parallel ranks; odd ones too.
        axis: which dimension is the sequence; negative counts from the end.
        to_contiguous: False goes from the order of the text to the balanced one, True goes back.

    Returns:
        The shape and dtype of `x`; its sharding where that is part of the type, else what the compiler chooses.

    Raises:
        ValueError: `cp` is below 1, `axis` is out of range, or the sequence is not divisible by `2 * cp`.
    """
    if cp < 1:
        raise ValueError(f"cp is {cp}; expected at least 1")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis}; expected {-x.ndim} to {x.ndim - 1}, a dimension of x")
    axis %= x.ndim
    length = x.shape[axis]
    if length % (2 * cp):
        raise ValueError(f"the sequence has {length} tokens; expected a multiple of 2 * cp = {2 * cp}")

    def take(x: jax.Array) -> jax.Array:
        ranks = jnp.arange(cp)
        balanced = jnp.stack([ranks, 2 * cp - 1 - ranks], axis=1).reshape(2 * cp)
        # The inverse is read off the list itself, so that it holds for every cp. Closed formulae for it are easily
        # right for even cp only.
        inverse = jnp.zeros_like(balanced).at[balanced].set(jnp.arange(2 * cp))
        chunks = x.reshape(*x.shape[:axis], 2 * cp, length // (2 * cp), *x.shape[axis + 1 :])
        return jnp.take(chunks, inverse if to_contiguous else balanced, axis=axis).reshape(x.shape)

    # A gather along a dimension that is split over devices has no sharding rule: where the sharding is part of the
    # type, leave this step to the compiler.
    return jax.sharding.auto_axes(take, out_sharding=jax.typeof(x).sharding)(x)
