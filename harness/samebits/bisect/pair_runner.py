"""Judges or runs one point of a pair with other sizes, on another mesh, or on other inputs.

`SpotJudge` judges a mesh and sizes as `samebits check` does; `SpotRunner` runs both sides on given inputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.bisect.search.judgement import Judgement, ambiguous, failed, passed, untestable
from samebits.errors import CouldNotRun, DeclarationError, MeshError, RequestError, SamebitsError
from samebits.numerics import floats
from samebits.numerics.bits import Comparison
from samebits.programs.catalogue import Locator
from samebits.programs.inputs import Array, Record
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.result import Result
from samebits.schema.values import Integers, Normal, Uniform
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.check.execution import Execution, PendingPoint
    from samebits.programs.program_cache import Programs

COTANGENT = "cotangent of "
"""Prefix of an array's name: the cotangent of that output leaf."""

_DIFFERS = ("different", "rounding")
"""Verdicts of a failure, the most severe first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A mesh and sizes at which a point is judged; the rest of the point is fixed.

    Args:
        mesh: the id of the mesh.
        sizes: the sizes of the case, by name.
    """

    mesh: str
    sizes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return ", ".join([self.mesh, *(f"{name}={size}" for name, size in self.sizes)])


@dataclass(slots=True)
class SpotJudge:
    """Judges spots of one point.

    Args:
        pair, locator, point: the failing point.
        programs: the cache of compiled programs.
        leaf: the only output that counts, if given.
        wanted: the failure that counts, as `leaf: verdict`; None takes the first one seen.
        failures: the failing result of each spot judged.
    """

    pair: Pair
    locator: Locator
    point: Point
    programs: Programs
    leaf: str | None = None
    wanted: str | None = None
    failures: dict[Spot, Result] = field(default_factory=dict)

    def start(self, sizes: Mapping[str, int]) -> Spot:
        """The mesh and sizes of the point itself, with some sizes changed.

        Raises:
            RequestError: the case has no such size.
        """
        known = self.pair.case(self.point.case).sizes
        for name in sizes:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise RequestError(f"--size {name}: case '{self.point.case}' has no such size; it has {listed}")
        return Spot(mesh=self.point.mesh, sizes=tuple({**known, **sizes}.items()))

    def at(self, spot: Spot) -> tuple[Pair, Point]:
        """The pair with the case resized, and the point on the mesh of the spot."""
        sizes = dict(spot.sizes)
        changed = tuple(
            replace(case, sizes=sizes, statics=_following(case, sizes)) if case.id == self.point.case else case
            for case in self.pair.cases
        )
        return replace(self.pair, cases=changed), replace(self.point, mesh=spot.mesh)

    def judge(self, spot: Spot) -> Judgement:
        """Judge a spot as `samebits check` does."""
        from samebits.check.run_points import run_points

        pair, point = self.at(spot)
        try:
            MeshSpec.parse(spot.mesh)
            results = list(run_points(pair, self.locator, [point], self.programs))
        except (DeclarationError, MeshError) as error:
            return untestable(str(error))
        except CouldNotRun as error:
            return untestable(str(error))
        finally:
            self.programs.forget(pair.name)
        known = [result.leaf.split(" (replica")[0] for result in results]
        if self.leaf is not None and self.leaf not in known and "*" not in known:
            raise RequestError(f"--leaf {self.leaf}: unknown output; expected one of {', '.join(known)}")
        results = [result for result in results if self.leaf is None or result.leaf.startswith((self.leaf, "*"))]
        differing = {
            signature(result): result
            for grave in _DIFFERS
            for result in results
            if result.failed and result.verdict == grave
        }
        if differing:
            named = self.wanted if self.wanted in differing else next(iter(differing))
            assert named is not None
            self.wanted = self.wanted or named
            self.failures[spot] = differing[named]
            return failed(named, _detail(differing[named]))
        bad = next((result for result in results if result.failed or result.verdict == "skipped"), None)
        if bad is None:
            return passed(", ".join(sorted({result.verdict for result in results})))
        if bad.verdict == "unstable":
            return ambiguous(bad.evidence or "does not repeat its bits")
        if bad.verdict in ("error", "skipped"):
            return untestable(bad.reason or bad.evidence or bad.verdict)
        return ambiguous(f"{bad.verdict}, and {bad.required} is promised")


