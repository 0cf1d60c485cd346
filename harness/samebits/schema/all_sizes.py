"""For which sizes a proof holds: the part of a published proof that speaks of all shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SizesShown:
    """The sizes that a proof for all sizes is about.

    Args:
        shapes: by argument, its dtype and its shape as a text of symbols, such as `float32[batch, 2*context*group]`.
        conditions: what the proof assumes of the symbols, and of integers that select elements.
        fixed: the sizes that are numbers, because the code of a side needs them as numbers.
        mesh: the mesh whose number of devices it is for; null where it holds for every number of devices.
        why_mesh: why it is for one mesh alone.
        counterexample: by symbol, the sizes at which the sides differ, where they do.
    """

    shapes: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)
    mesh: str | None = None
    why_mesh: str | None = None
    counterexample: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The shapes and the conditions in one line."""
        shapes = "; ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        devices = "every number of devices" if self.mesh is None else f"the devices of {self.mesh} ({self.why_mesh})"
        return f"{shapes}; {devices}; where {' and '.join(self.conditions) or 'anything holds'}"
