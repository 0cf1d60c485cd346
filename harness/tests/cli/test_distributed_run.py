"""A command in one of several processes: a process that is gone ends it with a report, and options are rejected."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from samebits.cli.check import check
from samebits.cli.distributed_options import DistributedOptions
from samebits.cli.distributed_run import Together, run_together
from samebits.cli.launch import launch
from samebits.cli.pipeline import Command, CommandRun, ReportFiles
from samebits.cluster.process_group import Board, ProcessGroup
from samebits.engine.distributed_request import DistributedRequest
from samebits.errors import RequestError
from samebits.host.group import RunEnded


class Counting(Command[int, int, tuple[int, ...]]):
    """Counts up; at the number that hangs, another process is gone."""

    handles_signals = True

    def __init__(self, hangs: int | None = None) -> None:
        self.hangs = hangs
        self.shown: list[tuple[tuple[int, ...], list[str]]] = []

    def load(self, run: CommandRun) -> int:
        return 3

    def execute(self, run: CommandRun, inputs: int, results: list[int]) -> None:
        for number in range(inputs):
            if number == self.hangs:
                raise RunEnded("process 1 has ended; it was last at 'rope: fast'")
            results.append(number)

    def document(self, run: CommandRun, inputs: int, results: list[int]) -> tuple[int, ...]:
        return tuple(results)

    def show(self, run: CommandRun, inputs: int, document: tuple[int, ...]) -> None:
        self.shown.append((document, [problem.message for problem in run.problems]))

    def exit_code(self, inputs: int, document: tuple[int, ...]) -> int:
        return 1


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    only = ProcessGroup(0, 1, Board(1), 60)
    yield only
    only.close()


def test_a_run_to_its_end_has_the_exit_code_of_process_0(group: ProcessGroup) -> None:
    command = Counting()
    assert run_together(command, ReportFiles(), group, lambda inputs: {"count": str(inputs)}) == 1
    assert command.shown == [((0, 1, 2), [])]


def test_where_a_process_is_gone_the_results_so_far_remain(group: ProcessGroup) -> None:
    group.begin("rope: fast")
    run, results = CommandRun(), list[int]()
    Together(group, lambda inputs: {}).execute(Counting(hangs=2), run, 3, results)
    assert results == [0, 1] and run.interrupted and run.stop.asked
    (problem,) = run.problems
    assert (problem.pair, problem.exit_code) == ("rope", 3)
    assert problem.message == "the run ends here: process 1 has ended; it was last at 'rope: fast'"


@dataclass(frozen=True, kw_only=True)
class Shaking(DistributedOptions):
    workers: int | None = None
    shake: bool = True


def test_options_become_a_request_or_are_rejected() -> None:
    chosen = Shaking(distributed=True, coordinator="here:1", process_id=1, num_processes=2, wait=9)
    assert chosen.spanning() == DistributedRequest(coordinator="here:1", process_id=1, num_processes=2, seconds=9.0)
    with pytest.raises(RequestError, match=r"^--shake does not go with --distributed; leave it out$"):
        chosen.alone_only("workers", "shake")
    alone = Shaking(wait=9)
    assert alone.spanning() is None
    alone.alone_only("shake")


def test_a_command_of_one_process_is_not_launched() -> None:
    ended = CliRunner().invoke(launch, ["-n", "2", "--", "prove", "rope"])
    assert ended.exit_code == 2
    assert ended.stderr == "samebits: launch: 'prove' does not run in several processes; check, train and pytest do\n"


def test_a_wrong_value_of_a_variable_names_the_variable() -> None:
    ended = CliRunner().invoke(check, ["rope"], env={"SAMEBITS_DISTRIBUTED": "maybe"})
    assert ended.exit_code == 2
    assert "'--distributed' (env var: 'SAMEBITS_DISTRIBUTED'): 'maybe' is not a valid boolean" in ended.stderr


def test_other_exit_codes_in_other_processes_are_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """As of what a process runs on a mesh of its own, which no exchange compares."""
    board = Board(2)
    groups = [ProcessGroup(number, 2, board, 60) for number in range(2)]
    threading.Thread(target=groups[1].share, args=("the end", 0)).start()
    assert Together(groups[0], lambda inputs: {}).exit_code(1) == 3
    assert capsys.readouterr().err == "samebits: process 1 comes to exit code 0, and process 0 to 1\n"
    for group in groups:
        group.close()


def test_an_interrupted_process_is_named_in_the_others() -> None:
    class Interrupted(Counting):
        def execute(self, run: CommandRun, inputs: int, results: list[int]) -> None:
            raise KeyboardInterrupt

    board = Board(2)
    group, run = ProcessGroup(1, 2, board, 60), CommandRun()
    with pytest.raises(KeyboardInterrupt):
        Together(group, lambda inputs: {}).execute(Interrupted(), run, 3, [])
    assert run.stop.asked, "jax's own end would wait for the others"
    assert board.ended() == "process 1 was interrupted"
    group.close()
