"""For which sizes a proof holds: the part of a published proof that speaks of all sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Sizes = Literal["all", "these"]
"""What a proof is about: every size that its family allows, or the sizes of its case alone."""


@dataclass(frozen=True, slots=True)
class SizesShown:
    """The family of sizes that a proof for all sizes is about.

    Args:
        shapes: by argument, its dtype and its shape as a text of symbols, such as `float32[batch, 2*context*group]`.
        statics: by static argument that is a size, its expression, such as `2*c`.
        axes: by mesh axis that takes not every size, its expression.
        conditions: what the proof assumes of the symbols, and of integers that select elements.
        fixed: the sizes that are numbers, because the code of a side needs them as numbers.
        mesh: the mesh whose number of devices it is for; null where it holds for every number of devices.
        why_mesh: why it is for one mesh alone.
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
    one_program: bool = False
    counterexample: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The shapes and the conditions in one line."""
        shapes = "; ".join(
            [f"{name} {shape}" for name, shape in self.shapes.items()]
            + [f"{name}={text}" for name, text in self.statics.items()]
        )
        axes = ", ".join(f"{name}={text}" for name, text in self.axes.items())
        devices = (
            f"every number of devices{f' with {axes}' if axes else ''}"
            if self.mesh is None
            else f"the devices of {self.mesh} ({self.why_mesh})"
        )
        return "; ".join([shapes, devices, *([f"where {' and '.join(self.conditions)}"] if self.conditions else [])])
