"""A point in two processes, here threads: one that fails, does not start or finds something else makes an error."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jax
import numpy as np
import pytest

from samebits.check.verdict import without_leaves
from samebits.cluster.process_group import Board, ProcessGroup
from samebits.cluster.spanning import called_together
from samebits.cluster.start import RunInputs, compare_inputs, described, sources
from samebits.cluster.together import judged_together, require_alike
from samebits.errors import CouldNotRun, RequestError
from samebits.host import environment
from samebits.programs.program_cache import CompileSetup, Programs
from samebits.schema.finding import Finding
from samebits.schema.point import Point
from tests.support.findings import changed

POINT = Point(variant="fast", case="small", dtype="float32", mesh="data8", mode="auto", direction="forward")
EQUAL = changed(
    without_leaves("rope", POINT, "skipped", "", "again"), leaf="out", verdict="bitwise", ok=True, bits="ab"
)
DIFFERENT = changed(EQUAL, verdict="different", mismatches=3, ok=False)
FAILED = without_leaves("rope", POINT, "error", "no kernel", "again")


@pytest.fixture
def groups() -> Iterator[list[ProcessGroup]]:
    board = Board(2)
    both = [ProcessGroup(number, 2, board, 60) for number in range(2)]
    yield both
    for group in both:
        group.close()


def judged(
    groups: Sequence[ProcessGroup], started: Sequence[Finding | None], finish: Sequence[Callable[[], list[Finding]]]
) -> list[list[Finding]]:
    def error(reason: str) -> Finding:
        return without_leaves("rope", POINT, "error", reason, "again")

    def process(group: ProcessGroup) -> list[Finding]:
        number = group.number
        return judged_together(group, f"rope: {POINT}", started[number], finish[number], error)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(process, groups))


def test_equal_results_stay(groups: list[ProcessGroup]) -> None:
    assert judged(groups, (None, None), (lambda: [EQUAL], lambda: [replace(EQUAL, seconds=3.0)]))[0] == [EQUAL]
    assert judged(groups, (FAILED, FAILED), (list, list)) == [[FAILED], [FAILED]], "each has its own error"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            [DIFFERENT],
            "process 1 comes to another result than process 0: verdict of 'out' is 'different', not 'bitwise'",
        ),
        (
            [changed(EQUAL, bits="cd")],
            "process 1 comes to another result than process 0: bits of 'out' is 'cd', not 'ab'",
        ),
        ([EQUAL, EQUAL], "process 1 comes to another result than process 0: 2 leaves, not 1"),
        ([FAILED], "failed in process 1: no kernel"),
    ],
)
def test_another_result_in_one_process_is_an_error(
    groups: list[ProcessGroup], other: list[Finding], words: str
) -> None:
    (first,), _ = judged(groups, (None, None), (lambda: [EQUAL], lambda: other))
    assert (first.ruling.verdict, first.ruling.ok, first.ruling.reason) == ("error", False, words)


def test_a_point_that_does_not_start_in_one_process_runs_in_none(groups: list[ProcessGroup]) -> None:
    ran: list[int] = []

    def run() -> list[Finding]:
        ran.append(0)
        return [EQUAL]

    (first,), (second,) = judged(groups, (None, FAILED), (run, run))
    assert not ran and (first.ruling.reason, second.ruling.reason) == ("failed in process 1: no kernel", "no kernel")
    (first,), (second,) = judged(groups, (None, changed(FAILED, verdict="skipped")), (run, run))
    assert not ran and first.ruling.reason == second.ruling.reason == "process 0: started; process 1: skipped"


def test_a_point_after_a_failed_one_runs(groups: list[ProcessGroup]) -> None:
    judged(groups, (None, FAILED), (lambda: [EQUAL], list))
    assert judged(groups, (None, None), (lambda: [EQUAL], lambda: [EQUAL])) == [[EQUAL], [EQUAL]]


def test_results_of_a_test_are_held_against_each_other(groups: list[ProcessGroup]) -> None:
    def process(group: ProcessGroup) -> str:
        try:
            require_alike(group, [EQUAL if group.number else DIFFERENT])
        except CouldNotRun as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(process, groups))
    assert (
        texts
        == ["process 1 comes to another result than process 0: verdict of 'out' is 'bitwise', not 'different'"] * 2
    )


def test_a_program_of_one_process_is_watched_and_ends() -> None:
    group = ProcessGroup(0, 1, Board(1), 60)
    programs = Programs(group=group)
    types = (jax.ShapeDtypeStruct((3,), "float32"),)
    program = programs.start(programs.trace("double", "double:", CompileSetup(), lambda: (lambda x: 2 * x, types)))
    fetched = called_together(group, program, (np.ones(3, np.float32),), "forward", None)
    assert fetched.tree.leaves["out"].array.tolist() == [2, 2, 2] and fetched.replicas is None
    group.close()
    programs.close()


# --- A process that differs in points, sources or environment is named with what differs -----------------------------

SAME = RunInputs(
    points={"point 0": "rope/fast", "point 1": "rope/plain"},
    sources={"suites.test_rope (test_rope.py)": "aa", "samebits/cli/check.py": "bb"},
    environment={"versions.jax": "0.10.2", "flags.XLA_FLAGS": ""},
)


def errors(*inputs: RunInputs) -> Sequence[str | None]:
    """What each of several processes raises."""
    board = Board(len(inputs))
    groups = [ProcessGroup(number, len(inputs), board, 60) for number in range(len(inputs))]

    def compare(number: int) -> str | None:
        try:
            compare_inputs(groups[number], inputs[number])
        except RequestError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(len(inputs)) as pool:
        raised = list(pool.map(compare, range(len(inputs))))
    for group in groups:
        group.close()
    return raised


def test_equal_processes_go_on() -> None:
    assert errors(SAME, replace(SAME), replace(SAME)) == [None] * 3


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            replace(SAME, sources={**SAME.sources, "suites.test_rope (test_rope.py)": "cc"}),
            "its sources: suites.test_rope (test_rope.py)",
        ),
        (
            replace(SAME, environment={**SAME.environment, "versions.jax": "0.9.0"}),
            "its environment: versions.jax (0.9.0, not 0.10.2)",
        ),
        (
            replace(SAME, sources=dict([*SAME.sources.items()][1:])),
            f"its sources: {next(iter(SAME.sources))} (imported in process 0 alone)",
        ),
        (replace(SAME, points={"point 0": "rope/fast"}), "what it runs: point 1 (missing, not rope/plain)"),
        (replace(SAME, sources=dict(list(SAME.sources.items())[::-1])), "its sources: their order"),
    ],
)
def test_a_process_that_differs_is_named_in_all(other: RunInputs, words: str) -> None:
    expected = f"process 2 differs from process 0 in {words}: start all processes from the same files and settings"
    assert errors(SAME, SAME, other) == [expected] * 3


def test_sources_hold_samebits_and_an_environment_its_entries() -> None:
    assert "samebits/cluster/start.py" in sources()
    entries = described(environment.capture())
    assert {"versions.jax", "platform", "flags.XLA_FLAGS", "instruction_sets"} <= entries.keys()
