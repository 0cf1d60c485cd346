"""Sharding constraints on an array, all of them emitted, even those that split nothing.

Source: `jax.lax.with_sharding_constraint` and `jax.reshard`, jax documentation, "Explicit sharding"; that a spec is
truncated to the rank of the array is MaxText's `maybe_shard_with_name`.
"""

from __future__ import annotations

import jax
from jax.sharding import AxisType, PartitionSpec

FREE = "*"
"""In a spec: this dimension is the compiler's to lay out."""


def every_constraint(
    x: jax.Array,
    *,
    spec: tuple[str | tuple[str, ...] | None, ...],
    reduced: tuple[str, ...] = (),
    unreduced: tuple[str, ...] = (),
) -> jax.Array:
    """The array, laid out by a constraint that names every axis of the spec.

    Equivalent to `x`: only the layout is another. Dimensions beyond the spec are not split, and entries of the spec
    beyond the rank of the array are ignored. Without a mesh nothing is laid out.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.
        reduced: mesh axes over which every device holds the whole, and over which its gradient is summed later.
        unreduced: mesh axes over which the devices hold parts of a sum.

    Returns:
        The array, split as the spec says; where axes are auto, the compiler may only hear of it.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have; or it names reduced or unreduced
            axes where axes are auto.
    """
    split = [axis for entry in spec if entry != FREE for axis in ((entry,) if isinstance(entry, str) else entry or ())]
    named = [*split, *reduced, *unreduced]
    for axis in named:
        if named.count(axis) > 1:
            raise ValueError(f"spec {spec} names the axis '{axis}' twice; expected each axis once")
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return x
    for axis in named:
        if axis not in mesh.axis_names:
            raise ValueError(f"spec {spec} names the axis '{axis}'; expected axes of the mesh: {mesh.axis_names}")
    entries = [*spec[: x.ndim], *(None,) * (x.ndim - len(spec))]
    if AxisType.Explicit in mesh.axis_types:
        lies = jax.typeof(x).sharding.spec
        entries = [lies[i] if entry == FREE else entry for i, entry in enumerate(entries)]
        return jax.reshard(x, PartitionSpec(*entries, reduced=frozenset(reduced), unreduced=frozenset(unreduced)))
    if reduced or unreduced:
        raise ValueError(
            f"axes {(*reduced, *unreduced)} are to be reduced or unreduced; expected a mesh of explicit axes, got auto"
        )
    told = PartitionSpec(*(PartitionSpec.UNCONSTRAINED if entry == FREE else entry for entry in entries))
    return jax.lax.with_sharding_constraint(x, told)
