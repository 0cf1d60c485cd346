"""Commands on the engine: a crash, a hang or a process that is gone costs one item; an interrupted run is resumed."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from samebits.cli.check import check
from samebits.cli.distributed_run import CommonRun, run_together
from samebits.cli.engine_options import DistributedOptions
from samebits.cli.launch import launch
from samebits.cli.options import JsonOption
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import InOrder
from samebits.cluster.process_group import Board, ProcessGroup
from samebits.engine.distributed_request import DistributedRequest
from samebits.engine.drive import Done
from samebits.engine.work import Item
from samebits.errors import RequestError
from samebits.host.group import RunEnded
from samebits.report.list import Listing, PairRow
from tests.support.blank import blank
from tests.support.findings import flat_rows
from tests.support.foreign import HONEST, write_pair
from tests.support.invoke import samebits, samebits_process

ABORTS = "import os\n\ndef fast(x):\n    os.abort()\n"
SLEEPS = "import time\n\ndef fast(x):\n    time.sleep(600)\n"
INTERRUPTS = """
    import os
    import signal
    from pathlib import Path

    def fast(x):
        if (Path(__file__).parent / "interrupt").exists():
            os.kill(os.getpid(), signal.SIGINT)
        return 2 * x
    """


def _results(file: Path) -> list[dict[str, Any]]:
    return [{**row, "seconds": 0} for row in flat_rows(json.loads(file.read_text()))]


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_point_of_a_proof_each(tmp_path: Path) -> None:
    """Two error rows with what happened, and the pairs between them as one process gives them."""
    for name, optimized in (("aborts", ABORTS), ("good", HONEST), ("sleeps", SLEEPS), ("too_good", HONEST)):
        write_pair(tmp_path, name, optimized=optimized)
    words = ("prove", "--root", tmp_path, "--direction", "forward", "--variant", "fast", "--json")
    ended = samebits(*words, tmp_path / "two.json", "--workers", "2", "--timeout", "20")
    assert ended.code == 3
    rows = {row["pair"]: row for row in _results(tmp_path / "two.json")}
    assert list(rows) == ["aborts", "good", "sleeps", "too_good"]
    assert {name: row["verdict"] for name, row in rows.items() if row["verdict"] == "error"}.keys() == {
        "aborts",
        "sleeps",
    }
    assert "its process ended while interpreting 'fast' on data2: SIGABRT" in rows["aborts"]["reason"]
    assert "its process ended while interpreting 'fast' on data2: more than 20 s" in rows["sleeps"]["reason"]
    assert rows["aborts"]["replay"].startswith("samebits prove aborts --variant fast ")
    assert ended.out.count("NOT PROVED") == 2
    here = ("prove", "good", "too_good", *words[1:], tmp_path / "here.json", "--in-process")
    assert samebits(*here).code == 0
    assert _results(tmp_path / "here.json") == [rows["good"], rows["too_good"]]


@pytest.mark.slow
def test_an_interrupted_proof_is_resumed(tmp_path: Path) -> None:
    """Ctrl-C in the second pair: the first one is in the journal, and the document is that of an undisturbed run."""
    write_pair(tmp_path, "first")
    write_pair(tmp_path, "second", optimized=INTERRUPTS)
    command = ("prove", "--root", tmp_path, "--in-process", "--journal", tmp_path / "journal", "--json")
    assert samebits_process(*command, tmp_path / "whole.json").code == 0
    (tmp_path / "optimized_impls" / "interrupt").touch()
    ended = samebits_process(*command, tmp_path / "part.json")
    assert ended.code == 3 and "--resume goes on from there" in ended.err, ended.err
    assert 0 < len(_results(tmp_path / "part.json")) < len(_results(tmp_path / "whole.json"))
    (tmp_path / "optimized_impls" / "interrupt").unlink()
    ended = samebits_process(*command, tmp_path / "resumed.json", "--resume")
    assert ended.code == 0, ended.err
    assert _results(tmp_path / "resumed.json") == _results(tmp_path / "whole.json")
    (note,) = [note for note in json.loads((tmp_path / "resumed.json").read_text())["notes"] if "resumed" in note]
    assert note.startswith("resumed: ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("train", "--distributed", "--timeout", "9"), "--timeout is about worker processes; `samebits train --distr"),
        (
            ("audit", "faults", "--in-process", "--workers", "2"),
            "--workers is about worker processes, and --in-process has no",
        ),
    ],
)
def test_options_of_processes_are_rejected_where_there_are_none(words: tuple[str, ...], line: str) -> None:
    ended = samebits(*words)
    assert ended.code == 2
    assert len(ended.lines) == 1 and line in ended.lines[0], ended.lines


def _done(key: str) -> Done[Any]:
    return Done(_item(key), (), ())


def _item(key: str) -> Item:
    return Item(key=key, pair=key[0], words=key, replay="", group=0, payload=None)


def test_blocks_are_shown_once_they_are_complete_and_in_order() -> None:
    """A block that was dropped holds up no other; what is left is shown at the end."""
    shown: list[str] = []
    keys = ("a1", "a2", "b1", "b2", "c1", "d1", "d2")
    blocks: InOrder[Any] = InOrder(
        [_item(key) for key in keys],
        lambda item: item.pair,
        lambda block: shown.append(" ".join(done.item.key for done in block)),
    )
    blocks.add(_done("b2"))
    blocks.add(_done("a2"))
    assert shown == []
    blocks.add(_done("a1"))
    assert shown == ["a1 a2"]
    blocks.add(_done("c1"))
    blocks.drop("b")
    assert shown == ["a1 a2", "b2", "c1"]
    blocks.add(_done("d2"))
    blocks.close()
    assert shown == ["a1 a2", "b2", "c1", "d2"]


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
