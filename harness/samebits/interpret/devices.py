"""Values that differ between the devices of a `shard_map`, and the manual axes around an equation.

Devices are numbered row by row over the manual axes, outermost first. All of them take each equation together, so a
collective finds the values of its whole group at hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step

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
        mesh: the names of all axes, in the order of the mesh.
    """

    sizes: tuple[tuple[str, int], ...] = ()
    mesh: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """How many devices they span."""
        return math.prod([size for _, size in self.sizes])

    @property
    def grid(self) -> Array:
        """The device numbers, one dimension per axis."""
        return np.arange(self.devices).reshape([size for _, size in self.sizes])

    def groups(self, step: Step, names: Any) -> list[list[int]]:
        """The devices that talk to each other over some axes, each group in the order of these axes."""
        names = names if isinstance(names, tuple | list) else (names,)
        known = [name for name, _ in self.sizes]
        for name in names:
            if name not in known:
                raise NotCovered(f"{step}: the axis '{name}' is not there; the manual axes are {known or 'none'}")
        if step.params.get("axis_index_groups") is not None:
            raise NotCovered(f"{step}: axis_index_groups are not covered")
        others = [number for number, name in enumerate(known) if name not in names]
        order = others + [known.index(name) for name in names]
        together = math.prod([dict(self.sizes)[name] for name in names])
        return [[int(d) for d in row] for row in self.grid.transpose(order).reshape(-1, together)]
