"""What is remembered is what a fresh run would find, for as long as nothing that it rests on has changed."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.check.point_memory import rememberable
from samebits.engine.check_work import check_items
from samebits.engine.drive import Done
from samebits.engine.run_work import EngineSettings
from samebits.engine.verdict_cache import VerdictCache, shared_entries, sweep
from samebits.errors import RequestError
from samebits.host import file_reads, process_sources
from samebits.host.entry_store import EntryStore
from samebits.host.file_reads import FILE, OUTSIDE, READS
from samebits.host.isolation import note, take_notes
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.schema.finding import Finding
from samebits.schema.point import USUAL
from tests.engine.loaded_pairs import environment, installed_once
from tests.host.reading import reads_of
from tests.support.documents import different, result
from tests.support.findings import changed
from tests.support.rope_tree import OPTIMIZED, REFERENCE, write_tree

HERE = EngineSettings(in_process=True)


@pytest.fixture(autouse=True, scope="module")
def _installed_once() -> Iterator[None]:
    with installed_once("own_digest", "distributions_digest"):  # no test of this file changes what is installed
        yield


@pytest.fixture(autouse=True)
def _no_notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    reads_of(monkeypatch)  # after pytest has listed the folder in which it makes that of a test
    for module in (process_sources, file_reads):  # those of other tests pass on the environment
        monkeypatch.setattr(module, "loaded_files", set)
    yield
    take_notes()


TWO_POINTS = Request(variants=("paired",), directions=("forward",))  # one for each case


class BySources(VerdictCache):
    """Without what is known by programs."""

    memory = None


class Memory:
    """Runs of one tree, each with a memory as a process of its own would have."""

    def __init__(self, tree: Path, request: Request = TWO_POINTS) -> None:
        self.tree, self.request = tree, request
        self.ran: list[str] = []
        self.remarks: list[str] = []

    @property
    def item(self) -> LoadedPair:
        locator = Locator(name="rope", root=str(self.tree))
        pair = load(locator)
        return LoadedPair(locator=locator, pair=pair, plan=plan(pair, self.request, 8))

    def cache(self, *, fresh: bool = False) -> VerdictCache:
        entries = EntryStore(self.tree / ".verdicts")
        time.sleep(0.02)  # the clock of a file system moves in steps
        READS.begin()
        return BySources([self.tree], environment(), USUAL, [self.item], entries, fresh=fresh)

    def results(self, *, fresh: bool = False) -> list[Finding]:
        with contextlib.closing(self.cache(fresh=fresh)) as cache:
            problems: list[Any] = []
            results = list(sweep([self.item], on_problem=problems.append, settings=HERE, store=cache))
            assert not problems
            self.remarks = cache.remarks()
        return results


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(write_tree(tmp_path))


def timeless(results: list[Finding]) -> list[Finding]:
    return [changed(one, seconds=0.0, remembered=None) for one in results]


def remembered(results: list[Finding]) -> int:
    return sum(one.run.remembered is not None for one in results)


def test_a_second_run_remembers_the_same_results(memory: Memory) -> None:
    first, second = memory.results(), memory.results()
    assert (remembered(first), remembered(second)) == (0, len(first))
    assert timeless(first) == timeless(second)
    assert [one.seconds for one in first] == [one.seconds for one in second]
    assert memory.remarks == []


@pytest.mark.slow
def test_fresh_runs_again_and_renews(memory: Memory) -> None:
    memory.results()
    assert remembered(memory.results(fresh=True)) == 0
    assert remembered(memory.results()) > 0


def test_an_edit_of_a_source_is_run(memory: Memory) -> None:
    memory.results()
    path = memory.tree / "optimized_impls" / "rope.py"
    path.write_text(OPTIMIZED + "\n")
    assert remembered(memory.results()) == 0


def test_an_edit_while_it_runs_is_said(memory: Memory) -> None:
    path = memory.tree / "optimized_impls" / "rope.py"
    with contextlib.closing(memory.cache()) as cache:
        path.write_text(OPTIMIZED + "\n")
        assert list(sweep([memory.item], on_problem=lambda problem: None, settings=HERE, store=cache))
        assert cache.remarks() == [f"rope: its results are not remembered: {path} changed while it ran"]
    path.write_text(OPTIMIZED)
    assert remembered(memory.results()) == 0


def with_table(tree: Path, line: str) -> Path:
    """A reference that reads its base from a file when it is called."""
    table = tree / "table.txt"
    table.write_text("1.0")
    path = tree / "reference_impls" / "rope.py"
    # Not read here: to this process it would be a file that changed after it was first opened.
    path.write_text(REFERENCE.replace("    first, second", f"    {line}\n    first, second", 1))
    return table


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "line",
    ["from pathlib import Path; base = base * float(Path({table!r}).read_text())", "import os; os.listdir({folder!r})"],
)
def test_an_edit_of_what_is_read_while_it_runs(tmp_path: Path, line: str) -> None:
    tree = write_tree(tmp_path / "tree")
    folder = tree / "folder"
    folder.mkdir()
    table = with_table(tree, line.format(table=str(tree / "table.txt"), folder=str(folder)))
    memory = Memory(tree)
    first = memory.results()
    assert memory.remarks == []
    assert remembered(memory.results()) == len(first), first
    table.write_text("2.0")
    (folder / "new").write_text("")
    assert remembered(memory.results()) == 0


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("SCALE = 2\n", True),
        ("import os\nS = os.environ['S_OF_ROPE']\n", False),
        ("import os\nALL = dict(os.environ)\n", False),
    ],
)
def test_a_source_found_while_it_ran(text: str, counts: bool, memory: Memory, tmp_path: Path) -> None:
    """As by a worker process whose code extends the path: its content counts; no key has variables that it reads."""
    path = tmp_path.parent / f"{tmp_path.name}-late.py"
    path.write_text(text)
    with contextlib.closing(memory.cache()) as cache:
        (item, *_) = check_items([memory.item])
        own = f"{FILE}{memory.tree / 'optimized_impls' / 'rope.py'}"
        states = cache.remember(cache.cache_key(item), Done(item, (), (), reads=(own, f"{FILE}{path}")))
        assert cache.remarks() == []
        assert [read for read, _ in states or ()] == [f"{FILE}{path}"] * counts, "what the key has is left to it"
    with contextlib.closing(memory.cache()) as cache:
        assert cache.holds(states or ())
        path.write_text("SCALE = 3\n")
    with contextlib.closing(memory.cache()) as cache:
        assert cache.holds(states or ()) != counts


def test_what_cannot_be_compared_is_left_to_programs(memory: Memory) -> None:
    with_table(memory.tree, "import subprocess; subprocess.run(['true'])")
    memory.results()
    assert memory.remarks == []
    assert remembered(memory.results()) == 0


def test_what_programs_call_is_said(memory: Memory) -> None:
    (item, *_) = check_items([memory.item])
    with contextlib.closing(memory.cache()) as cache:
        reads = (f"{OUTSIDE}calls: calls back into Python",)
        assert cache.remember(cache.cache_key(item), Done(item, (), (), reads=reads)) is None
        assert cache.remarks() == ["rope: its results are not remembered: it calls back into Python"]


def test_an_edit_while_it_runs_is_seen_at_the_end(memory: Memory) -> None:
    """However short before the end: what ran may be of the old text or of the new one."""
    with contextlib.closing(memory.cache()) as cache:
        assert list(sweep([memory.item], on_problem=lambda problem: None, settings=HERE, store=cache))
        (memory.tree / "reference_impls" / "rope.py").write_text(REFERENCE + "\n")
    (memory.tree / "reference_impls" / "rope.py").write_text(REFERENCE)
    assert remembered(memory.results()) == 0


@pytest.mark.slow
def test_what_the_user_was_told_is_told_again(memory: Memory) -> None:
    memory.results()
    take_notes()
    cache = memory.cache()
    (item, *_) = check_items([memory.item])
    assert cache.recall(item, cache.cache_key(item))
    note("pair 'rope': a remark")
    note("pair 'ropes': of another pair")
    note("pair 'rope': what happened in one run", lasting=False)
    cache.close()
    take_notes()
    memory.results()
    assert take_notes() == ["pair 'rope': a remark"]


def test_a_damaged_entry_is_run(tmp_path: Path) -> None:
    memory = Memory(write_tree(tmp_path), Request())  # of more points than there are damages
    first = memory.results()
    cache = memory.cache()
    cache_keys = [cache.cache_key(item) for item in check_items([memory.item])]
    assert cache.entries is not None
    for cache_key, damage in zip(
        cache_keys, (b"{", b"[]", b'{"executed": 3}', b'{"executed": "", "rows": 1}'), strict=False
    ):
        cache.entries.put(cache_key, damage)
    cache.close()
    second = memory.results()
    assert 0 < remembered(second) < len(second)
    by_place = {
        (one.place.variant, one.place.case, one.place.direction, one.place.mode, one.place.leaf): one for one in first
    }
    for one in second:
        assert timeless([one]) == timeless(
            [by_place[one.place.variant, one.place.case, one.place.direction, one.place.mode, one.place.leaf]]
        )


@pytest.mark.parametrize(
    ("row", "is_remembered"),
    [
        (result(), True),
        (result(verdict="rounding", required="rounding"), True),
        (result(verdict="refused", required="refused"), True),
        (result(verdict="skipped", ok=False), True),
        (different(ok=True, exempt=True), True),
        (different(), False),
        (result(verdict="error", ok=False), False),
        (result(verdict="error", ok=True, exempt=True), False),
        (result(verdict="unstable", ok=False), False),
        (result(verdict="unstable", ok=True, exempt=True), False),
        (result(verdict="rounding", required="bitwise", ok=False), False),
    ],
)
def test_what_fails_or_may_change_is_run_again(row: Finding, is_remembered: bool) -> None:
    assert rememberable(row) == is_remembered


@pytest.mark.slow
def test_the_audit_rests_on_the_very_results(memory: Memory) -> None:
    from samebits.check.contract_audit import DeclarationAudit
    from samebits.schema.result import Problem

    audit = DeclarationAudit(["a note"], [Problem(pair="rope", message="wrong", exit_code=2)], 3)
    results = memory.results()
    cache = memory.cache()
    cache.remember_audit(memory.item, results, audit)
    assert cache.recall_audit(memory.item, results) is None  # nothing was recalled yet that it could rest on
    for item in check_items([memory.item]):
        assert cache.recall(item, cache.cache_key(item)) is not None
    cache.remember_audit(memory.item, results, audit)
    assert cache.recall_audit(memory.item, results) == audit
    assert cache.recall_audit(memory.item, results[:-1]) is None
    cache.close()


def stored(memory: Memory, rows: Sequence[Finding], *, lost: bool = False) -> list[str]:
    """The remarks of a run that stores rows of the first point as found now; whether it is recalled is checked."""
    item = check_items([memory.item])[0]
    with contextlib.closing(memory.cache(fresh=True)) as cache:
        cache_key = cache.cache_key(item)
        encoded = tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows)
        cache.remember(cache_key, Done(item, tuple(rows), encoded, lost=lost))
        remarks = cache.remarks()
    return remarks


def is_recalled(memory: Memory) -> bool:
    item = check_items([memory.item])[0]
    with contextlib.closing(memory.cache()) as cache:
        return cache.recall(item, cache.cache_key(item)) is not None


@pytest.mark.parametrize(("row", "remarked"), [(different(), 1), (result(verdict="error", ok=False), 0)])
def test_what_fails_removes_what_was_remembered(row: Finding, remarked: int, memory: Memory) -> None:
    """What decides may be invisible to the key, as with `os.path.exists`: the next run must not be green by it."""
    assert stored(memory, [result()]) == [] and is_recalled(memory)
    remarks = stored(memory, [result(), row])
    assert len(remarks) == remarked, remarks
    assert all("rope" in remark and "cannot be seen" in remark for remark in remarks)
    assert not is_recalled(memory)
    assert stored(memory, [row]) == [], "nothing was remembered that it contradicts"


def test_a_lost_point_removes_what_was_remembered(memory: Memory) -> None:
    assert stored(memory, [result()]) == [] and is_recalled(memory)
    assert stored(memory, [], lost=True) == []
    assert not is_recalled(memory)


def test_no_space_means_no_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path))
    assert shared_entries() is None
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("SAMEBITS_CACHE_LIMIT", "10MB")
    entries = shared_entries()
    assert entries is not None
    assert (entries.folder, entries.limit) == (tmp_path / "verdicts", 10_000_000)
    monkeypatch.setenv("SAMEBITS_CACHE_LIMIT", "much")
    with pytest.raises(RequestError, match="SAMEBITS_CACHE_LIMIT: 'much' is not a size; expected 0, or a number"):
        shared_entries()
