"""`shard_map`, device by device, for meshes of any size and without devices: who holds what.

Devices are numbered row by row over the manual axes, outermost first. All of them take each equation together, so a
collective finds the values of its whole group at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import NotCovered
from harness.interpret.step import Array, Step, Type

if TYPE_CHECKING:
    from harness.interpret.walk import Walk

Value = Any


@dataclass(frozen=True, slots=True)
class PerDevice:
    """A value that differs between devices: one for each."""

    values: tuple[Value, ...]


def spread(values: Iterable[Value]) -> Value:
    """One value per device; a plain value again where all devices hold the very same."""
    values = tuple(values)
    return values[0] if all(value is values[0] for value in values) else PerDevice(values)


def count(values: Sequence[Value]) -> int | None:
    """On how many devices these values differ; None where they are the same on all."""
    return next((len(value.values) for value in values if isinstance(value, PerDevice)), None)


def on(values: Sequence[Value], device: int) -> list[Value]:
    """What one device holds of these values."""
    return [value.values[device] if isinstance(value, PerDevice) else value for value in values]


@dataclass(frozen=True, slots=True)
class Axes:
    """The manual mesh axes around an equation, outermost first.

    Args:
        sizes: their names and sizes.
        mesh: the names of all axes, in the order of the mesh.
    """

    sizes: tuple[tuple[str, int], ...] = ()
    mesh: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """How many devices they span."""
        return int(np.prod([size for _, size in self.sizes], dtype=np.int64))

    @property
    def grid(self) -> Array:
        """The device numbers, one dimension per axis."""
        return np.arange(self.devices).reshape([size for _, size in self.sizes])

    def groups(self, step: Step, names: Any) -> list[list[int]]:
        """The devices that talk to each other over some axes, each group in the order of these axes.

        Raises:
            NotCovered: an axis is not manual here, as inside a branch that only some devices take.
        """
        names = names if isinstance(names, tuple | list) else (names,)
        known = [name for name, _ in self.sizes]
        for name in names:
            if name not in known:
                raise NotCovered(f"{step}: the axis '{name}' is not there; the manual axes are {known or 'none'}")
        if step.params.get("axis_index_groups") is not None:
            raise NotCovered(f"{step}: axis_index_groups are not covered")
        others = [number for number, name in enumerate(known) if name not in names]
        order = others + [known.index(name) for name in names]
        together = int(np.prod([dict(self.sizes)[name] for name in names], dtype=np.int64))
        return [[int(d) for d in row] for row in self.grid.transpose(order).reshape(-1, together)]


def shard_map(walk: Walk, step: Step, values: Sequence[Value], axes: Axes) -> list[Value]:
    """Cut the arguments by their specs, walk the body on all devices, put the outputs together."""
    params = step.params
    names = params.get("newly_manual_axes", params.get("manual_axes", ()))
    added = Axes(tuple((name, size) for name, size in params["mesh"].shape.items() if name in names))
    inside = Axes(axes.sizes + added.sizes, tuple(params["mesh"].shape))
    args = [
        cut(walk, value, spec, kind, axes.devices, added)
        for value, spec, kind in zip(values, params["in_specs"], step.inputs, strict=True)
    ]
    outputs = walk.closed(params["jaxpr"], args, inside)
    return [
        join(walk, step, value, spec, kind, axes.devices, added)
        for value, spec, kind in zip(outputs, params["out_specs"], step.outputs, strict=True)
    ]


def cut(walk: Walk, value: Value, spec: Any, kind: Type, outer: int, added: Axes) -> Value:
    """What each device gets of an argument."""
    pieces = _pieces(spec, kind, added)
    if pieces is None:
        return value if not isinstance(value, PerDevice) else PerDevice(_repeated(value.values, added.devices))
    ids = np.arange(int(np.prod(kind.shape, dtype=np.int64))).reshape(kind.shape)
    indices = [ids[piece] for piece in pieces]
    held = value.values if isinstance(value, PerDevice) else (value,) * outer
    return spread(walk.taken([one], index, Type(index.shape, kind.dtype)) for one in held for index in indices)


def join(walk: Walk, step: Step, value: Value, spec: Any, kind: Type, outer: int, added: Axes) -> Value:
    """The whole output from what the devices hold; copies that must be equal are looked at.

    Raises:
        NotCovered: an output that the spec calls replicated differs between devices.
    """
    pieces = _pieces(spec, kind, added)
    if not isinstance(value, PerDevice) and pieces is None:
        return value
    held = value.values if isinstance(value, PerDevice) else (value,) * (outer * added.devices)
    whole = []
    for start in range(0, len(held), added.devices):
        mine = held[start : start + added.devices]
        places: dict[Any, Value] = {}
        for device, one in enumerate(mine):
            place = str(pieces[device]) if pieces is not None else ""
            if place not in places:
                places[place] = (pieces[device] if pieces is not None else (), one)
            elif places[place][1] is not one and not walk.domain.same(places[place][1], one):
                raise NotCovered(f"{step}: an output that is typed as replicated differs between devices")
        index = np.empty(kind.shape, np.int64)
        sources = []
        offset = 0
        for piece, one in places.values():
            size = index[piece].size
            index[piece] = offset + np.arange(size).reshape(index[piece].shape)
            offset += size
            sources.append(one)
        whole.append(walk.taken(sources, index, kind))
    return whole[0] if outer == 1 and not isinstance(value, PerDevice) else spread(whole)


def _pieces(spec: Any, kind: Type, added: Axes) -> list[tuple[slice, ...]] | None:
    """The part of an array that each of the added devices holds; None where each holds all of it.

    Raises:
        NotCovered: the devices hold summands of it, or what becomes one in a gradient.
    """
    for word in ("unreduced", "reduced"):
        if names := getattr(spec, word, None):
            raise NotCovered(f"a spec with {word}={set(names)} is not covered: its arrays are summands, not pieces")
    sizes = dict(added.sizes)
    entries = [(entry if isinstance(entry, tuple) else (entry,)) if entry else () for entry in spec]
    names = [tuple(name for name in entry if name in sizes) for entry in entries]
    if not any(names):
        return None
    found = []
    for device in range(added.devices):
        at = dict(zip(sizes, np.unravel_index(device, [*sizes.values()]), strict=True))
        piece = []
        for dimension, axes in enumerate(names):
            parts, number = 1, 0
            for axis in axes:
                parts, number = parts * sizes[axis], number * sizes[axis] + int(at[axis])
            length = kind.shape[dimension] // parts
            piece.append(slice(number * length, (number + 1) * length))
        found.append(tuple(piece))
    return found


def _repeated(values: Sequence[Value], times: int) -> tuple[Value, ...]:
    return tuple(value for value in values for _ in range(times))
