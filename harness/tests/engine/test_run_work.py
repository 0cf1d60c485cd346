"""What is known is not run again; what a journal holds counts only under the same cache key; a killed run goes on."""

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest

from samebits.cluster import ray_cluster, ray_connection
from samebits.engine.drive import Done
from samebits.engine.journal import Journal, JournalHead
from samebits.engine.ray_request import ray_request
from samebits.engine.run_work import (
    Dependencies,
    EngineSettings,
    Recalled,
    SourceMemory,
    executor_of,
    run_work,
    usual_settings,
)
from samebits.engine.work import Item, Shard
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, raw, toy_items
from tests.support.child import run_python

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
