"""The law: the verdict on a point is what it gets alone in a fresh process, whatever ran before it.

As a program, `python -m tests.engine.law PAIR NUMBER` prints what a point of the pool gets in a process of its own.
"""

import functools
import sys

from samebits.check.runner import Runner
from samebits.check.verdict import judge_refusal, judge_run, without_leaves
from samebits.errors import CouldNotRun
from samebits.host import environment
from samebits.host.cache_keys import ByIdentity
from samebits.host.isolation import take_notes
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.user_errors import one_line
from tests.support import adversarial

BUILT_IN = ("microbatch_select", "rms_norm", "sequence_reorder", "token_sort")
"""Of which some points are in the pool: those on at most two devices."""


@functools.cache
def pool() -> dict[str, tuple[Pair, tuple[Point, ...]]]:
    """The points to draw from, by pair."""
    found = {pair.name: (pair, adversarial.points_of(pair)) for pair in adversarial.pairs()}
    for name in BUILT_IN:
        pair = load(Locator(name=name))
        points = [point for point in plan(pair, Request(), 8).points if MeshSpec.parse(point.mesh).devices <= 2]
        found[name] = pair, tuple(points[:: max(1, len(points) // 5)])
    return found


class Session:
    """Points of many pairs in one state, as under pytest: one store of programs, and a runner for each declaration."""

    def __init__(self) -> None:
        self.programs = Programs(threads=1)
        self.runners: dict[ByIdentity, Runner] = {}

    def results(self, pair: Pair, point: Point) -> list[Finding]:
        """What a point gets now, without what a clock says."""
        runner = self.runners.setdefault(ByIdentity(pair), Runner(pair, self.programs))
        locator = Locator(name=pair.name)
        again, refusal = replay(locator, point), pair.case(point.case).refusal(point.variant)
        try:
            if refusal is not None:
                found = [judge_refusal(pair, point, refusal, runner.refusals(point, refusal), again)]
            else:
                found = judge_run(pair, point, runner.finish(runner.start(point)), again)
        except CouldNotRun as error:
            found = [without_leaves(pair.name, point, "error", str(error), again)]
        except Exception as error:
            found = [without_leaves(pair.name, point, "error", one_line(error), again)]
        return [adversarial.timeless(one) for one in found]

    def forget(self, pair: Pair) -> None:
        """Drop what is held of a pair, as a sweep does when it goes on."""
        self.runners.pop(ByIdentity(pair), None)
        self.programs.forget(pair.name)

    def close(self) -> None:
        """End the threads."""
        self.programs.close()


@functools.cache
def alone(name: str, number: int) -> tuple[Finding, ...]:
    """What a point of the pool gets with nothing before it in its programs and proofs."""
    pair, points = pool()[name]
    session = Session()
    try:
        return tuple(session.results(pair, points[number]))
    finally:
        session.close()


def words(results: tuple[Finding, ...]) -> str:
    """Results as one line; addresses of Python objects, which XLA's errors hold, left out."""
    return repr(
        [
            (
                one.place.leaf,
                one.ruling.verdict,
                one.ruling.ok,
                one.ruling.evidence,
                one.comparison.mismatches,
                one.comparison.witness,
            )
            for one in results
        ]
    )


if __name__ == "__main__":
    environment.prepare()
    print(words(alone(sys.argv[1], int(sys.argv[2]))))
    take_notes()
