"""Finds the smallest mesh, sizes and inputs at which a variant still differs from its reference.

In: a failing point of a pair. Out: a `SearchFinding` with the smallest failing point and its replay command.
`SpotJudge` judges a mesh and sizes as `samebits check` does; `SpotRunner` runs both sides on given inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.bisect.point import PointRequest, device_count, mesh_measures, point_of, point_options
from samebits.bisect.search.shrink import fewest_inputs, smaller_axes, smaller_sizes, smallest
from samebits.bisect.search.trials import (
    Judgement,
    SearchFinding,
    SearchSpace,
    Trials,
    TriedPoint,
    ambiguous,
    failed,
    passed,
    untestable,
)
from samebits.bisect.session import Session, again, counted
from samebits.errors import CouldNotRun, DeclarationError, MeshError, RequestError, SamebitsError
from samebits.host import environment
from samebits.numerics import floats
from samebits.numerics.bits import Comparison
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import Array, Record
from samebits.schema.case import Case
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.values import Integers, Normal, Uniform
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.check.execution import Execution, PendingPoint
    from samebits.programs.program_cache import Programs


SHOWN = 6
"""How many inputs a sentence lists by name."""


def bisect_mesh(request: PointRequest, session: Session) -> SearchFinding:
    """Shrink a failing point: the mesh, then the sizes, then the inputs.

    Raises:
        RequestError: a name is unknown, or the point cannot be judged.
        NothingFails: the point passes.
        CouldNotRun: the failure is not reproducible.
    """
    from samebits.programs.program_cache import Programs

    pair = load(request.locator)
    programs = Programs()
    point = point_of(pair, request)
    bench = SpotJudge(pair.on(environment.devices_here()[0].platform), request.locator, point, programs, request.leaf)
    try:
        start = bench.start(request.sizes)
        MeshSpec.parse(start.mesh).require(device_count())
        if request.label is not None or request.values:
            return _one_input(request, bench, start)
        trials = session.trials(
            "mesh",
            bench.judge,
            root=request.tree,
            searched={"point": str(bench.point), "pair": request.pair, "leaf": request.leaf},
        )
        trials.space = SearchSpace(measures=lambda spot: mesh_measures(spot.mesh, dict(spot.sizes)))
        trials.end(start)
        bench.wanted = trials.signature
        if request.only:
            return _finding(request, bench, trials, start, None)
        spot = smallest(start, _less_mesh, trials.fails)
        control = control_of(trials.tried, [smaller.mesh for smaller in _less_mesh(spot)])
        spot = smallest(spot, lambda now: _less_of_both(now, trials), lambda now: _same_failure(now, control, trials))
        return _finding(request, bench, trials, spot, _fewest_inputs(bench, spot, session))
    finally:
        programs.close()


def _less_mesh(spot: Spot) -> Iterator[Spot]:
    mesh = MeshSpec.parse(spot.mesh)
    for axes in smaller_axes(mesh.axes):
        yield Spot(mesh=mesh.having(axes).id, sizes=spot.sizes)


def _less_of_both(spot: Spot, trials: Trials[Spot]) -> Iterator[Spot]:
    """Yield smaller sizes, then smaller meshes again: smaller sizes may fit a mesh that larger ones did not."""
    for sizes in smaller_sizes(dict(spot.sizes)):
        yield Spot(mesh=spot.mesh, sizes=tuple(sizes.items()))
    passed = {mesh_of(trial) for trial in trials.tried if trial.outcome == "pass"}
    yield from (smaller for smaller in _less_mesh(spot) if smaller.mesh not in passed)


def _same_failure(spot: Spot, control: str | None, trials: Trials[Spot]) -> bool:
    """Return whether a spot fails, and the control mesh, which passed with the original sizes, still passes with these.

    If the control mesh fails too, the sizes are outside the component's domain, for example if a routing names experts
    that no longer exist.
    """
    return trials.fails(spot) and (control is None or not trials.fails(replace(spot, mesh=control)))


def mesh_of(trial: TriedPoint) -> str:
    """Return the mesh of a tried point, from its label."""
    return trial.point.split(",")[0]


def control_of(tried: Sequence[TriedPoint], nearest: Sequence[str]) -> str | None:
    """Return a mesh that passed: the largest of the nearest ones, if one of them passed.

    Args:
        nearest: meshes one step smaller than the failing one, in ascending order.
    """
    passed = [mesh_of(trial) for trial in tried if trial.outcome == "pass"]
    return next((mesh for mesh in reversed(nearest) if mesh in passed), passed[0] if passed else None)


def failing_controls(tried: Sequence[TriedPoint], mesh: str) -> list[TriedPoint]:
    """Return the failures on meshes other than `mesh` that pass with other sizes."""
    passed = {mesh_of(trial) for trial in tried if trial.outcome == "pass"} - {mesh}
    return [trial for trial in tried if trial.outcome == "fail" and mesh_of(trial) in passed]


@dataclass(frozen=True, kw_only=True, slots=True)
class _FewestInputs:
    """The fewest nonzero inputs that fail.

    Args:
        entries: the nonzero elements that are left, by name.
        before: how many elements there were.
    """

    label: str
    entries: Mapping[str, Any]
    before: int
    tried: int
    witness: str
    fixed: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int | str]:
        """What the search over inputs came to, in numbers."""
        return {"input": self.label, "elements": self.before, "left": len(self.entries), "tried": self.tried}


def _fewest_inputs(bench: SpotJudge, spot: Spot, session: Session) -> _FewestInputs | str:
    """Return the fewest inputs that fail at a spot, or why they could not be reduced."""
    result = bench.failures.get(spot)
    if result is None:  # the judgement came from the journal
        bench.judge(spot)
        result = bench.failures[spot]
    leaf = result.place.leaf.split(" (replica")[0]
    label = None if result.comparison.witness is None else result.comparison.witness.input
    try:
        run = SpotRunner(bench, spot)
        if label not in run.labels:
            how = result.comparison.kind or ""
            return f"the inputs were not shrunk: '{result.place.leaf}' differs {how} and not on one input"
        session.say("inputs")
        start = {comparison.path: comparison for comparison in run.compare(run.arrays(label))}
        if leaf not in start or start[leaf].equal:
            return f"the inputs were not shrunk: '{leaf}' does not differ when it is run alone"
        kind = start[leaf].kind

        def fails(entries: Mapping[str, Any]) -> bool:
            compared = {comparison.path: comparison for comparison in run.compare(run.having(label, entries))}
            return leaf in compared and compared[leaf].kind == kind

        entries = run.entries(label)
        arrays = {name: [e for e in entries if parse_entry(e)[0] == name] for name in run.arrays(label)}
        if not fails(entries):
            return f"the inputs were not shrunk: '{leaf}' does not differ ({kind}) once special values are numbers"
        sparse = fewest_inputs(entries, fails, groups=arrays, allowed=lambda e, v: run.allowed(parse_entry(e)[0], v))
        last = {comparison.path: comparison for comparison in run.compare(run.having(label, sparse.entries))}[leaf]
    except CouldNotRun as error:
        return f"the inputs were not shrunk: {error}"
    return _FewestInputs(
        label=label,
        entries=sparse.entries,
        before=len(entries),
        tried=sparse.tried,
        witness=str(last.witness or last.detail or last.kind),
        fixed=tuple(name for name, array in run.arrays(label).items() if run.fixed(name, array)),
    )


def _one_input(request: PointRequest, bench: SpotJudge, spot: Spot) -> SearchFinding:
    """Return the finding for a point on one input, as a replay command gives it."""
    run = SpotRunner(bench, spot)
    label = request.label or run.labels[0]
    arrays = run.having(label, request.values)
    differing = [
        comparison
        for comparison in run.compare(arrays)
        if not comparison.equal and request.leaf in (None, comparison.path)
    ]
    where = f"'{bench.point.variant}' of {request.pair} on {spot}, {_words(request.values)}"
    if not differing:
        return SearchFinding(what="mesh", found=False, sentence=f"{where}: the same bits as its reference")
    first = differing[0]
    return SearchFinding(
        what="mesh",
        found=True,
        sentence=f"{where}: {first.mismatches} of {first.elements} elements of '{first.path}' differ ({first.kind})",
        culprits=((spot.mesh, *(f"{name}={size}" for name, size in spot.sizes)),),
        witness=str(first.witness or first.detail),
        replay=_replay(request, bench, spot, label, request.values),
        runs=1,
    )


def _finding(
    request: PointRequest, bench: SpotJudge, trials: Trials[Spot], spot: Spot, least: _FewestInputs | str | None
) -> SearchFinding:
    signature, notes, inputs, witness = trials.signature or "", [], "", ""
    if isinstance(least, _FewestInputs):
        inputs, witness = f", {_words(least.entries)}", least.witness
        notes.append(
            f"inputs: {len(least.entries)} of {least.before} elements ({least.label}) are left, "
            f"{counted(least.tried, 'input')} tried"
            + (f"; kept as they are: {', '.join(least.fixed)}" if least.fixed else "")
        )
    else:
        notes += [least] if least else []
        result = bench.failures.get(spot)
        shown = result.comparison.witness if result is not None else None
        if shown is not None:
            witness = f"{shown}, input '{shown.input}'"
    notes += untestable_note(trials.tried)
    others = failing_controls(trials.tried, spot.mesh)
    if others:
        notes.append(
            f"{counted(len(others), 'smaller point')} failed on a mesh that passes with larger sizes too, so in "
            f"another way, and were not taken: {others[0].point}"
        )
    passes = passing_on(trials.tried, [str(smaller) for smaller in _less_mesh(spot)])
    entries = least.entries if isinstance(least, _FewestInputs) else {}
    return trials.finding(
        found=True,
        sentence=f"'{bench.point.variant}' of {request.pair} still fails ({signature}) on {spot}{inputs}{passes}",
        culprits=((spot.mesh, *(f"{name}={size}" for name, size in spot.sizes)),),
        witness=witness,
        replay=_replay(request, bench, spot, least.label if isinstance(least, _FewestInputs) else None, entries),
        notes=tuple(notes),
        detail={
            "mesh": spot.mesh,
            "sizes": dict(spot.sizes),
            "inputs": dict(entries),
            "signature": signature,
            "input_search": least.counts if isinstance(least, _FewestInputs) else None,
        },
    )


def untestable_note(tried: Sequence[TriedPoint]) -> list[str]:
    """Return a note on the smaller points that could not be judged; empty if there are none."""
    untestable = [trial for trial in tried if trial.outcome == "untestable"]
    if not untestable:
        return []
    first = untestable[0]
    return [
        f"{counted(len(untestable), 'smaller point')} could not be judged; the first, {first.point}: {first.detail}"
    ]


def passing_on(tried: Sequence[TriedPoint], labels: Sequence[str]) -> str:
    """Return the end of a sentence: the meshes that pass among the points with these labels; empty if none does."""
    passing = [mesh_of(trial) for trial in tried if trial.point in labels and trial.outcome == "pass"]
    return f"; it passes on {' and '.join(dict.fromkeys(passing))}" if passing else ""


def _words(entries: Mapping[str, Any]) -> str:
    """Say nonzero inputs in words."""
    if not entries:
        return "all inputs zero"
    named = [f"{name}={value:g}" for name, value in list(entries.items())[:SHOWN]]
    more = ", ..." if len(entries) > SHOWN else ""
    return f"{counted(len(entries), 'nonzero input')}: {', '.join(named)}{more}"


def _replay(request: PointRequest, bench: SpotJudge, spot: Spot, label: str | None, entries: Mapping[str, Any]) -> str:
    return again(
        "mesh", request.pair, **point_options(replace(bench.point, mesh=spot.mesh)), leaf=request.leaf,
        size=[f"{name}={size}" for name, size in spot.sizes], input=label,
        value=[f"{name}={value!r}" for name, value in entries.items()], root=request.root, only=True,
    )  # fmt: skip


COTANGENT = "cotangent of "
"""Prefix of an array's name: the cotangent of that output leaf."""

