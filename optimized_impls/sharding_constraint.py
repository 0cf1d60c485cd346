"""An array told how it lies on the mesh only where that says something.

`no_trivial` emits no constraint for a spec that splits nothing: the values are the same, but an array that was split
stays split, where the constraint would have gathered it. `no_size_one` leaves axes of size one out of the spec, which
changes no layout, but the type where axes are explicit. `lean` does both: it skips every spec that splits nothing here.
"""

from __future__ import annotations

import jax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

FREE = "*"
"""In a spec: this dimension is the compiler's to lay out."""

Entry = str | tuple[str, ...] | None


def no_trivial(x: jax.Array, *, spec: tuple[Entry, ...]) -> jax.Array:
    """The array as it is where the spec splits nothing, else laid out by it.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.

    Returns:
        The array, split as the spec says; where the spec splits nothing, split as it was.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have.

    Source: MaxText pull request 3922, item 4 (a).
    """
    mesh = _checked(spec)
    return x if mesh.empty or _trivial(spec[: x.ndim]) else _laid(x, list(spec), mesh)


def no_size_one(x: jax.Array, *, spec: tuple[Entry, ...]) -> jax.Array:
    """The array laid out by the spec without the axes of size one.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.

    Returns:
        The array, split as the spec says, its type without axes of size one.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have.

    Source: MaxText pull request 3922, item 4 (b).
    """
    mesh = _checked(spec)
    return x if mesh.empty else _laid(x, _without_size_one(spec, mesh), mesh)


def lean(x: jax.Array, *, spec: tuple[Entry, ...]) -> jax.Array:
    """The array as it is where the spec splits nothing on this mesh, else laid out without the axes of size one.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.

    Returns:
        The array, split as the spec says; where the spec splits nothing on this mesh, split as it was.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have.

    Source: MaxText pull request 3922, items 4 and 6.
    """
    mesh = _checked(spec)
    if mesh.empty:
        return x
    entries = _without_size_one(spec, mesh)
    return x if _trivial(tuple(entries[: x.ndim])) else _laid(x, entries, mesh)


def _trivial(spec: tuple[Entry, ...]) -> bool:
    """Whether no dimension is split; one that is free is not the same as one that is not split."""
    return all(entry is None or entry == () for entry in spec)


def _without_size_one(spec: tuple[Entry, ...], mesh: AbstractMesh) -> list[Entry]:
    """The spec without axes of size one: tuples stay tuples, which may be empty."""

    def kept(entry: Entry) -> Entry:
        if entry is None or entry == FREE:
            return entry
        if isinstance(entry, str):
            return entry if mesh.shape[entry] > 1 else None
        return tuple(axis for axis in entry if mesh.shape[axis] > 1)

    return [kept(entry) for entry in spec]


def _laid(x: jax.Array, spec: list[Entry], mesh: AbstractMesh) -> jax.Array:
    """The array under a constraint, which has to be a reshard where shardings are part of types."""
    entries = [*spec[: x.ndim], *(None,) * (x.ndim - len(spec))]
    if AxisType.Explicit in mesh.axis_types:
        now = jax.typeof(x).sharding.spec
        return jax.reshard(x, PartitionSpec(*(now[i] if entry == FREE else entry for i, entry in enumerate(entries))))
    told = PartitionSpec(*(PartitionSpec.UNCONSTRAINED if entry == FREE else entry for entry in entries))
    return jax.lax.with_sharding_constraint(x, told)


def _checked(spec: tuple[Entry, ...]) -> AbstractMesh:
    """The mesh, once it has every axis of the spec."""
    mesh = jax.sharding.get_abstract_mesh()
    axes = [axis for entry in spec if entry != FREE for axis in ((entry,) if isinstance(entry, str) else entry or ())]
    for axis in axes:
        if axes.count(axis) > 1:
            raise ValueError(f"spec {spec} names the axis '{axis}' twice; expected each axis once")
        if not mesh.empty and axis not in mesh.axis_names:
            raise ValueError(f"spec {spec} names the axis '{axis}'; expected axes of the mesh: {mesh.axis_names}")
    return mesh
