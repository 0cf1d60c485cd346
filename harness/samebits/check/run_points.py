"""The points of one pair, run in order in this process; compiling runs ahead."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from samebits.check.execution import PendingPoint
from samebits.check.runner import Runner
from samebits.check.smaller_sizes import largest
from samebits.check.verdict import judge_refusal, judge_run, without_leaves
from samebits.errors import CouldNotRun, DeclarationError, MeshError, MeshNotSpanned, NoExplicitForm
from samebits.host.cache_keys import ByIdentity
from samebits.host.group import LockstepGroup
from samebits.host.memory import kept_memory
from samebits.programs.asked import recorded
from samebits.programs.catalogue import Locator
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay, replay_together
from samebits.rooms import door
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import USUAL, Effort, Point
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.check.point_memory import PointMemory
    from samebits.check.shake import ShakenPoint, Shaker

AHEAD = 12
"""How many points are traced ahead of the one being run, so that the compiling threads always have work."""

SHAKEN_AHEAD = 2
"""How many points are compiled ahead under other options; each has its programs once per option."""


@dataclass(frozen=True, slots=True)
class How:
    """How points are run.

    Args:
        ahead: how many are traced ahead.
    """

    ahead: int = AHEAD
    memory: PointMemory | None = None


@dataclass(frozen=True, slots=True)
class PointStage:
    """A point has come to its next stage: `tracing`, `compiling`, `running`."""

    point: Point
    stage: str


@dataclass(frozen=True, slots=True)
class PointDone:
    """A point with its results."""

    point: Point
    results: tuple[Finding, ...]
    calls: str | None = None
    """What its programs call that no digest covers, in words."""


def run_points(
    pair: Pair,
    locator: Locator,
    points: Sequence[Point],
    programs: Programs,
    effort: Effort = USUAL,
    meshes: Mapping[tuple[str, str], Any] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Yield the results of a pair's points, in order; compiling runs ahead.

    Args:
        meshes: built meshes by the id of the mesh and the mode; the others are of the first devices.

    Raises:
        DeclarationError: the two sides cannot stand in for each other.
    """
    for step in point_steps(pair, locator, points, programs, effort, meshes):
        if isinstance(step, PointDone):
            yield from step.results


def point_steps(
    pair: Pair,
    locator: Locator,
    points: Sequence[Point],
    programs: Programs,
    effort: Effort = USUAL,
    meshes: Mapping[tuple[str, str], Any] = MappingProxyType({}),
    how: How = How(),
) -> Iterator[PointStage | PointDone]:
    """Yield the same, with each stage before it begins, which shows in which one a process crashed.

    Raises:
        DeclarationError: the two sides cannot stand in for each other.
    """
    # A pair comes in many chunks, and what was proved and drawn for one serves the next.
    key = ByIdentity(pair), effort, tuple((*name, ByIdentity(mesh)) for name, mesh in meshes.items())
    runner = programs.attached(pair.name, key, lambda: Runner(pair, programs, effort, meshes))
    if not effort.shake:
        for step in _judged(runner, locator, points, how.ahead, how.memory):
            yield PointDone(step.point, tuple(step.results), step.calls) if isinstance(step, _Judged) else step
        return
    import jax

    from samebits.check.shake import Shaker, accepted

    shaker = Shaker(runner, accepted(jax.default_backend()).options)
    waiting: deque[tuple[_Judged, ShakenPoint | None]] = deque()
    for step in _judged(runner, locator, points, how.ahead, how.memory):
        if isinstance(step, PointStage):
            yield step
            continue
        waiting.append((step, None if step.job is None else shaker.start(step.job, step.results)))
        if len(waiting) > min(SHAKEN_AHEAD, how.ahead):
            yield _shaken(shaker, *waiting.popleft())
    while waiting:
        yield _shaken(shaker, *waiting.popleft())


@dataclass(frozen=True, slots=True)
class _Judged:
    """A point with its results; no job where it did not start."""

    point: Point
    job: PendingPoint | None
    results: list[Finding]
    calls: str | None = None