_DIFFERS = ("different", "rounding")
"""Verdicts of a failure, the most severe first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A mesh and sizes at which a point is judged; the rest of the point is fixed."""

    mesh: str
    sizes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return ", ".join([self.mesh, *(f"{name}={size}" for name, size in self.sizes)])


@dataclass(slots=True)
class SpotJudge:
    """Judges spots of one point.

    Args:
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
    failures: dict[Spot, Finding] = field(default_factory=dict)

    def start(self, sizes: Mapping[str, int]) -> Spot:
        """Return the mesh and sizes of the point itself, with some sizes changed.

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
        """Return the pair with the case resized, and the point on the mesh of the spot."""
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
        except (DeclarationError, MeshError, CouldNotRun) as error:
            return untestable(str(error))
        finally:
            self.programs.forget(pair.name)
        known = [result.place.leaf.split(" (replica")[0] for result in results]
        if self.leaf is not None and self.leaf not in known and "*" not in known:
            raise RequestError(f"--leaf {self.leaf}: unknown output; expected one of {', '.join(known)}")
        results = [result for result in results if self.leaf is None or result.place.leaf.startswith((self.leaf, "*"))]
        differing = {
            signature(result): result
            for grave in _DIFFERS
            for result in results
            if result.failed and result.ruling.verdict == grave
        }
        if differing:
            named = self.wanted if self.wanted in differing else next(iter(differing))
            assert named is not None
            self.wanted = self.wanted or named
            self.failures[spot] = differing[named]
            return failed(named, _detail(differing[named]))
        bad = next((result for result in results if result.failed or result.ruling.verdict == "skipped"), None)
        if bad is None:
            return passed(", ".join(sorted({result.ruling.verdict for result in results})))
        if bad.ruling.verdict == "unstable":
            return ambiguous(bad.ruling.evidence or "does not repeat its bits")
        if bad.ruling.verdict in ("error", "skipped"):
            return untestable(bad.ruling.reason or bad.ruling.evidence or bad.ruling.verdict)
        return ambiguous(f"{bad.ruling.verdict}, and {bad.ruling.required} is promised")


