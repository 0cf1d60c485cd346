"""A block of a layer that reshards its activations to a simpler sharding on entry, and retains it.

The spec of `simplified` has the axes of size one taken out, and splits the sequence over `context`: nothing is gathered
on such a mesh. What it leaves out, the way back, changes the layout of the result where the input was split otherwise;
`simplified_back` keeps it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec

BATCH = ("data", "fsdp", "fsdp_transpose", "expert")
"""The mesh axes over which the block splits the batch."""
SEQUENCE = "context"
"""The mesh axis over which the block splits the sequence."""


def simplified(x: jax.Array, scale: jax.Array) -> jax.Array:
    """The activations of the block, lying as the block has them.

    Args:
        x: `[batch, seq, embed]`, floating point; the batch divides by twice the devices of the axes `BATCH`.
        scale: `[embed]`, floating point, not split.

    Returns:
        `[batch, seq, embed]`, the dtype of `x`; split over `BATCH` and `SEQUENCE` where shardings are part of types.

    Raises:
        ValueError: the shapes do not fit, or the batch is odd.

    Source: MaxText pull request 3922, item 11.
    """
    _check(x, scale)
    return _block(_laid(x), scale)


def simplified_back(x: jax.Array, scale: jax.Array) -> jax.Array:
    """The activations of the block, lying as the input did.

    Args:
        x: `[batch, seq, embed]`, floating point; the batch divides by twice the devices of the axes `BATCH`.
        scale: `[embed]`, floating point, not split.

    Returns:
        `[batch, seq, embed]`, the dtype of `x`, split as `x` is where shardings are part of types.

    Raises:
        ValueError: the shapes do not fit, or the batch is odd.
    """
    _check(x, scale)
    found = _block(_laid(x), scale)
    return jax.reshard(found, jax.typeof(x).sharding) if _explicit() else found


def _block(x: jax.Array, scale: jax.Array) -> jax.Array:
    """The two halves in turn, merged."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    halves = (lax.slice_in_dim(x, start, None, 2).astype(wide) for start in (0, 1))
    done = [(half * jax.nn.sigmoid(half * scale.astype(wide))).astype(x.dtype) for half in halves]
    return jnp.stack(done, axis=1).reshape(x.shape)


def _explicit() -> bool:
    return AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


def _laid(x: jax.Array) -> jax.Array:
    """The array in the layout of the block; where axes are auto, the compiler finds one."""
    if not _explicit():
        return x
    sizes = jax.sharding.get_abstract_mesh().shape
    rows = tuple(axis for axis in BATCH if sizes.get(axis, 1) > 1)
    return jax.reshard(x, PartitionSpec(rows or None, SEQUENCE if sizes.get(SEQUENCE, 1) > 1 else None, None))


def _check(x: jax.Array, scale: jax.Array) -> None:
    if x.ndim != 3 or scale.shape != x.shape[2:] or x.shape[0] % 2:
        raise ValueError(f"x and scale have shapes {x.shape} and {scale.shape}; expected [2 * n, seq, embed], [embed]")