def _judged(
    runner: Runner, locator: Locator, points: Sequence[Point], ahead: int, memory: PointMemory | None = None
) -> Iterator[PointStage | _Judged]:
    started: deque[tuple[Point, PendingPoint | list[Finding]]] = deque()
    waiting, group = iter(points), runner.sides.programs.group
    while True:
        while len(started) <= ahead:
            point = next(waiting, None)
            if point is None:
                break
            yield PointStage(point, "tracing")
            if group is not None:
                group.reached(f"{runner.pair.name}: {point}: tracing")
            started.append((point, _start(runner, point, locator, memory)))
        if not started:
            return
        point, job = started.popleft()
        if isinstance(job, PendingPoint):
            yield PointStage(point, "compiling")
            _compiled(job)
            yield PointStage(point, "running")
        if group is not None:
            yield _Judged(point, None, _judged_together(group, runner, locator, point, job))
        elif isinstance(job, PendingPoint):
            results = _finish(runner, point, job, locator)
            calls = None if memory is None else memory.remember(runner, job, _replay(runner, point, locator), results)
            yield _Judged(point, job, results, calls)
        else:
            yield _Judged(point, None, job)


def _judged_together(
    group: LockstepGroup, runner: Runner, locator: Locator, point: Point, job: PendingPoint | list[Finding]
) -> list[Finding]:
    """Return the results of a point, of a group of processes that all come to it."""
    name, again = runner.pair.name, _replay(runner, point, locator)

    def finish() -> list[Finding]:
        assert isinstance(job, PendingPoint)
        return _finish(runner, point, job, locator)

    results: list[Finding] = door("cluster.together").judged_together(
        group,
        f"{name}: {point}",
        None if isinstance(job, PendingPoint) else job[0],
        finish,
        lambda reason: without_leaves(name, point, "error", reason, again),
    )
    return [replace(result, replay=replay_together(result.replay, group.count)) for result in results]


def _compiled(job: PendingPoint) -> None:
    """Wait for the programs of a point; what failed is said where it is used."""
    for program in job.programs.values():
        if program.compiled is not None:
            wait([program.compiled])


def _shaken(shaker: Shaker, judged: _Judged, started: ShakenPoint | None) -> PointDone:
    results = judged.results if started is None else shaker.finish(started, judged.results)
    return PointDone(judged.point, tuple(results), judged.calls)


def _start(runner: Runner, point: Point, locator: Locator, memory: PointMemory | None) -> PendingPoint | list[Finding]:
    """Start a point, or its results: where they are known, or it cannot run (an expected error, a mesh, an error)."""
    import jax

    pair, again = runner.pair, _replay(runner, point, locator)
    mesh = MeshSpec.parse(point.mesh)
    if mesh.devices > len(jax.devices()):
        reason = f"mesh '{point.mesh}' needs {mesh.devices} devices and {len(jax.devices())} are there"
        return [without_leaves(pair.name, point, "skipped", reason, again)]
    refusal = pair.case(point.case).refusal(point.variant)
    try:
        if refusal is not None:
            return [judge_refusal(pair, point, refusal, runner.refusals(point, refusal), again)]
        with runner.sides.programs.held_configuration():
            job = runner.trace(point)
            known = None if memory is None else memory.recall(runner, job, again)
            return runner.compile(job) if known is None else known
    except (DeclarationError, MeshError):
        raise
    except (NoExplicitForm, MeshNotSpanned) as error:
        return [without_leaves(pair.name, point, "skipped", str(error), again)]
    except CouldNotRun as error:
        return [without_leaves(pair.name, point, "error", str(error), again)]


def _replay(runner: Runner, point: Point, locator: Locator) -> str:
    return replay(locator, point, assuming=runner.assuming)


MAPPED = 1 << 18
"""Elements of the largest value from which on freed memory is kept while a point is judged."""


def _memory_for(job: PendingPoint) -> contextlib.AbstractContextManager[None]:
    programs = [program.traced.jaxpr for program in job.programs.values() if program.error is None]
    return kept_memory() if max(map(largest, programs), default=0) >= MAPPED else contextlib.nullcontext()


def _finish(runner: Runner, point: Point, job: PendingPoint, locator: Locator) -> list[Finding]:
    again = _replay(runner, point, locator)
    try:
        with runner.sides.programs.held_configuration(), recorded(job.asked), _memory_for(job):
            return judge_run(runner.pair, point, runner.finish(job), again)
    except DeclarationError:
        raise
    except CouldNotRun as error:
        return [without_leaves(runner.pair.name, point, "error", str(error), again)]
    except Exception as error:  # whatever the user's code or XLA raises at run time; it must not end the sweep
        return [without_leaves(runner.pair.name, point, "error", one_line(error), again)]
