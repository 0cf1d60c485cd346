"""Sharding constraints on an array, emitted only where they split something.

`no_trivial` emits no constraint for a spec that splits nothing: the values are the same, but an array that was split
stays split, where the constraint would have gathered it. `no_size_one` leaves axes of size one out of the spec, which
changes no layout, but the type where axes are explicit. `lean` does both: it skips every spec that splits nothing here.
A spec with reduced or unreduced axes says something although it splits nothing: it is never skipped, and keeps them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

FREE = "*"
"""In a spec: this dimension is the compiler's to lay out."""

Entry = str | tuple[str, ...] | None


class _Sums(NamedTuple):
    """The axes over which an array is reduced or unreduced: part of its type, wherever its dimensions lie."""

    reduced: tuple[str, ...]
    unreduced: tuple[str, ...]


def no_trivial(
    x: jax.Array, *, spec: tuple[Entry, ...], reduced: tuple[str, ...] = (), unreduced: tuple[str, ...] = ()
) -> jax.Array:
    """The array as it is where the spec splits nothing, else laid out by it.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.
        reduced: mesh axes over which every device holds the whole, and over which its gradient is summed later.
        unreduced: mesh axes over which the devices hold parts of a sum.

    Returns:
        The array, split as the spec says; where the spec splits nothing, split as it was.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have; or it names reduced or unreduced
            axes where axes are auto.

    Source: MaxText pull request 3922, item 4 (a).
    """
    sums = _Sums(reduced, unreduced)
    mesh = _checked(spec, sums)
    return x if mesh.empty or _trivial(spec[: x.ndim], sums) else _laid(x, list(spec), sums, mesh)


def no_size_one(
    x: jax.Array, *, spec: tuple[Entry, ...], reduced: tuple[str, ...] = (), unreduced: tuple[str, ...] = ()
) -> jax.Array:
    """The array laid out by the spec without the axes of size one.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.
        reduced: mesh axes over which every device holds the whole, and over which its gradient is summed later.
        unreduced: mesh axes over which the devices hold parts of a sum.

    Returns:
        The array, split as the spec says, its type without axes of size one.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have; or it names reduced or unreduced
            axes where axes are auto.

    Source: MaxText pull request 3922, item 4 (b).
    """
    sums = _Sums(reduced, unreduced)
    mesh = _checked(spec, sums)
    return x if mesh.empty else _laid(x, _without_size_one(spec, mesh), sums, mesh)


def lean(
    x: jax.Array, *, spec: tuple[Entry, ...], reduced: tuple[str, ...] = (), unreduced: tuple[str, ...] = ()
) -> jax.Array:
    """The array as it is where the spec splits nothing on this mesh, else laid out without the axes of size one.

    Args:
        x: any shape and dtype.
        spec: per dimension a mesh axis, a tuple of them, None (not split) or `"*"`: left to the compiler where
            axes are auto, left as it is where they are explicit.
        reduced: mesh axes over which every device holds the whole, and over which its gradient is summed later.
        unreduced: mesh axes over which the devices hold parts of a sum.

    Returns:
        The array, split as the spec says; where the spec splits nothing on this mesh, split as it was.

    Raises:
        ValueError: the spec names an axis twice, or one that the mesh does not have; or it names reduced or unreduced
            axes where axes are auto.

    Source: MaxText pull request 3922, items 4 and 6.
    """
    sums = _Sums(reduced, unreduced)
    mesh = _checked(spec, sums)
    if mesh.empty:
        return x
    entries = _without_size_one(spec, mesh)
    return x if _trivial(tuple(entries[: x.ndim]), sums) else _laid(x, entries, sums, mesh)


def _trivial(spec: tuple[Entry, ...], sums: _Sums) -> bool:
    """Whether no dimension is split; one that is free is not the same as one that is not split."""
    return sums == _Sums((), ()) and all(entry is None or entry == () for entry in spec)


def _without_size_one(spec: tuple[Entry, ...], mesh: AbstractMesh) -> list[Entry]:
    """The spec without axes of size one: tuples stay tuples, which may be empty."""

    def kept(entry: Entry) -> Entry:
        if entry is None or entry == FREE:
            return entry
        if isinstance(entry, str):
            return entry if mesh.shape[entry] > 1 else None
        return tuple(axis for axis in entry if mesh.shape[axis] > 1)

    return [kept(entry) for entry in spec]


def _laid(x: jax.Array, spec: list[Entry], sums: _Sums, mesh: AbstractMesh) -> jax.Array:
    """The array under a constraint, which has to be a reshard where shardings are part of types."""
    entries = [*spec[: x.ndim], *(None,) * (x.ndim - len(spec))]
    if AxisType.Explicit in mesh.axis_types:
        now = jax.typeof(x).sharding.spec
        kept = (now[i] if entry == FREE else entry for i, entry in enumerate(entries))
        return jax.reshard(
            x, PartitionSpec(*kept, reduced=frozenset(sums.reduced), unreduced=frozenset(sums.unreduced))
        )
    told = PartitionSpec(*(PartitionSpec.UNCONSTRAINED if entry == FREE else entry for entry in entries))
    return jax.lax.with_sharding_constraint(x, told)


def _checked(spec: tuple[Entry, ...], sums: _Sums) -> AbstractMesh:
    """The mesh, once it has every axis of the spec, and can have those of sums."""
    mesh = jax.sharding.get_abstract_mesh()
    split = [axis for entry in spec if entry != FREE for axis in ((entry,) if isinstance(entry, str) else entry or ())]
    axes = [*split, *sums.reduced, *sums.unreduced]
    for axis in axes:
        if axes.count(axis) > 1:
            raise ValueError(f"spec {spec} names the axis '{axis}' twice; expected each axis once")
        if not mesh.empty and axis not in mesh.axis_names:
            raise ValueError(f"spec {spec} names the axis '{axis}'; expected axes of the mesh: {mesh.axis_names}")
    if (sums.reduced or sums.unreduced) and not mesh.empty and AxisType.Explicit not in mesh.axis_types:
        got = (*sums.reduced, *sums.unreduced)
        raise ValueError(f"axes {got} are to be reduced or unreduced; expected a mesh of explicit axes, got auto")
    return mesh
