"""The points of `samebits prove` as work: any process proves any of them, and their page counts every leaf."""

import importlib.util
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from samebits import Arg, Case, Pair
from samebits.check.line_evidence import POINTS, few_lines
from samebits.check.prove_points import prove_points
from samebits.engine.drive import Limits, drive
from samebits.engine.prove_work import ProveWork, prove_items
from samebits.engine.work import (
    Chunk,
    Ended,
    Event,
    Executor,
    Finished,
    Item,
    ProcessExit,
    Reached,
    Remark,
    Started,
    Trouble,
    UserTraceback,
)
from samebits.host.environment import capture
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.report.prove import ProofDocument
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference
from samebits.sizes.points import prove_sizes
from tests.support.findings import changed, finding
from tests.support.foreign import AXES, PLANTED, write_pair
from tests.support.invoke import REPOSITORY

CASES = AXES.replace(
    'cases=(Case(id="small", sizes={"rows": 4}),)',
    f'cases=tuple(Case(id=f"of{{n}}", sizes={{"rows": n}}) for n in range(2, {2 * POINTS + 6}, 2))',
)


def _loaded(tree: Path, *names: str) -> list[LoadedPair]:
    locators = [Locator(name=name, root=str(tree)) for name in names]
    pairs = [(locator, load(locator)) for locator in locators]
    return [LoadedPair(locator=locator, pair=pair, plan=plan(pair, Request(), 8)) for locator, pair in pairs]


def _timeless(results: Sequence[Finding]) -> list[Finding]:
    return [replace(result, seconds=0.0) for result in results]


