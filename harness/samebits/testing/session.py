"""Runs one point for pytest; runners and compiled programs are shared by the pytest session."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pytest

from samebits.check.contract_audit import machine_dependent
from samebits.check.execution import PendingPoint
from samebits.check.runner import Runner
from samebits.check.verdict import judge_refusal, judge_run
from samebits.errors import CouldNotRun
from samebits.host.cache_keys import ByIdentity, key_of
from samebits.host.isolation import take_notes
from samebits.programs.alone import NoExplicitForm
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import implementation, root_of
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.report.failure import block
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.testing.properties import NEXT, NOTE


@dataclass(slots=True)
class State:
    """What the cases of one session share."""

    programs: Programs = field(default_factory=Programs)
    runners: dict[Hashable, Runner] = field(default_factory=dict)
    ahead: dict[tuple[Hashable, Point], PendingPoint] = field(default_factory=dict)

    def runner(self, pair: Pair) -> Runner:
        """The runner of a pair, made on first use."""
        key = _declared(pair)
        if key not in self.runners:
            self.runners[key] = Runner(pair, self.programs)
        return self.runners[key]

    def start(self, pair: Pair, point: Point) -> PendingPoint:
        """The started point of a case; it may have been started during the case before."""
        job = self.ahead.pop((_declared(pair), point), None)
        return job or self.runner(pair).start(point)


def _declared(pair: Pair) -> Hashable:
    """A declaration as a key: its content, since copies share its name and origin, and the functions of its sides.

    Raises:
        DeclarationError: a side is missing or has another signature than the reference.
    """
    return key_of(pair), tuple(ByIdentity(implementation(pair, side)) for side in pair.sides)


_STATE = pytest.StashKey[State]()


def check_point(
    pair: Pair, point: Point, request: pytest.FixtureRequest, record: Callable[[str, object], None]
) -> None:
    """Check one point; fails with the witness, skips where the mesh does not fit."""
    __tracebackhide__ = True
    import jax

    config = request.config
    state = config.stash.setdefault(_STATE, State())
    needed = MeshSpec.parse(point.mesh).devices
    if needed > len(jax.devices()):
        text = f"mesh '{point.mesh}' needs {needed} devices and {len(jax.devices())} are there"
        (pytest.fail if config.getoption("--samebits-no-skips") else pytest.skip)(text)
    root = root_of(pair)
    locator = Locator(name=pair.name, root=None if root == config.rootpath else str(root))
    again = replay(locator, point)
    refusal = pair.case(point.case).refusal(point.variant)
    try:
        if refusal is not None:
            raised = state.runner(pair).refusals(point, refusal)
            results = [judge_refusal(pair, point, refusal, raised, again)]
        else:
            job = state.start(pair, point)
            _start_next(state, request.node.stash.get(NEXT, None))
            results = judge_run(pair, point, state.runner(pair).finish(job), again)
    except NoExplicitForm as error:
        (pytest.fail if config.getoption("--samebits-no-skips") else pytest.skip)(str(error))
    except CouldNotRun as error:
        pytest.fail(f"could not run: {error}\n  replay    {again}", pytrace=False)
    for result in results:
        record("samebits_verdict", result.verdict)
    for text in take_notes():
        record(NOTE, text)
    failed = [result for result in results if result.failed]
    if failed:
        pytest.fail("\n".join(line for result in failed for line in block(result)), pytrace=False)
    wrong = machine_dependent(pair, results)
    if wrong:
        pytest.fail("\n".join(problem.message for problem in wrong), pytrace=False)


def _start_next(state: State, item: pytest.Item | None) -> None:
    """Trace the next case's programs now, so that they compile in threads while this case runs."""
    pair = getattr(getattr(item, "function", None), "_samebits_pair", None)
    callspec = getattr(item, "callspec", None)
    if pair is None or callspec is None:
        return
    point: Point = callspec.params["samebits_point"]
    if pair.case(point.case).refusal(point.variant) is not None:
        return
    try:
        state.ahead.clear()  # a case that was deselected or failed in set-up leaves nothing behind
        state.ahead[_declared(pair), point] = state.runner(pair).start(point)
    except Exception:  # raised again, and reported, when that case starts itself
        return
