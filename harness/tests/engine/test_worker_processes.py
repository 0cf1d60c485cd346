"""A process that ends costs its item alone, and the row says how, where and why; all others have their rows."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import psutil
import pytest

from samebits.engine import worker_processes
from samebits.engine.drive import Done, Limits, drive
from samebits.engine.work import Event, Finished, Item, Started, Trouble, Unusable
from samebits.engine.worker_processes import WorkerProcesses
from samebits.errors import RequestError
from samebits.host.isolation import lasting_notes, take_notes
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, toy_items
from tests.support import failing_device
from tests.support.child import shell_environment

ACTIONS = (
    *["good"] * 7,
    "abort",
    "good",
    "exit 0",
    "exit 3",
    "good",
    "segv",
    "good",
    "raise",
    "good",
    "sleep",
    *["good"] * 10,
)

EXPECTED = {
    "abort": "signal while acting: SIGABRT; it was at ",
    "segv": "signal while acting: SIGSEGV; it was at ",
    "exit 0": "exit while acting: exit code 0",
    "exit 3": "exit while acting: exit code 3",
    "raise": "exit while acting: SystemExit: 7",
    "sleep": "timeout while acting: more than 4 s; it was at ",
}


@dataclass
class Ran:
    """What a run of all actions gave."""

    done: list[Done[ToyRow]]
    output: bytes
    notes: list[str]
    lasting: list[str]


@pytest.fixture(scope="module")
def ran() -> Ran:
    """One run with every end, on two processes, items started ahead."""
    written: list[bytes] = []
    work, items = ToyWork(ahead=2), toy_items(*ACTIONS, "print")
    take_notes()
    executor = WorkerProcesses(work, 2, written.append)
    try:
        done = list(drive(work, items, executor, limits=Limits(seconds=4), on_problem=_no_problem))
    finally:
        executor.close()
    lasting = lasting_notes()
    return Ran(done, b"".join(written), take_notes(), lasting)


def test_every_item_has_rows_once(ran: Ran) -> None:
    keys = [item.key for item in toy_items(*ACTIONS, "print")]
    assert sorted(done.item.key for done in ran.done) == sorted(keys)


def test_honest_items_have_their_own_row(ran: Ran) -> None:
    for done in ran.done:
        if done.item.payload in ("good", "print"):
            assert done.rows == (ToyRow(key=done.item.key, value=len(done.item.key)),) and not done.lost


@pytest.mark.parametrize("action", EXPECTED)
def test_the_row_says_how_the_process_ended(ran: Ran, action: str) -> None:
    (row,) = (row for done in ran.done if done.item.payload == action for row in done.rows)
    assert row.error is not None and EXPECTED[action] in row.error
    if "it was at" in EXPECTED[action]:
        assert "toy_work.py:" in row.error and row.error.endswith("in act")


@pytest.mark.slow
def test_a_process_that_holds_too_much_is_ended() -> None:
    """Without a tight time limit: a busy machine may take many seconds to hand out 500 MB."""
    executor = WorkerProcesses(ToyWork(), 1, lambda text: None)
    try:
        limits = Limits(seconds=60, bytes=500_000_000)
        done = list(drive(ToyWork(), toy_items("good", "eat", "good"), executor, limits=limits, on_problem=_no_problem))
    finally:
        executor.close()
    (ended,) = (row.error for ended in done if ended.lost for row in ended.rows)
    assert ended is not None and "memory while acting: " in ended and "that a process may hold" in ended


def test_a_process_whose_device_failed_is_replaced() -> None:
    """Its item has a row that says so, and those after it have the rows of a device that works.

    The first item of its process, and alone: it is not tried again, in one more process that starts jax.
    """
    executor, actions = WorkerProcesses(ToyWork(), 1, lambda text: None), ("device", "good", "good")
    try:
        limits, items = Limits(seconds=60), toy_items(*actions)
        done = list(drive(ToyWork(), items, executor, limits=limits, on_problem=_no_problem))
    finally:
        executor.close()
    errors = {one.item.payload: row.error for one in done for row in one.rows if one.lost}
    assert errors == {"device": f"device while acting: device cpu:0 failed: {failing_device.MESSAGE}"}
    assert sorted(one.item.key for one in done) == [item.key for item in items]


def rows_of(*items: Item, workers: int = 1) -> dict[str, ToyRow]:
    """The row of each item, by what it does."""
    executor = WorkerProcesses(ToyWork(), workers, lambda text: None)
    try:
        done = list(drive(ToyWork(), items, executor, limits=Limits(seconds=60), on_problem=_no_problem))
    finally:
        executor.close()
    assert len(done) == len(items)
    return {one.item.key: row for one in done for row in one.rows}


def test_a_child_that_an_item_forked_has_no_results() -> None:
    """It comes to a row before its parent does, which raises."""
    rows = rows_of(*toy_items("fork", "good"))
    assert rows["toy/0-fork"].error == "exit while acting: SystemExit: 7"
    assert rows["toy/1-good"].error is None


def test_what_an_earlier_item_left_is_no_fault_of_the_next() -> None:
    """One item is under way when the process ends; in a process of its own it is good."""
    rows = rows_of(*toy_items("later", pair="bad"), *toy_items("wait", pair="fine"))
    assert {key: row.error for key, row in rows.items()} == {"bad/0-later": None, "fine/0-wait": None}


def test_a_process_in_which_an_item_raised_is_replaced() -> None:
    rows = rows_of(*toy_items("files", pair="bad"), *toy_items("good", pair="fine"))
    assert rows["fine/0-good"].error is None
    assert rows["bad/0-files"].error == "exit while acting: OSError: too many open files"


def test_a_process_that_takes_itself_for_another_ends_neither() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        rows = rows_of(*toy_items(f"pid {other.pid}", pair="bad"), *toy_items("good", pair="fine"))
        assert other.poll() is None
    assert [row.error for row in rows.values()] == [None, None]


def test_suspects_that_are_innocent_are_named_in_a_note(ran: Ran) -> None:
    assert any("each was run again alone" in note for note in ran.notes)
    assert ran.lasting == [], "other runs of the same code may hold"


def test_what_items_print_is_forwarded_without_stacks(ran: Ran) -> None:
    assert b"printed by the code of an item" in ran.output and b"and to stderr" in ran.output
    assert b"Fatal Python error" not in ran.output and b"Current thread" not in ran.output


@pytest.mark.parametrize("actions", [("start",), ("leave",), ("leave", "abort"), ("leave", "raise")])
def test_what_an_item_started_is_ended_with_it(actions: tuple[str, ...], tmp_path: Path) -> None:
    """Also if its own parent has ended, and its process ends with the run, by a crash or because an item raised."""
    first, *rest = actions
    executor = WorkerProcesses(ToyWork(), 1, lambda text: None)
    try:
        limits, items = Limits(seconds=4), toy_items(f"{first} {tmp_path / 'pid'}", *rest)
        done = list(drive(ToyWork(), items, executor, limits=limits, on_problem=_no_problem))
    finally:
        executor.close()
    assert [item.lost for item in done] == [first == "start", *(True for _ in rest)]
    until = time.monotonic() + 30
    while psutil.pid_exists(int((tmp_path / "pid").read_text())) and time.monotonic() < until:
        time.sleep(0.05)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_signal_to_the_group_of_an_item_ends_it_alone() -> None:
    code = """