def _run(work: ProveWork, items: Sequence[Item]) -> tuple[list[Finding], list[Any]]:
    """The rows of a plain loop over items, and the other events."""
    events = list(work.run(items, 0))
    rows = [row for event in events if isinstance(event, Finished) for row in event.rows]
    others = [event for event in events if not isinstance(event, Finished)]
    return [msgspec.json.decode(row, type=Finding) for row in rows], others


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A pair that holds, and one that is refuted at more points than lines are named for."""
    write_pair(tmp_path, "good")
    write_pair(tmp_path, "planted", optimized=PLANTED, axes=CASES)
    return tmp_path


@pytest.mark.slow
def test_chunks_of_one_give_the_document_of_one_process(tree: Path) -> None:
    """Also the lines of refuted leaves, which each process names for the first points that it meets."""
    loaded = _loaded(tree, "good", "planted")
    alone = [row for item in loaded for row in prove_points(item.pair, item.locator, item.plan, "cpu")]
    items = prove_items(loaded)
    work = pickle.loads(pickle.dumps(ProveWork("cpu")))
    rows = [row for item in items for row in _run(work, [item])[0]]
    work.close()
    assert sum(bool(row.named.lines) for row in rows) > sum(bool(row.named.lines) for row in alone) > 0
    assert _timeless(few_lines(rows)) == _timeless(alone)


def test_what_happens_is_told_in_order(tree: Path) -> None:
    """An item begins, reaches its stage, and ends with its rows."""
    items = prove_items(_loaded(tree, "good"))
    assert len({item.key for item in items}) == len(items)
    assert items[0].replay.startswith("samebits prove good --variant ")
    work = ProveWork("cpu")
    said = (Remark, UserTraceback)  # which tests before this one may have left
    events = [
        (type(event), getattr(event, "key", "")) for event in work.run(items[:2], 0) if not isinstance(event, said)
    ]
    work.close()
    assert events == [(kind, item.key) for item in items[:2] for kind in (Started, Reached, Finished)]


def test_a_wrong_declaration_ends_its_pair(tmp_path: Path) -> None:
    """One trouble, with the exit code of a wrong declaration, and no rows."""
    write_pair(tmp_path, "signature", optimized="def fast(x, scale):\n    return scale * x\n")
    items = [item for item in prove_items(_loaded(tmp_path, "signature")) if "/fast" in item.key]
    work = ProveWork("cpu")
    rows, others = _run(work, items)
    work.close()
    (trouble,) = [event for event in others if isinstance(event, Trouble)]
    assert rows == [] and (trouble.pair, trouble.exit_code) == ("signature", 2)
    assert "scale" in trouble.message


def test_a_lost_point_is_an_error_with_its_signal_and_stage(tree: Path) -> None:
    """It reaches no contract, and names the command that shows it again."""
    item = prove_items(_loaded(tree, "good"))[0]
    row = ProveWork("cpu").lost(item, ProcessExit(kind="signal", text="SIGSEGV"), "interpreting 'fast' on data2")
    assert (row.place.pair, row.ruling.verdict, row.ruling.ok, row.place.leaf, row.replay) == (
        "good",
        "error",
        False,
        "*",
        item.replay,
    )
    assert row.ruling.reason == "its process ended while interpreting 'fast' on data2: SIGSEGV"


def test_lines_are_left_to_the_first_points() -> None:
    """Per pair, variant and direction; a reason why none are named counts as well."""
    line = LineDifference(change="other", variant="b.py:1", reference="a.py:1")
    row = finding(
        "prove",
        variant="v",
        case="c",
        dtype="d",
        mesh="m",
        mode="auto",
        direction="forward",
        leaf="out",
        verdict="different",
        required="bitwise",
        ok=False,
    )
    rows = [changed(row, case=str(number), lines=(line,)) for number in range(POINTS + 2)]
    rows.insert(0, changed(row, case="none", no_lines="the search failed"))
    few = few_lines(rows)
    assert [bool(row.named.lines) for row in few] == [False, *[True] * (POINTS - 1), *[False] * 3]
    assert all("not for this one" in str(row.named.why) for row in few[POINTS:])
    assert few_lines([changed(row, direction="gradient") for row in rows])[0].named.why is not None


def test_points_for_all_sizes_are_given_out_by_the_variant(tree: Path) -> None:
    """All dtypes and meshes of a case together, in one process, since they share proofs that take seconds each."""
    loaded = _loaded(tree, "good", "planted")
    items = prove_items(loaded, all_sizes=True)
    assert sorted(item.key for item in items) == sorted(item.key for item in prove_items(loaded))
    for item in items:
        point = item.payload[2]
        assert item.group == (item.pair, point.case, point.variant)
    assert ProveWork("cpu", all_sizes=True).chunk < ProveWork("cpu").chunk


class Recorded(Executor):
    """Keeps the chunks that it is given, and does nothing with them."""

    slots = 2

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._new: list[int] = []

    def submit(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self._new.append(chunk.number)

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        numbers, self._new = self._new, []
        yield from ((number, Ended()) for number in numbers)

    def kill(self, number: int, loss: ProcessExit) -> None:
        raise AssertionError("nothing runs")

    def close(self) -> None:
        pass


def test_only_all_sizes_keep_a_large_group_whole(tree: Path) -> None:
    def of_a_group(all_sizes: bool) -> list[int]:
        items = prove_items(_loaded(tree, "planted"), all_sizes=all_sizes)
        many = [replace(item, key=f"{item.key} {n}") for n in range(50) for item in items]
        many.sort(key=lambda item: str(item.group))
        work, executor = pickle.loads(pickle.dumps(ProveWork("cpu", all_sizes=all_sizes))), Recorded()
        limits = Limits(seconds=60, bytes=None)
        assert len(list(drive(work, many, executor, limits=limits, on_problem=lambda _: None))) == len(many)
        assert len(executor.chunks) > 1
        return list(Counter(g for chunk in executor.chunks for g in {item.group for item in chunk.items}).values())

    assert set(of_a_group(all_sizes=True)) == {1}, "two processes would prove the same"
    assert max(of_a_group(all_sizes=False)) > 1


PAIR = Pair(
    name="doubled",
    reference=lambda x: (x * 2)[::-1],
    variants={
        "added": lambda x: x[::-1] + x[::-1],
        "looked_up": lambda x: {16: (x * 2)[::-1]}.get(x.shape[0], (x * 2)[::-1]),
    },
    args={"x": Arg(shape=("n",))},
    cases=(Case(id="small", sizes={"n": 6}),),
    dtypes=("float32",),
    meshes=("data1", "data2"),
    gradients=False,
)


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_all_sizes", REPOSITORY / "docs" / "make_all_sizes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_leaf_is_counted_and_every_reason_is_said(maker: ModuleType) -> None:
    proofs = list(prove_sizes(PAIR, Locator(name="doubled"), plan(PAIR, Request(full=True), 8)))
    assert len(proofs) == 4
    page = maker.page(ProofDocument(environment=capture(), results=tuple(proofs), problems=()))
    summary = next(line for line in page.splitlines() if line.startswith("| all "))
    assert sum(int(cell) for cell in summary.split("|")[2:-1] if cell.strip()) == len(proofs)
    shown, undecided = page.split("## What is undecided")
    assert "| doubled | added | out | small; float32 | same formulas" in shown.replace(", one program", "")
    assert "the hash of n" in undecided
    assert "looked\\_up" in undecided or "looked_up" in undecided
    refused = changed(proofs[0], verdict="refused")
    fewer = maker.page(ProofDocument(environment=capture(), results=(refused,), problems=()))
    assert "| all |  |  |  |  |  |" in fewer


def test_points_of_a_later_run_take_the_place_of_earlier_ones(maker: ModuleType) -> None:
    """The page names their pairs, and what an interrupted run did not come to."""
    proof = finding(
        "prove",
        pair="doubled",
        variant="added",
        case="small",
        dtype="float32",
        mesh="data1",
        mode="auto",
        direction="forward",
        leaf="out",
        verdict="error",
        required="rounding",
        ok=False,
        reason="took long",
    )
    kept = changed(proof, variant="looked_up", reason="asked once"), changed(proof, pair="other")
    first = ProofDocument(environment=capture(), results=(proof, *kept), problems=(), interrupted=True)
    second = ProofDocument(environment=capture(), results=(changed(proof, reason="no rule"),), problems=())
    page = maker.page(first, second)
    assert "of a later run than the others: doubled." in page
    assert "did not come to are not counted (activation_layout: " in page
    rows = [line for line in page.split("## What is undecided")[1].splitlines() if line.startswith("| doubled")]
    assert ["no rule" in row or "asked once" in row for row in rows] == [True, True]
    assert "took long" not in "".join(rows) and "| all |  |  |  |  | 3 |" in page
    assert "| other | added |" in page
    assert "did not come to" not in maker.page(second)
