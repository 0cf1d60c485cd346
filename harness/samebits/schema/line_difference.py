"""Where in the source two programs part: one equation that makes an output differ, with its place on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Change = Literal["other", "missing", "added", "moved", "partial", "trip count", "dtype", "narrower", "accuracy"]
"""What the variant does there: another computation, one less, one more, another order, a part of a sum on each device,
more or fewer iterations; or it gives the output another dtype, makes numbers narrower than the reference does, or loses
the most accuracy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineDifference:
    """One place of the source where a variant computes what occurs nowhere in the reference, or the other way round.

    Args:
        change: what the variant does there: another computation than the reference, one that is missing, one that was
            added, the same elements in another arrangement, parts of a sum that are not added up over the devices,
            another number of iterations, another dtype of the output,
            floats narrower than any in the reference, most of the accuracy that is lost.
        variant: `file:line` in the variant; None where it has no such place.
        variant_code: the expression there.
        calls: the lines of that file from which the function there was called, innermost first.
        reference: `file:line` in the reference; None where it has no such place.
        reference_code: the expression there.
        primitive: of the equation, in the jaxpr.
        iterations: of the loop around the equation, in which it differs; none outside of loops.
        certain: whether both places were found by their operands, not by what is next to them.
    """

    change: Change
    variant: str | None = None
    variant_code: str = ""
    calls: tuple[str, ...] = ()
    reference: str | None = None
    reference_code: str = ""
    primitive: str = ""
    iterations: tuple[int, ...] = ()
    certain: bool = True

    def __str__(self) -> str:
        here = _side(self.variant, self.variant_code)
        if self.calls:
            here += f" (called at line {self.calls[0].rpartition(':')[2]})"
        there = _side(self.reference, self.reference_code)
        if self.variant is None:
            text = f"{there} in the reference, the variant nothing like it"
        elif self.reference is None:
            text = here if self.change in ("narrower", "accuracy") else f"{here}; the reference has nothing like it"
        else:
            text = f"{here}, the reference's twin at {there}"
        return text + self._what() + self._when()

    def _what(self) -> str:
        return {
            "other": "",
            "missing": f": the variant has no such `{self.primitive}`",
            "added": f": the reference has no such `{self.primitive}`",
            "moved": ": the same elements in another order",
            "partial": ": each device has a part of this sum, which is not added up over the devices",
            "trip count": ": another number of iterations",
            "dtype": ": the dtype of the output is set there",
            "narrower": ": floats are narrower from there than anywhere in the reference",
            "accuracy": ": most accuracy is lost there",
        }[self.change]

    def _when(self) -> str:
        if not self.iterations:
            return ""
        if len(self.iterations) == 1:
            return f" (iteration {self.iterations[0]})"
        first = ", ".join(str(number) for number in self.iterations[:4])
        return f" (iterations {first}{', …' if len(self.iterations) > 4 else ''})"


@dataclass(frozen=True, kw_only=True, slots=True)
class AlignedTensor:
    """One value that the variant computes, and where the reference has it.

    Args:
        primitive: of its equation.
        type: dtype and shape.
        variant: `file:line` in the variant.
        code: the expression there.
        reference: `file:line` in the reference, where it occurs.
        occurs: whether it occurs there, in any layout.
        first: whether it is the first one that makes the output differ.
        iteration: of the innermost loop around it.
    """

    primitive: str
    type: str
    variant: str | None = None
    code: str = ""
    reference: str | None = None
    occurs: bool = True
    first: bool = False
    iteration: int | None = None


@dataclass(frozen=True, slots=True)
class NamedLines:
    """The lines that make a leaf differ.

    Args:
        lines: the places of the source, likeliest first.
        why: where none are named, why.
    """

    lines: tuple[LineDifference, ...] = ()
    why: str | None = None


def _side(place: str | None, code: str) -> str:
    return f"{place} has `{code}`" if code else str(place)
