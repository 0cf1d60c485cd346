"""Where two compiled programs first differ, as instructions side by side: a part of what `compile` publishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LineKind = Literal["same", "changed", "reference", "variant", "moved"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionLine:
    """One row of a region: an instruction of the reference beside one of the variant.

    Args:
        kind: `same` in both; `changed`: other operands, shapes or attributes; `reference` or `variant`: only there;
            `moved`: in both, and at another place of the other side.
        reference, variant: the instruction as XLA prints it, under names that both sides share; None where the side
            has none in this row.
        reference_source, variant_source: the operation of JAX that it comes from, with function and file, as the
            compiler noted them.
        note: what differs where both texts are the same.
    """

    kind: LineKind
    reference: str | None = None
    variant: str | None = None
    reference_source: str | None = None
    variant_source: str | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionLevel:
    """One computation on the way from the entry to the first difference, on both sides.

    Args:
        name: such as `entry computation` or `body of while.1`.
        reference_instructions, variant_instructions: how many instructions it has.
        reference_only, variant_only: how many of them have no equal on the other side.
    """

    name: str
    reference_instructions: int
    variant_instructions: int
    reference_only: int
    variant_only: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramRegion:
    """The first differing instructions of two optimised modules, with some lines around them.

    Instructions are in the order of dependence, operands first, so that the first one that differs takes only values
    that both programs compute alike.

    Args:
        levels: from the entry computation to the one that the lines are of.
        lines: the rows, a bounded number.
        more: differing instructions of that computation that are not among the rows.
    """

    levels: tuple[RegionLevel, ...]
    lines: tuple[RegionLine, ...]
    more: int

    @property
    def first(self) -> RegionLine | None:
        """The first row that differs."""
        return next((line for line in self.lines if line.kind not in ("same", "moved")), None)
