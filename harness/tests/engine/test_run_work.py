"""What is known is not run again; what a journal holds counts only under the same cache key; a killed run goes on."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.cluster import ray_cluster, ray_connection
from samebits.cluster.process_group import Board, ProcessGroup
from samebits.engine.drive import Done, Limits, drive
from samebits.engine.journal import Journal, JournalHead
from samebits.engine.ray_request import ray_request
from samebits.engine.run_work import (
    Dependencies,
    EngineSettings,
    InProcess,
    Recalled,
    SourceMemory,
    executor_of,
    run_work,
    usual_settings,
)
from samebits.engine.work import Item, Shard
from samebits.errors import CouldNotRun
from samebits.host.file_reads import FILE, MEANWHILE, OUTSIDE
from samebits.host.group import RunEnded
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, raw, toy_items
from tests.host.reading import reads_of
from tests.support import failing_device
from tests.support.child import run_python
from tests.support.foreign import write_pair

HEAD = JournalHead(command="check", request={})
SETTINGS = EngineSettings(in_process=True)


class ToyStore(SourceMemory):
    """Remembers in a dictionary; its rows rest on a table."""

    table = "1"

    def __init__(self, version: str = "1", *, fresh: bool = False) -> None:
        self.version, self.fresh = version, fresh
        self.rows: dict[str, tuple[msgspec.Raw, ...]] = {}

    def cache_key(self, item: Item) -> str:
        """The key and a version of the sources."""
        return f"{item.key} {self.version}"

    def recall(self, item: Item, cache_key: str) -> Recalled | None:
        """The rows; none with `--fresh`."""
        if self.fresh or cache_key not in self.rows:
            return None
        return Recalled(self.rows[cache_key], (("file:table", "1"),))

    def remember(self, cache_key: str, done: Done[ToyRow]) -> Dependencies | None:
        """Remember, but what was lost, and what `unsigned` gives, which holds for its own run alone."""
        self.rows.pop(cache_key, None)
        if done.lost or done.item.payload == "unsigned":
            return None
        self.rows[cache_key] = done.encoded
        return (("file:table", self.table),)

    def holds(self, dependencies: Dependencies) -> bool:
        """Whether the table is as it was."""
        return all(state == self.table for _, state in dependencies)


class Counted(ToyWork):
    """Counts what it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def run(self, items, ahead):  # type: ignore[no-untyped-def]
        """As its parent."""
        self.ran += [item.key for item in items]
        yield from super().run(items, ahead)


def _run(
    items: list[Item], journal: Journal | None, store: SourceMemory | None, settings: EngineSettings = SETTINGS
) -> tuple[list[Done[ToyRow]], list[str]]:
    work = Counted()
    done = list(run_work(work, items, settings, on_problem=_no_problem, journal=journal, store=store))
    if journal is not None:
        journal.close(remove=False)
    return done, work.ran


def test_what_is_remembered_is_not_run_again() -> None:
    items, store = toy_items("good", "print", "unsigned"), ToyStore()
    first, ran = _run(items, None, store)
    assert len(ran) == 3
    second, ran = _run(items, None, store)
    assert ran == [items[2].key]
    assert {done.item.key: done.rows for done in first} == {done.item.key: done.rows for done in second}
    store.version = "2"
    assert len(_run(items, None, store)[1]) == 3, "what has changed runs again"


def test_a_journal_counts_only_under_the_same_key(tmp_path: Path) -> None:
    items = toy_items("good", "good", "unsigned")
    _run(items[:1] + items[2:], Journal(tmp_path / "j", HEAD, resume=False), ToyStore())
    journal = Journal(tmp_path / "j", HEAD, resume=True)
    _, ran = _run(items, journal, ToyStore())
    assert ran == [items[1].key, items[2].key] and (journal.taken, len(journal.before.entries)) == (1, 2)
    journal = Journal(tmp_path / "j", HEAD, resume=True)
    _, ran = _run(items, journal, ToyStore("2"))
    assert len(ran) == 3 and journal.taken == 0
    _, ran = _run(items, Journal(tmp_path / "j", HEAD, resume=False), ToyStore())
    assert len(ran) == 3, "without --resume it begins anew"


