"""A command in one of several processes: a process that is gone ends it with a report, and options are rejected."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from samebits.cli.check import check
from samebits.cli.distributed_run import CommonRun, run_together
from samebits.cli.engine_options import DistributedOptions
from samebits.cli.launch import launch
from samebits.cli.options import JsonOption
from samebits.cli.pipeline import CommandRun
from samebits.cluster.process_group import Board, ProcessGroup
from samebits.engine.distributed_request import DistributedRequest
from samebits.errors import RequestError
from samebits.host.group import RunEnded
from samebits.report.list import Listing, PairRow
from tests.support.blank import blank


def count(run: CommandRun, hangs: int | None = None) -> Listing:
    """Count up; at the number that hangs, another process is gone. Its results are rows of a list."""
    with run.loading() as points:
        points["count"] = "3"
    rows = []
    with run.partial():
        for number in range(3):
            if number == hangs:
                raise RunEnded("process 1 has ended; it was last at 'rope: fast'")
            rows.append(blank(PairRow, pair=str(number)))
    return Listing(results=tuple(rows), problems=tuple(run.problems))


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    only = ProcessGroup(0, 1, Board(1), 60)
    yield only
    only.close()


def test_a_run_to_its_end_has_the_exit_code_of_process_0(
    group: ProcessGroup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_together(count, JsonOption(json=tmp_path / "r.json"), group) == 0
    assert [row["pair"] for row in json.loads((tmp_path / "r.json").read_text())["results"]] == ["0", "1", "2"]
    assert "3 pairs with 0 variants" in capsys.readouterr().out


def test_where_a_process_is_gone_the_results_so_far_remain(group: ProcessGroup) -> None:
    group.begin("rope: fast")
    run = CommonRun(group)
    with run.ending:
        listing = count(run, hangs=2)
    assert [row.pair for row in listing.results] == ["0", "1"] and run.interrupted and run.stop.asked
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
    assert CommonRun(groups[0]).agreed(1) == 3
    assert capsys.readouterr().err == "samebits: process 1 comes to exit code 0, and process 0 to 1\n"
    for group in groups:
        group.close()


@pytest.mark.parametrize("inside", [CommonRun.partial, CommonRun.whole])
def test_an_interrupted_process_is_named_in_the_others(
    inside: Callable[[CommonRun], contextlib.AbstractContextManager[None]],
) -> None:
    board = Board(2)
    group = ProcessGroup(1, 2, board, 60)
    run = CommonRun(group)
    with run.ending, contextlib.suppress(KeyboardInterrupt), inside(run):
        raise KeyboardInterrupt
    assert run.stop.asked, "jax's own end would wait for the others"
    assert board.ended() == "process 1 was interrupted"
    group.close()