def _following(case: Case, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The static arguments of a case; one that repeats a size, as `num_experts` repeats `experts`, changes with it."""
    statics = dict(case.statics)
    for name, value in case.statics.items():
        for size, old in case.sizes.items():
            if type(value) is int and value == old and name.split("_")[-1] == size:
                statics[name] = sizes[size]
    return statics


def signature(result: Result) -> str:
    """The part of a failure that must stay the same while shrinking: the leaf and the verdict."""
    return f"{result.leaf.split(' (replica')[0]}: {result.verdict}"


def _detail(result: Result) -> str:
    return f"{signature(result)}, {result.mismatches} of {result.elements} elements differ ({result.kind})"


class SpotRunner:
    """Both sides of a point at one spot, compiled once and run on any inputs.

    Args:
        bench: the judge of the point.
        spot: the mesh and sizes.

    Raises:
        CouldNotRun: a side does not compile.
    """

    def __init__(self, bench: SpotJudge, spot: Spot) -> None:
        from samebits.check.runner import Runner

        self.pair, self.point = bench.at(spot)
        runner = Runner(self.pair, bench.programs)
        self.job: PendingPoint = runner.start(self.point)
        self.execution: Execution = runner.execution
        self.reference = self.pair.reference_name
        for name in ("alone", "variant"):
            self.job.programs[name].result()
        self.args = self.pair.arguments(self.job.alone.case, self.job.alone.mesh)
        self.labels = list(self._generated())

    def _generated(self) -> Mapping[str, tuple[Record, dict[str, Array]]]:
        return self.execution.inputs(self.job.alone, self.reference, self.point.direction)

    def arrays(self, label: str) -> dict[str, Array]:
        """The arrays of one input: arguments, then cotangents."""
        if label not in self.labels:
            raise RequestError(f"--input '{label}': no such input here; expected one of {', '.join(self.labels)}")
        record, cotangents = self._generated()[label]
        return {**record, **{COTANGENT + leaf: array for leaf, array in cotangents.items()}}

    def fixed(self, name: str, array: Array) -> bool:
        """Whether an array must not be changed: masks, and integers whose domain is not declared."""
        arg = self.args.get(name)
        if arg is None or floats.is_float(array.dtype):
            return False
        return not isinstance(arg.values, Integers)

    def zero(self, name: str) -> Any:
        """The neutral value of an array: 0, or the smallest value of its domain."""
        arg = self.args.get(name)
        if arg is not None and isinstance(arg.values, Integers):
            return 0 if arg.values.low <= 0 < arg.values.high else arg.values.low
        return 0

    def allowed(self, name: str, value: Any) -> bool:
        """Whether an element of an array may have a value."""
        arg = self.args.get(name)
        if arg is not None and isinstance(arg.values, Integers):
            return float(value).is_integer() and arg.values.low <= value < arg.values.high
        if arg is not None and isinstance(arg.values, Uniform):
            return arg.values.low <= float(value) <= arg.values.high
        return arg is None or isinstance(arg.values, Normal) or callable(arg.values)

    def compare(self, arrays: Mapping[str, Array]) -> list[Comparison]:
        """Run both sides on these inputs, and compare them leaf by leaf."""
        from samebits.check.executed_together import run_program
        from samebits.programs.host_trees import compare_trees, to_host

        record = {name: array for name, array in arrays.items() if not name.startswith(COTANGENT)}
        pulled = {n.removeprefix(COTANGENT): array for n, array in arrays.items() if n.startswith(COTANGENT)}
        trees = []
        for name, side, site in (
            ("alone", self.reference, self.job.alone),
            ("variant", self.point.variant, self.job.on_mesh),
        ):
            program = self.job.programs[name]
            _, call = self.execution.placed(side, site, self.point.direction, record, pulled)
            try:
                outputs = run_program(program, call)
                trees.append(to_host(outputs, program, self.point.direction))
            except SamebitsError:
                raise
            except Exception as error:  # whatever XLA raises at run time
                raise CouldNotRun(f"{program.label} {one_line(error)}") from error
        return compare_trees(trees[0], trees[1], "out")

    # -- elements by name

    def entries(self, label: str) -> dict[str, Any]:
        """Every nonzero element that may be changed, by its name, such as `x[0, 1]`."""
        entries: dict[str, Any] = {}
        for name, array in self.arrays(label).items():
            if not self.fixed(name, array):
                zero = self.zero(name)
                for index in np.ndindex(array.shape):
                    value = array[index].item() if array.dtype.kind in "iub" else float(array[index])
                    if value != zero or (value == 0 and np.signbit(value)):
                        entries[entry(name, index)] = value
        return entries

    def having(self, label: str, entries: Mapping[str, Any]) -> dict[str, Array]:
        """The arrays of an input with only these elements nonzero; fixed arrays keep their values.

        Raises:
            RequestError: an element does not exist.
        """
        arrays = {
            name: array if self.fixed(name, array) else np.full_like(array, self.zero(name))
            for name, array in self.arrays(label).items()
        }
        for text, value in entries.items():
            name, index = parse_entry(text)
            if name not in arrays:
                raise RequestError(f"--value {text}: no such array; expected one of {', '.join(arrays)}")
            if len(index) != arrays[name].ndim or any(i >= n for i, n in zip(index, arrays[name].shape, strict=False)):
                raise RequestError(f"--value {text}: '{name}' has shape {arrays[name].shape} here")
            arrays[name][index] = value
        return arrays


_ENTRY = re.compile(r"(.*)\[([0-9, ]*)\]")


def entry(name: str, index: tuple[int, ...]) -> str:
    """The name of one element."""
    return f"{name}[{', '.join(map(str, index))}]"


def parse_entry(text: str) -> tuple[str, tuple[int, ...]]:
    """The array and index of an element name, the inverse of `entry`.

    Raises:
        RequestError: the text is malformed.
    """
    match = _ENTRY.fullmatch(text.strip())
    if match is None or not match[1]:
        raise RequestError(f"--value {text}: expected NAME[INDEX]=NUMBER, as in 'x[0, 1]=1'")
    try:
        return match[1], tuple(int(part) for part in match[2].split(",") if part.strip())
    except ValueError:
        raise RequestError(
            f"--value {text}: '{match[2]}' is not an index; expected integers, as in 'x[0, 1]=1'"
        ) from None
