"""The planted faults as work: one that ends its process, or cannot be planted, costs itself alone."""

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.audit.faults.fault import FaultRow
from samebits.engine.faults_work import FaultsWork, fault_items
from samebits.engine.work import Finished, ProcessExit, Trouble
from tests.support.foreign import write_pair
from tests.support.invoke import samebits

FAULTS = """
from samebits.audit.faults.fault import Fault
from samebits.programs.plan import Request

HERE = Request(directions=("forward",))
FAULTS = (
    Fault(name="three", pair="good", side="fast", old="2 * x", new="3 * x", request=HERE),
    Fault(name="abort", pair="good", side="fast", old="2 * x", new="__import__('os').abort()", request=HERE),
    Fault(name="stale", pair="good", side="fast", old="4 * x", new="3 * x", request=HERE),
    Fault(name="honest", pair="good", side="fast", old="2 * x", new="x * 2", request=HERE),
    Fault(name="exit", pair="good", side="fast", old="2 * x", new="__import__('os')._exit(0)", request=HERE),
)
"""


def _tree(tmp_path: Path) -> Path:
    write_pair(tmp_path, "good")
    folder = tmp_path / "suites" / "faults"
    folder.mkdir()
    (folder / "good.py").write_text(FAULTS)
    return tmp_path


def test_a_fault_is_checked_wherever_it_is_sent(tmp_path: Path) -> None:
    """After pickling; one that cannot be planted is trouble of its own, with the exit code of a wrong declaration."""
    tree = _tree(tmp_path)
    work = pickle.loads(pickle.dumps(FaultsWork(tree)))
    items = fault_items(tree, [0, 2, 3])
    events = list(work.run(items, 0))
    rows = [
        msgspec.json.decode(row, type=FaultRow) for event in events if isinstance(event, Finished) for row in event.rows
    ]
    work.close()
    assert [(row.fault, row.caught, row.honest, row.error) for row in rows] == [
        ("three", True, True, None),
        ("honest", False, True, None),
    ]
    (trouble,) = [event for event in events if isinstance(event, Trouble)]
    assert (trouble.pair, trouble.exit_code) == (items[1].pair, 2)
    assert "fault 'stale': '4 * x' occurs 0 times" in trouble.message


def test_a_lost_fault_is_neither_caught_nor_missed(tmp_path: Path) -> None:
    """It has no answer, and names the command that checks it again."""
    tree = _tree(tmp_path)
    (item,) = fault_items(tree, [1])
    row = FaultsWork(tree).lost(item, ProcessExit(kind="timeout", text="more than 5 s"), "checking")
    assert (row.caught, row.honest, row.error) == (False, False, "its process ended while checking: more than 5 s")
    assert item.replay == f"samebits audit faults good --fault abort --root {tree}"


def _rows(file: Path) -> dict[str, dict[str, Any]]:
    return {row["fault"]: row for row in json.loads(file.read_text())["results"]}


@pytest.mark.slow
def test_faults_that_end_their_process_have_no_answer(tmp_path: Path) -> None:
    """The others are caught as in one process; what was not told is exit code 3, a miss would be 1."""
    tree, file = _tree(tmp_path), tmp_path / "faults.json"
    chosen = [word for name in ("three", "abort", "exit") for word in ("--fault", name)]
    ended = samebits("audit", "faults", "--root", tree, *chosen, "--workers", "2", "--json", file)
    assert ended.code == 3, ended.err
    rows = _rows(file)
    assert list(rows) == ["three", "abort", "exit"]
    assert "SIGABRT" in rows["abort"]["error"] and "exit code 0" in rows["exit"]["error"]
    assert "  2/3  NO ANSWER good/fast: abort" in ended.out.splitlines()
    assert any(line.startswith("1 of 3 planted faults are caught") for line in ended.out.splitlines())
    assert "2 checks did not come to an end" in ended.out
    ended = samebits("audit", "faults", "--root", tree, "--fault", "three", "--json", file)
    assert ended.code == 0
    assert _rows(file) == {"three": rows["three"]}


def test_a_stale_fault_is_a_wrong_declaration(tmp_path: Path) -> None:
    """The others are checked; an unknown name is a wrong request."""
    tree, file = _tree(tmp_path), tmp_path / "faults.json"
    ended = samebits("audit", "faults", "--root", tree, "--fault", "three", "--fault", "stale", "--json", file)
    assert ended.code == 2
    assert list(_rows(file)) == ["three"]
    assert len(ended.lines) == 1 and "fault 'stale': '4 * x' occurs 0 times" in ended.lines[0]
    ended = samebits("audit", "faults", "--root", tree, "--fault", "thre")
    assert ended.code == 2
    assert ended.lines[0].startswith("samebits: no fault is called 'thre'; expected some of 'three', 'abort'")
    ended = samebits("audit", "faults", "--root", tree, "--fault", "three", "--fault", "thre")  # beside a known one too
    assert (ended.code, ended.lines[0][:40]) == (2, "samebits: no fault is called 'thre'; exp")