def test_remembered_rows_are_in_the_journal_too(tmp_path: Path) -> None:
    items, store = toy_items("good", "good"), ToyStore()
    store.rows[f"{items[0].key} 1"] = (raw(ToyRow(key=items[0].key)),)
    _run(items, Journal(tmp_path / "j", HEAD, resume=False), store)
    _, ran = _run(items, Journal(tmp_path / "j", HEAD, resume=True), ToyStore())
    assert ran == []


def test_what_remembered_rows_rest_on_is_in_the_journal_too(tmp_path: Path) -> None:
    """A table that was edited since: the rows are stale, whether they came from a run or from the memory."""
    items, store = toy_items("good"), ToyStore()
    store.rows[f"{items[0].key} 1"] = (raw(ToyRow(key=items[0].key)),)
    _run(items, Journal(tmp_path / "j", HEAD, resume=False), store)
    again = ToyStore()
    _, ran = _run(items, Journal(tmp_path / "j", HEAD, resume=True), again)
    assert ran == []
    again.table = "2"
    _, ran = _run(items, Journal(tmp_path / "j", HEAD, resume=True), again)
    assert ran == [items[0].key]


def test_a_lost_item_is_neither_remembered_nor_resumed(tmp_path: Path) -> None:
    items, store = toy_items("exit 3", "good"), ToyStore()  # the first of its process: it is not tried again
    settings = usual_settings(workers=1, seconds=60, limit=None)
    for _ in range(2):
        journal = Journal(tmp_path / "j", HEAD, resume=True)
        work = ToyWork()
        done = list(run_work(work, items, settings, on_problem=_no_problem, journal=journal, store=store))
        journal.close(remove=False)
        assert {one.item.payload: one.lost for one in done} == {"good": False, "exit 3": True}
    assert len(store.rows) == 1


def test_a_lost_item_removes_what_was_remembered() -> None:
    """Its process may have ended by what no cache key has; the next run is to look again."""
    items, store = toy_items("exit 3"), ToyStore(fresh=True)
    store.rows[f"{items[0].key} 1"] = (raw(ToyRow(key=items[0].key)),)
    settings = usual_settings(workers=1, seconds=60, limit=None)
    (done,) = run_work(ToyWork(), items, settings, on_problem=_no_problem, store=store)
    assert (done.lost, store.rows) == (True, {})


def test_a_shard_runs_its_own_items_alone() -> None:
    items = [*toy_items("good", pair="a"), *toy_items("good", pair="b")]
    _, ran = _run(items, None, None, EngineSettings(in_process=True, shard=Shard(2, 2)))
    assert ran == [items[1].key]


@pytest.mark.parametrize("kills", [50])
def test_a_run_killed_at_random_moments_goes_on(tmp_path: Path, kills: int) -> None:
    ran = run_python("-m", "tests.engine.resumed_runs", str(tmp_path / "j"), str(kills))
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["killed"] >= kills // 2 and said["resumed"] > 20
    assert said["same"] and said["grew"]


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)


def test_nodes_of_a_cluster_know_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end an item that takes too long, and say where it was; a driver that ends the task never learns it."""
    received: list[tuple[object, ...]] = []
    monkeypatch.setattr(ray_connection, "connect", lambda request: request)
    monkeypatch.setattr(ray_cluster, "RayExecutor", lambda *arguments: received.append(arguments))
    settings = dataclasses.replace(usual_settings(workers=1, seconds=7, limit=None), ray=ray_request("local", ()))
    executor_of(ToyWork(), 1, settings)
    ((_, request, _, seconds),) = received
    assert (request, seconds) == (settings.ray, 7)


def in_small_chunks(ahead: int = 0) -> ToyWork:
    """A work of which a few items are several chunks, as hundreds are of others."""
    work = ToyWork(ahead=ahead)
    work.chunk = 2
    return work


def test_all_items_run_in_order() -> None:
    work, items = in_small_chunks(ahead=2), toy_items(*["good"] * 7)
    done = list(drive(work, items, InProcess(work), limits=Limits(), on_problem=_no_problem))
    assert [one.rows for one in done] == [(ToyRow(key=item.key, value=len(item.key)),) for item in items]


def test_a_pair_that_cannot_run_is_a_problem_once() -> None:
    work, problems = in_small_chunks(), list[Problem]()
    items = [*toy_items(*["trouble"] * 7, pair="bad"), *toy_items("good", pair="fine")]
    done = list(drive(work, items, InProcess(work), limits=Limits(), on_problem=problems.append))
    assert [one.item.pair for one in done] == ["fine"]
    assert problems == [Problem(pair="bad", message="cannot be declared", exit_code=2)]


def test_a_failed_device_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the rows of the item count: they would be taken for good when the run is resumed."""
    failing_device.mend_after(monkeypatch)
    work, done = ToyWork(), list[Done[ToyRow]]()
    items = toy_items("good", "device", "good")
    with pytest.raises(CouldNotRun, match=r"^item 1: device .* failed: .*; it and what comes after need a new process"):
        done.extend(drive(work, items, InProcess(work), limits=Limits(), on_problem=_no_problem))
    assert [one.item for one in done] == items[:1]


