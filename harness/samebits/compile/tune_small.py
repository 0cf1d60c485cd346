"""Runs the values of one static argument at a small size on one CPU device, and compares them with the reference.

The comparison is that of `samebits check`, with the contracts that cover the case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from samebits.check.run_points import run_points
from samebits.compile.pair import CompileJob, lowered_side
from samebits.errors import SamebitsError
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize
from samebits.schema.result import Result
from samebits.schema.target import Target, fixed_part

_WORST_FIRST = ("error", "unstable", "different", "skipped", "rounding", "refused", "bitwise", "proved")


@dataclass(frozen=True, slots=True)
class SmallRun:
    """The result of a value at the small size.

    Args:
        text: its StableHLO; None if it cannot be traced.
        verdict, equal: the worst verdict of its leaves, and whether it satisfies the contracts; None if nothing ran.
        said: a description, which names an earlier value with the same program, if any.
    """

    text: str | None
    verdict: str | None
    equal: bool | None
    said: str


SmallRuns = Mapping[tuple[str, str, Any], SmallRun]
"""By side, direction and value."""


def tuned_argument(real: RealSize) -> tuple[str, tuple[Any, ...]]:
    """The tuned argument of a production shape, and its values."""
    [(argument, values)] = real.tune.items()
    return argument, values


def with_value(real: RealSize, value: Any, sizes: Mapping[str, int] | None = None) -> RealSize:
    """A production shape with another value of the tuned argument, and optionally with other sizes."""
    argument, _ = tuned_argument(real)
    statics = {**real.case.statics, argument: value}
    return replace(real, case=replace(real.case, statics=statics, sizes=sizes or real.case.sizes), claims=())


def run_small(
    pair: Pair, locator: Locator, real: RealSize, wanted: set[tuple[str, Direction]], programs: Programs
) -> SmallRuns:
    """Compare every value with the reference on one CPU device; a program shared with an earlier value is not rerun."""
    runs: dict[tuple[str, str, Any], SmallRun] = {}
    sides = [side for side in pair.variant_names if any(side == name for name, _ in wanted)]
    for value in tuned_argument(real)[1]:
        small = with_value(real, value, real.tune_sizes)
        alone = _alone(pair, small)
        texts = {key: _text(alone, small, key, programs) for key in wanted}
        new: dict[str, tuple[Direction, ...]] = {}
        for side in sides:
            # A side runs in all directions or in none, so the programs of all directions must be the same.
            mine = [direction for direction in DIRECTIONS if (side, direction) in wanted]
            earlier = next((v for v in _values_of(runs, side) if _alike(runs, texts, side, mine, v)), None)
            if earlier is None:
                new[side] = tuple(mine)
                continue
            for direction in mine:
                was = runs[side, direction, earlier]
                description = f"the program of {earlier!r} at this small size"
                runs[side, direction, value] = replace(was, said=f"{description}: {was.verdict or was.said}")
        for side, directions in new.items():
            results = _results(alone, locator, side, directions, programs)
            for direction in directions:
                leaves = [result for result in results if result.direction == direction]
                runs[side, direction, value] = _judged(texts[side, direction], leaves)
    return runs


def _values_of(runs: Mapping[tuple[str, str, Any], SmallRun], side: str) -> list[Any]:
    return list(dict.fromkeys(value for name, _, value in runs if name == side))


def _alike(
    runs: SmallRuns, texts: Mapping[tuple[str, Direction], str | None], side: str, mine: list[Direction], value: Any
) -> bool:
    pairs = [(runs[side, direction, value].text, texts[side, direction]) for direction in mine]
    return all(was is not None and was == now for was, now in pairs)


def _alone(pair: Pair, small: RealSize) -> Pair:
    """The pair with only this case on one device, and with the contracts that cover it."""
    mesh = fixed_part(small.layout).one_device
    where: dict[str, Callable[[str], bool]] = {
        "case": lambda pattern: fnmatchcase(small.case.id, pattern),
        "dtype": lambda pattern: fnmatchcase(small.dtype, pattern),
        "mesh": lambda pattern: fnmatchcase(mesh.id, pattern),
        "mode": lambda pattern: fnmatchcase(small.mode, pattern),
    }

    def speaks(scope: Any) -> bool:
        return all(takes(getattr(scope, name)) for name, takes in where.items())

    return replace(
        pair,
        cases=(replace(small.case, meshes=None, dtypes=None, modes=None),),
        dtypes=(small.dtype,),
        meshes=(mesh.id,),
        wide_meshes=(),
        modes=(small.mode,),
        compiled=(),
        documented=(),  # claims of documents are held against production shapes, of which this pair has none
        contracts=tuple(contract for contract in pair.contracts if speaks(contract)),
        exemptions=tuple(exemption for exemption in pair.exemptions if speaks(exemption)),
    )


def _text(pair: Pair, small: RealSize, which: tuple[str, Direction], programs: Programs) -> str | None:
    """The StableHLO of a side at the small size; None if it cannot be traced, which the run then reports."""
    side, direction = which
    job = CompileJob(
        real=small,
        target=Target(name="cpu"),
        mesh=fixed_part(small.layout).one_device,
        direction=direction,
        sides=pair.sides,
    )
    try:
        return lowered_side(TracedSides(pair, programs), job, side).text
    except SamebitsError:  # raised again, and reported, where the side is run
        return None


def _results(
    pair: Pair, locator: Locator, side: str, directions: tuple[Direction, ...], programs: Programs
) -> list[Result]:
    request = Request(variants=(side,), directions=directions)
    return list(run_points(pair, locator, plan(pair, request, devices=1).points, programs))


def _judged(text: str | None, leaves: Sequence[Result]) -> SmallRun:
    if not leaves:
        return SmallRun(text, None, None, "not run")
    worst = min(leaves, key=lambda result: (not result.failed, _WORST_FIRST.index(result.verdict)))
    if worst.verdict in ("error", "skipped"):
        return SmallRun(text, worst.verdict, None, worst.reason or worst.verdict)
    failed = [result for result in leaves if result.failed]
    evidence = worst.evidence or worst.reason or ""
    if failed:
        evidence = f"{worst.leaf}: {worst.mismatches} of {worst.elements} elements differ; {evidence}"
    return SmallRun(text, worst.verdict, not failed, evidence)
