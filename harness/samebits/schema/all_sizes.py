"""For which sizes a proof holds: the part of a published proof that covers all sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Sizes = Literal["all", "these"]
"""What a proof is about: every size that its family allows, or the sizes of its case alone."""


@dataclass(frozen=True, slots=True)
class DevicesShown:
    """The numbers of devices on one mesh axis for which a proof holds, the other axes as they are.

    Args:
        axis: of the mesh.
        numbers: those for which it holds, rising; the number of the mesh itself is among them where it is at most
            `most`.
        most: up to which number it was asked.
        why_not: of a number that is missing, which one and why; null where none is.
    """

    axis: str
    numbers: tuple[int, ...]
    most: int
    why_not: str | None = None

    @property
    def on_one(self) -> DevicesShown:
        """Return the same for one device alone, as a gather from a split array may be a sum over several."""
        why = f"from {self.axis}2 on a gather may be compiled to a sum over devices, which needs more of the inputs"
        return replace(self, numbers=tuple(number for number in self.numbers if number == 1), why_not=why)

    @property
    def text(self) -> str:
        """Return the numbers in words."""
        if self.numbers == tuple(range(1, self.most + 1)):
            return f"every number of devices up to {self.most} on axis {self.axis}"
        *first, last = map(str, self.numbers)
        listed = f"{', '.join(first)} and {last}" if first else last
        return f"{listed} devices on axis {self.axis}, of up to {self.most}"


@dataclass(frozen=True, slots=True)
class SizesShown:
    """The family of sizes that a proof for all sizes is about.

    Args:
        shapes: by argument, its dtype and its shape as a text of symbols, such as `float32[batch, 2*context*group]`.
        statics: by static argument that is a size, its expression, such as `2*c`.
        axes: by mesh axis that takes not every size, its expression.
        conditions: what the proof assumes of the symbols, and of integers that select elements.
        fixed: the sizes that are numbers, because the code of a side needs them as numbers.
        kept: of these, the sizes of the case: of their other values nothing is shown.
        why_kept: why code cannot be traced with symbols for them; null where there are none.
        mesh: the mesh whose number of devices it is for; null where it holds for every number of devices. Of a
            refutation, the mesh on which the sides differ.
        why_mesh: why it is for one mesh alone.
        devices: by axis of that mesh, the numbers of devices for which it holds too; the shapes are those on the mesh
            itself.
        one_program: both sides are one program on one device at all of these sizes, and so have the same bits there.
        counterexample: by symbol, the sizes at which the sides differ, where they do.
    """

    shapes: Mapping[str, str] = field(default_factory=dict)
    statics: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)
    mesh: str | None = None
    why_mesh: str | None = None
    devices: tuple[DevicesShown, ...] = ()
    one_program: bool = False
    counterexample: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    why_kept: str | None = None

    @property
    def text(self) -> str:
        """Return the shapes and the conditions in one line."""
        shapes = "; ".join(
            [f"{name} {shape}" for name, shape in self.shapes.items()]
            + [f"{name}={text}" for name, text in self.statics.items()]
        )
        conditions = [f"where {' and '.join(self.conditions)}"] if self.conditions else []
        kept = [f"{self.kept_text} alone ({self.why_kept})"] if self.kept else []
        return "; ".join([shapes, *kept, self._devices, *conditions])

    @property
    def kept_text(self) -> str:
        """Return the sizes that are kept as declared, as `n=12 and m=3`; empty without any."""
        return " and ".join(f"{name}={number}" for name, number in self.kept.items())

    @property
    def _devices(self) -> str:
        """Say for how many devices it holds, and why not for more."""
        if self.mesh is None:
            axes = ", ".join(f"{name}={text}" for name, text in self.axes.items())
            return f"every number of devices{f' with {axes}' if axes else ''}"
        alone = " alone" if len(self.devices) > 1 else ""
        own = "one device" if self.mesh == "none" else f"the devices of {self.mesh}"
        numbers = [own, *(shown.text + alone for shown in self.devices if shown.numbers)]
        why = [self.why_mesh, *dict.fromkeys(shown.why_not for shown in self.devices)]
        reasons = "; ".join(reason for reason in why if reason)
        return f"{', and '.join(numbers)}{f' ({reasons})' if reasons else ''}"