def test_what_was_traced_ahead_may_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_device.mend_after(monkeypatch)
    work = ToyWork(ahead=1)
    with pytest.raises(CouldNotRun, match=r"^item 0 \(or what was traced ahead, from item 1 on\): device "):
        list(drive(work, toy_items("device", "good"), InProcess(work), limits=Limits(), on_problem=_no_problem))


def test_of_several_processes_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a process is gone: process 0 reports what it has."""
    failing_device.mend_after(monkeypatch)
    board = Board(2)
    group = ProcessGroup(1, 2, board)
    executor = InProcess(ToyWork(), group)
    try:
        with pytest.raises(RunEnded, match=r"^process 1: item 0: device .* failed: ") as ended:
            list(drive(ToyWork(), toy_items("device"), executor, limits=Limits(), on_problem=_no_problem))
    finally:
        group.close()
    assert board.ended() == str(ended.value), "the others are told, and name the device too"


ITEM = Item(key="a", pair="a", words="a", replay="", group=0, payload=None)


def _key(tree: Path, request: str = "r") -> str:
    return SourceMemory([tree], {"request": request}).cache_key(ITEM)


def test_an_edit_anywhere_in_the_tree_is_another_key(tmp_path: Path) -> None:
    """Of an implementation, and of a module that it may import; hidden and installed files do not count."""
    write_pair(tmp_path, "good")
    (tmp_path / "src").mkdir()
    module = tmp_path / "src" / "helper.py"
    module.write_text("FACTOR = 2\n")
    before = _key(tmp_path)
    for folder in (".hidden", "site-packages", "venv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "other.py").write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert _key(tmp_path) == before
    module.write_text("FACTOR = 3\n")
    edited = _key(tmp_path)
    assert edited != before
    (tmp_path / "optimized_impls" / "good.py").write_text("def fast(x):\n    return x * 2\n")
    assert _key(tmp_path) not in (before, edited)


def test_request_item_and_settings_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _key(tmp_path)
    assert _key(tmp_path) == before != _key(tmp_path, "another")
    other = Item(key="b", pair="a", words="a", replay="", group=0, payload=None)
    assert SourceMemory([tmp_path], {"request": "r"}).cache_key(other) != before
    monkeypatch.setenv("XLA_FLAGS", "--xla_none=1")
    assert _key(tmp_path) != before


def test_what_was_read_must_be_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data, but no source of the tree, which the cache key has."""
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "table").write_text("1")
    reads_of(monkeypatch)
    reads = tuple(f"{FILE}{tmp_path / name}" for name in ("helper.py", "table"))
    memory = SourceMemory([tmp_path], {})
    done: Done[Any] = Done(ITEM, (), (), (*reads, f"{OUTSIDE}starts another program"))
    dependencies = memory.remember(memory.cache_key(ITEM), done)
    assert dependencies is not None and reads[1] in dict(dependencies) and reads[0] not in dict(dependencies)
    assert not any(read.startswith(OUTSIDE) for read, _ in dependencies)
    removed = replace(done, reads=(f"{OUTSIDE}reads {tmp_path / 'table'}, which {MEANWHILE}",))
    assert memory.remember(memory.cache_key(ITEM), removed) is None
    assert SourceMemory([tmp_path], {}).holds(dependencies)
    (tmp_path / "table").write_text("2")
    assert not SourceMemory([tmp_path], {}).holds(dependencies)
    assert memory.remember(memory.cache_key(ITEM), done) is None, "it changed while it ran"


def test_nothing_is_remembered_between_runs(tmp_path: Path) -> None:
    """The journal alone has rows."""
    memory = SourceMemory([tmp_path], {})
    assert memory.recall(ITEM, memory.cache_key(ITEM)) is None
