"""Commands on the engine: a crash or a hang costs one item, an interrupted run is resumed, blocks come in order."""

import json
from pathlib import Path
from typing import Any

import pytest

from samebits.cli.run_items import InOrder
from samebits.engine.drive import Done
from samebits.engine.work import Item
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
