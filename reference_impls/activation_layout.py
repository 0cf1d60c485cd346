"""A block of a layer that reshards its activations on entry, and back to the original sharding on exit.

Source: MaxText's deepseek layer while it initialises: the layout of the input is captured, the input is resharded to
the batch axes, split into two halves that are worked on in turn, merged, and resharded back.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

BATCH = ("data", "fsdp", "expert")
"""The mesh axes over which the block splits the batch."""


def in_and_out(x: jax.Array, scale: jax.Array) -> jax.Array:
    """The activations of the block, lying as the input did.

    Equivalent to `x * sigmoid(x * scale)` in at least float32. Inside the block every row lies on one device whole: an
    input that is split over its second or third dimension is gathered on the way in.

    Args:
        x: `[batch, seq, embed]`, floating point; the batch divides by twice the devices of the axes `BATCH`.
        scale: `[embed]`, floating point, not split.

    Returns:
        `[batch, seq, embed]`, the dtype of `x`, split as `x` is where shardings are part of types.

    Raises:
        ValueError: the shapes do not fit, or the batch is odd.
    """
    if x.ndim != 3 or scale.shape != x.shape[2:] or x.shape[0] % 2:
        raise ValueError(f"x and scale have shapes {x.shape} and {scale.shape}; expected [2 * n, seq, embed], [embed]")
    mesh = jax.sharding.get_abstract_mesh()
    explicit = AxisType.Explicit in mesh.axis_types
    came = jax.typeof(x).sharding
    if explicit:
        x = jax.reshard(x, PartitionSpec(tuple(axis for axis in BATCH if axis in mesh.axis_names), None, None))

    wide = jnp.promote_types(x.dtype, jnp.float32)

    def block(half: jax.Array) -> jax.Array:
        half = half.astype(wide)
        return (half * jax.nn.sigmoid(half * scale.astype(wide))).astype(x.dtype)

    # Rows 0, 2, 4 and so on are one half: each device splits its own.
    first, second = block(x[0::2]), block(x[1::2])
    out = jnp.stack([first, second], axis=1).reshape(x.shape)
    return jax.reshard(out, came) if explicit else out
