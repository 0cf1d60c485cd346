"""The real driver and journal over a simulated cluster: whatever is lost, each item is done once, and all are."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.engine import drive as drive_module
from samebits.engine.drive import NODE_LOSSES, Done, Limits, drive
from samebits.engine.journal import Journal, JournalHead, read_journal
from samebits.engine.work import Ended, Event, Finished, Item
from samebits.schema.finding import Finding
from tests.support.child import ROOT, run_python
from tests.support.simulated_cluster import MEMORY, Behaviour, SimulatedCluster, SimulatedWork, items_of

LIMITS = Limits(seconds=1000.0, bytes=MEMORY)
KINDS = {"crashes": "signal", "hangs": "timeout", "greedy": "memory"}
"""What the row of a culprit begins with."""

behaviours = st.builds(
    Behaviour,
    crashes=st.sampled_from((0.0, 0.02, 0.2)),
    hangs=st.sampled_from((0.0, 0.02, 0.2)),
    greedy=st.sampled_from((0.0, 0.02, 0.2)),
    straggles=st.sampled_from((0.0, 0.02)),
    repeated=st.sampled_from((0.0, 0.3)),
    late=st.sampled_from((0.0, 1.0)),
    node_losses=st.sampled_from((0.0, 10.0, 100.0)),
)


def run(
    count: int, behaviour: Behaviour, cluster: SimulatedCluster, seed: int
) -> tuple[list[Done[Finding]], SimulatedCluster]:
    items = items_of(count, behaviour, seed)
    done = drive(
        SimulatedWork(),
        items,
        cluster,
        limits=LIMITS,
        on_problem=lambda problem: pytest.fail(str(problem)),
        clock=cluster.clock,
    )
    return list(done), cluster


def wrong(
    count: int, behaviour: Behaviour, seed: int, done: list[Done[Finding]], cluster: SimulatedCluster
) -> list[str]:
    """What does not hold of a run: one line per item that is missing, done twice, or has another row than its own."""
    lines = []
    times = Counter(row.item.key for row in done)
    for item in items_of(count, behaviour, seed):
        if times[item.key] != 1:
            lines.append(f"{item.key}: done {times[item.key]} times")
    for row in done:
        fate, reason = row.item.payload.fate, row.rows[0].ruling.reason or ""
        nodes = cluster.lost_with_node.get(row.item.key, 0)
        excused = reason.startswith("node: ") and nodes > NODE_LOSSES
        late = behaviour.late > 0 and not row.lost  # it was ended, and said afterwards that it had finished
        if row.rows[0].place.leaf != row.item.key:
            lines.append(f"{row.item.key}: has the row of {row.rows[0].place.leaf}")
        elif fate == "honest" and row.lost and not excused:
            lines.append(f"{row.item.key}: honest, and lost: {reason}")
        elif fate != "honest" and not (reason.startswith(f"{KINDS[fate]}: ") or excused or late):
            lines.append(f"{row.item.key}: {fate}, and its row says '{reason}'")
    return lines


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 150),
    slots=st.integers(1, 40),
    nodes=st.integers(1, 10),
    behaviour=behaviours,
    seed=st.integers(0, 10**6),
)
def test_each_item_is_done_once(count: int, slots: int, nodes: int, behaviour: Behaviour, seed: int) -> None:
    done, cluster = run(count, behaviour, SimulatedCluster(slots, nodes, behaviour, seed + 1), seed)
    assert wrong(count, behaviour, seed, done, cluster) == []


ROUGH = Behaviour(crashes=0.01, hangs=0.005, greedy=0.005, straggles=0.01, repeated=0.1, late=0.5, node_losses=20.0)


def test_a_thousand_workers_with_losses_and_stragglers(tmp_path: Path) -> None:
    """The journal holds what the run gave, and a run that goes on from any part of it has nothing to do twice."""
    path = tmp_path / "run.journal"
    done, cluster = run(2000, ROUGH, SimulatedCluster(1000, 100, ROUGH, 8), 7)
    assert wrong(2000, ROUGH, 7, done, cluster) == []
    assert cluster.lost_with_node and {row.item.payload.fate for row in done if row.lost} >= set(KINDS)
    journal = Journal(path, JournalHead(command="check", request={}), resume=False)
    for row in done:
        journal.add(row.item.key, "sign", row.encoded)
    journal.close(remove=False)
    entries = read_journal(path).entries
    assert {key: [msgspec.json.decode(row, type=Finding) for row in entry.rows] for key, entry in entries.items()} == {
        row.item.key: list(row.rows) for row in done
    }


News = Iterator[tuple[int, Event | Ended]]


class Forgetful(SimulatedCluster):
    """Planted: news of one item is lost, and its process ends as if all was well."""

    def events(self, seconds: float) -> News:
        """Without the end of one item."""
        for number, event in super().events(seconds):
            if not (isinstance(event, Finished) and event.key == "pair0/3"):
                yield number, event


class Swapping(SimulatedCluster):
    """Planted: an item is reported with the row of another one."""

    def events(self, seconds: float) -> News:
        """With another name for one item."""
        for number, event in super().events(seconds):
            swapped = isinstance(event, Finished) and event.key == "pair0/0"
            yield number, Finished("pair0/7", event.rows) if isinstance(event, Finished) and swapped else event


class Recording(SimulatedCluster):
    """Notes down how often the end of each chunk is reported."""

    def events(self, seconds: float) -> News:
        """As they are."""
        for number, event in super().events(seconds):
            if isinstance(event, Ended):
                self.__dict__.setdefault("ends", Counter())[number] += 1
            yield number, event


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Forgetful, "pair0/3: honest, and lost: exit: its process ended (its chunk ended without a result of it)"),
        (Swapping, "pair0/7: has the row of pair0/0"),
    ],
)
def test_a_cluster_that_loses_or_swaps_results_is_found(kind: type[SimulatedCluster], line: str) -> None:
    calm = Behaviour()
    done, cluster = run(8, calm, kind(2, 1, calm, 4), 3)
    assert any(text.startswith(line) for text in wrong(8, calm, 3, done, cluster))


def test_a_chunk_whose_end_is_reported_twice() -> None:
    """The second report is of a chunk of which the driver knows nothing any more."""
    repeating = Behaviour(repeated=1.0)
    cluster = Recording(2, 1, repeating, 4)
    done, _ = run(8, repeating, cluster, 3)
    assert wrong(8, repeating, 3, done, cluster) == []
    assert set(vars(cluster)["ends"].values()) == {2}


# --- nothing grows faster than the number of points ------------------------------------------------------------------

SHORT = Behaviour(crashes=0.01, straggles=0.01, repeated=0.1, node_losses=20.0)


def lines_run(count: int) -> int:
    """How many lines of the driver run for a sweep of so many points: what a clock would say, without one."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in (drive_module.__file__, __file__):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(count, SHORT, SimulatedCluster(20, 4, SHORT, 8), 7)
    finally:
        sys.settrace(before)
    return lines


