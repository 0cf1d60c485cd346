"""A process that differs in points, sources or environment is named with what differs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from samebits.cluster.process_group import Board, ProcessGroup
from samebits.cluster.start import RunInputs, compare_inputs, described, sources
from samebits.errors import RequestError
from samebits.host import environment

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