from samebits.engine.drive import Limits, drive
from samebits.engine.worker_processes import WorkerProcesses
from tests.engine.toy_work import ToyWork, toy_items
executor = WorkerProcesses(ToyWork(), 1, lambda text: None)
done = drive(ToyWork(), toy_items("group", "good"), executor, limits=Limits(seconds=30), on_problem=print)
print(sorted((one.item.payload, one.lost) for one in done))
executor.close()
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=shell_environment(),
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "[('good', False), ('group', True)]\n"), ran.stderr


def test_a_killed_parent_leaves_no_process_behind(tmp_path: Path) -> None:
    code = f"""
from samebits.engine.drive import Limits, drive
from samebits.engine.worker_processes import WorkerProcesses
from tests.engine.toy_work import ToyWork, toy_items
executor = WorkerProcesses(ToyWork(), 1, lambda text: None)
list(drive(ToyWork(), toy_items("start {tmp_path / "pid"}"), executor, limits=Limits(), on_problem=print))
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=shell_environment(), start_new_session=True, stderr=subprocess.DEVNULL
    )
    started, until = tmp_path / "pid", time.monotonic() + 60
    while not (started.exists() and started.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    ours = psutil.Process(parent.pid).children(recursive=True)
    assert int(started.read_text()) in {process.pid for process in ours}
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    _, alive = psutil.wait_procs(ours, timeout=30)
    assert alive == []


def test_closing_early_ends_all_processes() -> None:
    work = ToyWork()
    executor = WorkerProcesses(work, 2, lambda text: None)
    results = drive(work, toy_items("good", *["sleep"] * 70), executor, limits=Limits(), on_problem=_no_problem)
    next(results)
    begin = time.monotonic()
    executor.close()
    children = [one for one in psutil.Process(os.getpid()).children() if "spawn_main" in " ".join(one.cmdline())]
    assert children == [] and time.monotonic() - begin < 60


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)


def test_a_process_that_the_system_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **keywords: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SpawnProcess, "start", full)
    executor = WorkerProcesses(ToyWork(), 1, lambda text: None)
    with pytest.raises(RequestError, match=r"^a worker process cannot be started: No space left .*`ulimit -a`"):
        list(drive(ToyWork(), toy_items("good"), executor, limits=Limits(), on_problem=_no_problem))
    executor.close()
    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(RequestError, match="No space left on device; TMPDIR names the folder of its files"):
        WorkerProcesses(ToyWork(), 1, lambda text: None)


def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a `types.py`, which Python's own modules would get in place of theirs."""
    (tmp_path / "types.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert rows_of(*toy_items("good"))["toy/0-good"].error is None


@pytest.mark.parametrize(("width", "piece"), [(1, 1 << 20), (3, 1 << 20), (1000, 1 << 20), (1000, 7)])
def test_output_is_forwarded_in_whole_lines_without_stacks(
    width: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is read: no character is cut, and no part of a stack is shown."""
    monkeypatch.setattr(worker_processes, "PIECE", piece)
    written: list[bytes] = []
    text = 'Schritt 1: 5 µs\nöffnet\nFatal Python error: Aborted\n\n  File "a.py", line 1\nrest'.encode()
    executor = WorkerProcesses(ToyWork(), 1, written.append)
    try:
        (slot,) = executor._slots
        for begin in range(0, len(text), width):
            with slot.errors.open("ab") as file:
                file.write(text[begin : begin + width])
            executor._pass_on(slot, ended=begin + width >= len(text))
    finally:
        executor.close()
    for part in written:
        part.decode("utf-8")
    assert b"".join(written).decode() == "Schritt 1: 5 µs\nöffnet\n"


OURS = Trouble("rope", "samebits itself raised OSError", 3)


@pytest.mark.parametrize(
    ("event", "used", "unusable"),
    [
        (OURS, False, None),
        (OURS, True, Unusable("exit", "rope: samebits itself raised OSError")),
        (Trouble("rope", "has no variant 'fast'", 2), True, None),
        (Finished("rope/1", ()), True, None),
        (Started("rope/1"), True, None),
    ],
)
def test_when_a_process_ends_itself(
    event: Event, used: bool, unusable: Unusable | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes._WORKER, "used", used)
    assert worker_processes._unusable(event) == unusable


def test_a_failed_device_ends_it_after_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "device_failure", lambda: "device cuda:0 failed")
    assert worker_processes._unusable(Finished("rope/1", ())) == Unusable("device", "device cuda:0 failed")
    assert worker_processes._unusable(Started("rope/1")) is None