def grows_linearly() -> bool:
    """Whether eight times the points take at most ten times the lines; a scan of all points would take 64 times."""
    return lines_run(400) < 10 * lines_run(50)


def test_the_driver_does_not_look_at_everything_again() -> None:
    assert grows_linearly()


@pytest.mark.slow
def test_a_driver_that_looks_at_everything_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = drive_module._Drive._wanted

    def rescanning(self: Any, item: Item) -> bool:
        for key in self.items:
            if key == item.key:
                break
        return honest(self, item)

    monkeypatch.setattr(drive_module._Drive, "_wanted", rescanning)
    assert not grows_linearly()


def test_the_journal_grows_with_the_points(tmp_path: Path) -> None:
    sizes = []
    for count in (100, 800):
        done, _ = run(count, SHORT, SimulatedCluster(20, 4, SHORT, 8), 7)
        path = tmp_path / str(count)
        journal = Journal(path, JournalHead(command="check", request={}), resume=False)
        for row in done:
            journal.add(row.item.key, None, row.encoded)
        journal.close(remove=False)
        sizes.append(path.stat().st_size / count)
    assert sizes[1] < 1.1 * sizes[0]


@pytest.mark.slow
def test_the_benchmark_prints_its_table(tmp_path: Path) -> None:
    done = run_python(str(ROOT / "benchmarks/simulation.py"), "--points", "60,240", "--workers", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _, head, _, first, second, power = done.stdout.splitlines()
    assert head.startswith("| points | journal B | driver us |")
    assert first.startswith("| 60 | ") and second.startswith("| 240 | ")
    assert 0.8 < float(power.split("|")[2]) < 1.2  # of the journal
