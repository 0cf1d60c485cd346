"""Runs one point for pytest; runners and compiled programs are shared by the pytest session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

from samebits.check.contract_audit import machine_dependent
from samebits.check.execution import PendingPoint
from samebits.check.runner import Runner
from samebits.check.verdict import judge_refusal, judge_run
from samebits.errors import CouldNotRun, MeshNotSpanned, NoExplicitForm, RequestError, SamebitsError
from samebits.functions.passed import REJECT_OPTION, REPORTING
from samebits.host import environment
from samebits.host.backend_start import require_answer
from samebits.host.cache_keys import ByIdentity, key_of
from samebits.host.device_health import device_failure
from samebits.host.environment import devices_here
from samebits.host.isolation import take_notes
from samebits.programs.catalogue import SUITES, Locator
from samebits.programs.implementations import implementation, root_of
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay, with_settings, without_group
from samebits.report.failure import point_block
from samebits.rooms import door
from samebits.schema.finding import breakable
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Effort, Point
from samebits.testing import page
from samebits.testing.distributed import GROUP, point_of
from samebits.testing.properties import EARLY, NEXT, NOTE, OWN, VERDICT
from samebits.user_errors import one_line, take_tracebacks


@dataclass(slots=True)
class State:
    """What the cases of one session share.

    Args:
        failed_device: why nothing can run any more in this process, and since which case.
    """

    programs: Programs = field(default_factory=Programs)
    runners: dict[Hashable, Runner] = field(default_factory=dict)
    ahead: dict[tuple[Hashable, Point], PendingPoint] = field(default_factory=dict)
    failed_device: str | None = None

    def runner(self, pair: Pair) -> Runner:
        """Return the runner of a pair on this platform, made on first use."""
        key = _declared(pair)
        if key not in self.runners:
            effort = Effort(assuming=REPORTING.assuming)
            self.runners[key] = Runner(pair.on(devices_here()[0].platform), self.programs, effort)
        return self.runners[key]

    def start(self, pair: Pair, point: Point) -> PendingPoint:
        """Return the started point of a case; it may have been started during the case before."""
        job = self.ahead.pop((_declared(pair), point), None)
        return job or self.runner(pair).start(point)

    def look_at_device(self, pair: Pair, point: Point) -> str | None:
        """Explain why nothing can run any more after a case; None where the devices work."""
        failure = device_failure()
        if failure is not None:
            ahead = next((f" (or in {other}, traced ahead)" for _, other in self.ahead), "")
            self.failed_device = f"{failure}, in {pair.name}: {point}{ahead}"
        return self.failed_device


def _declared(pair: Pair) -> Hashable:
    """Return a declaration as a key: its content, since copies share its name and origin, and its sides' functions."""
    return key_of(pair), tuple(ByIdentity(implementation(pair, side)) for side in pair.sides)


_STATE = pytest.StashKey[State]()


def check_point(pair: Pair, point: Point, request: pytest.FixtureRequest) -> None:
    """Check one point; fails with the witness, skips where the mesh does not fit."""
    __tracebackhide__ = True
    again = replay_of_test(pair, point, request.node)
    try:
        _check(pair, point, request, again)
    except (pytest.fail.Exception, pytest.skip.Exception) as ended:
        page.gather_end(request.node, pair, point, ended, again)
        raise


def _check(pair: Pair, point: Point, request: pytest.FixtureRequest, again: str) -> None:
    __tracebackhide__ = True
    config, record = request.config, request.node.user_properties
    state = config.stash.setdefault(_STATE, State(Programs(group=config.stash.get(GROUP, None))))
    if state.failed_device is not None:
        _fail(request.node, f"not run: {state.failed_device}; run it in a new process", again)
    _require_devices(MeshSpec.parse(point.mesh), config)
    refusal = pair.case(point.case).refusal(point.variant)
    try:
        with point_of(config, f"{pair.name}: {point}") as group:
            runner = state.runner(pair)
            if refusal is not None:
                raised = runner.refusals(point, refusal)
                results = [judge_refusal(pair, point, refusal, raised, again)]
            else:
                job = state.start(pair, point)
                _start_next(state, request.node.stash.get(NEXT, None))
                results = judge_run(runner.pair, point, runner.finish(job), again)
            if group is not None:
                door("cluster.together").require_alike(group, results)
    except pytest.exit.Exception:  # another process is gone: no case can be checked any more
        raise
    except Exception as error:  # whatever the user's code or XLA raises at run time
        state.look_at_device(pair, point)
        _end(error, request, again)
    if failure := state.look_at_device(pair, point):
        _fail(request.node, failure, again)
    page.gather(request.node, pair, results)
    # Not the fixture `record_property`: it warns under pytest's default junit_family, and `-W error` fails on that.
    record += [(VERDICT, result.ruling.verdict) for result in results]
    record += [(NOTE, text) for text in take_notes()]
    failed = [result for result in results if result.failed]
    REPORTING.add(str(point), () if failed else breakable(results))
    if failed:
        pytest.fail("\n".join(line for result in failed for line in point_block([result])), pytrace=False)
    wrong = machine_dependent(runner.pair, results)
    if wrong:
        pytest.fail("\n".join(problem.message for problem in wrong), pytrace=False)