def _following(case: Case, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the static arguments of a case; one that repeats a size, as `num_experts` does, changes with it."""
    statics = dict(case.statics)
    for name, value in case.statics.items():
        for size, old in case.sizes.items():
            if type(value) is int and value == old and name.split("_")[-1] == size:
                statics[name] = sizes[size]
    return statics


def signature(result: Finding) -> str:
    """Return the part of a failure that must stay the same while shrinking: the leaf and the verdict."""
    return f"{result.place.leaf.split(' (replica')[0]}: {result.ruling.verdict}"


def _detail(result: Finding) -> str:
    seen = result.comparison
    return f"{signature(result)}, {seen.mismatches} of {seen.elements} elements differ ({seen.kind})"


class SpotRunner:
    """Both sides of a point at one spot, compiled once and run on any inputs."""

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
        """Return the arrays of one input: arguments, then cotangents."""
        if label not in self.labels:
            raise RequestError(f"--input '{label}': no such input here; expected one of {', '.join(self.labels)}")
        record, cotangents = self._generated()[label]
        return {**record, **{COTANGENT + leaf: array for leaf, array in cotangents.items()}}

    def fixed(self, name: str, array: Array) -> bool:
        """Return whether an array must not be changed: masks, and integers whose domain is not declared."""
        arg = self.args.get(name)
        if arg is None or floats.is_float(array.dtype):
            return False
        return not isinstance(arg.values, Integers)

    def zero(self, name: str) -> Any:
        """Return the neutral value of an array: 0, or the smallest value of its domain."""
        arg = self.args.get(name)
        if arg is not None and isinstance(arg.values, Integers):
            return 0 if arg.values.low <= 0 < arg.values.high else arg.values.low
        return 0

    def allowed(self, name: str, value: Any) -> bool:
        """Return whether an element of an array may have a value."""
        arg = self.args.get(name)
        if arg is not None and isinstance(arg.values, Integers):
            return float(value).is_integer() and arg.values.low <= value < arg.values.high
        if arg is not None and isinstance(arg.values, Uniform):
            return arg.values.low <= float(value) <= arg.values.high
        return arg is None or isinstance(arg.values, Normal) or callable(arg.values)

    def compare(self, arrays: Mapping[str, Array]) -> list[Comparison]:
        """Run both sides on these inputs, and compare them leaf by leaf."""
        from samebits.check.execution import run_program
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
        """Return every nonzero element that may be changed, by its name, such as `x[0, 1]`."""
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
        """Return the arrays of an input with only these elements nonzero; fixed arrays keep their values.

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
    """Return the name of one element."""
    return f"{name}[{', '.join(map(str, index))}]"


def parse_entry(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the array and index of an element name, the inverse of `entry`.

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
