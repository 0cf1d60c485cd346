"""One point of the sweep, by names."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.schema.contract import Direction
from samebits.schema.meshes import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One point of the sweep, by names: small, hashable, and enough to run it again."""

    variant: str
    case: str
    dtype: str
    mesh: str
    mode: Mode
    direction: Direction

    def __str__(self) -> str:
        return "-".join((self.variant, self.case, self.dtype, self.mesh, self.mode, self.direction))


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How hard every point is tried.

    Args:
        repeats: how often each program runs on its first input; its bits must repeat.
        shake: whether leaves with equal bits are compiled and run again under other compiler options.
        assuming: whether a verdict may rest on a proof with assumptions beyond shapes and rounding.
        selftest: whether the comparison and the proofs first have to find planted differences.
        idle_axes: whether a mesh may have axes that split nothing, where another one does.
        all_sizes: whether variants are proved for all sizes too, and executed once where that holds of all their bits.
        sparing: whether points that labels prove are executed on some meshes and dtypes only (`check.cross_checks`).
        budget: how long evidence on a point is gathered, in seconds; None has no end.
    """

    repeats: int = 2
    shake: bool = False
    assuming: bool = True
    selftest: bool = True
    idle_axes: bool = False
    all_sizes: bool = False
    sparing: bool = False
    budget: float | None = None


USUAL = Effort()