def _end(error: Exception, request: pytest.FixtureRequest, again: str) -> NoReturn:
    """Skip or fail a case that was not compared."""
    __tracebackhide__ = True
    if isinstance(error, NoExplicitForm | MeshNotSpanned):
        _skip(str(error), request.config)
    if not isinstance(error, SamebitsError):
        _fail(request.node, f"could not run: {one_line(error)}", again)
    _fail(request.node, f"{'could not run: ' if isinstance(error, CouldNotRun) else ''}{error}", again)


def _fail(item: pytest.Item, text: str, again: str) -> NoReturn:
    """Fail with one line and the replay; pytest shows the traceback of the user's code below, as a section."""
    __tracebackhide__ = True
    for shown in take_tracebacks():
        item.add_report_section("call", "traceback", shown)
    raise pytest.fail.Exception(f"{text}\n  replay    {again}", pytrace=False) from None


def _require_devices(mesh: MeshSpec, config: pytest.Config) -> None:
    """Skip a mesh that does not fit; fail where it does not fit because jax was started too early."""
    __tracebackhide__ = True
    try:
        require_answer()
        here = environment.devices_here()
    except RequestError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if mesh.devices <= len(here):
        return
    text = f"mesh '{mesh.id}' needs {mesh.devices} devices and {len(here)} are there"
    if here[0].platform == "cpu" and config.stash.get(EARLY, 0) > len(here):
        wanted = config.stash[EARLY]
        pytest.fail(
            f"{text}: a conftest.py or a test module started jax before samebits could ask for {wanted}; set "
            f"JAX_NUM_CPU_DEVICES={wanted} in the environment, or use jax only inside fixtures and tests",
            pytrace=False,
        )
    _skip(text, config)


def _skip(text: str, config: pytest.Config) -> NoReturn:
    """Skip, or fail where no skip is accepted."""
    __tracebackhide__ = True
    if config.getoption("--samebits-no-skips"):
        raise pytest.fail.Exception(text, pytrace=False) from None
    raise pytest.skip.Exception(text) from None


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


def replay_of_test(pair: Pair, point: Point, item: pytest.Item) -> str:
    """Return `samebits check` where it finds this very declaration, else the test itself."""
    start, module = item.config.invocation_params.dir, getattr(item, "module", None)
    assuming = not item.config.getoption(REJECT_OPTION)
    if isinstance(module, ModuleType):
        if _is_of_a_tree(pair, module):
            root = root_of(pair)
            return replay(Locator(name=pair.name, root=str(root)), point, here=start, assuming=assuming)
        name = next((name for name, value in vars(module).items() if value is pair), None)
        if name is not None and _stands_alone(item):
            locator = Locator(name=f"{os.path.relpath(item.path, start)}:{name}")
            return replay(locator, point, here=start, assuming=assuming)
    name = without_group(item.nodeid).partition("::")[2]
    words = ["python", "-m", "pytest", f"{os.path.relpath(item.path, start)}::{name}"]
    devices = item.config.getoption("--samebits-devices")
    full = ["--samebits-full"] if item.config.getoption("--samebits-full") else []
    full += [] if assuming else [REJECT_OPTION]
    return with_settings(shlex.join(words + (["--samebits-devices", str(devices)] if devices else []) + full))


def _is_of_a_tree(pair: Pair, module: ModuleType) -> bool:
    """Return whether `samebits check NAME` in the tree runs this declaration."""
    file = Path(module.__file__ or "").resolve()
    declared = (
        file.parent.name == SUITES and file.name == f"test_{pair.name}.py" and Path(pair.origin).resolve() == file
    )
    return declared and getattr(module, OWN, None) is pair


def _stands_alone(item: pytest.Item) -> bool:
    """Tell whether a test file means outside pytest what it means inside: nothing of pytest's prepares its imports."""
    top = item.config.rootpath
    folders = [folder for folder in item.path.parents if folder == top or top in folder.parents]
    return not item.config.getini("pythonpath") and not any((folder / "conftest.py").is_file() for folder in folders)
