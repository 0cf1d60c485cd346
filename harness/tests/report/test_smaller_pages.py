"""The pages of accepted verdicts, of the caches, of two sources of defaults, and of the pairs of a tree."""

from dataclasses import replace

import pytest

from samebits.audit.defaults import Agreement, Disagreement
from samebits.audit.snapshots import AcceptedVerdicts
from samebits.host.cache_folder import CacheRow
from samebits.report.cache import CacheDocument
from samebits.report.defaults import DefaultsDocument
from samebits.report.list import Listing, PairRow
from samebits.report.page import Paged
from samebits.report.snapshots import AcceptDocument
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT
from tests.support.evidence_documents import PROBLEM
from tests.support.hostile import require_escaped
from tests.support.pages import markdown, screen

SAME = AcceptedVerdicts(pair="rope", path="rope.json", change="unchanged", equal=4, lost=0, gained=0)
NEW = AcceptedVerdicts(pair="norm", path="norm.json", change="changed", equal=6, lost=2, gained=1)
SMALL = CacheRow(cache="compiled", holds="programs", path="/c/compiled", entries=1, bytes=10)
LARGE = CacheRow(
    cache="verdicts", holds="results", path="/c/verdicts", entries=85, bytes=2_000_000, oldest="2026-01-01"
)
RATE = Disagreement(key="learning_rate", kind="value", first="1e-3", second="3e-4")
EXTRA = Disagreement(key="extra", kind="missing", first=None, second="1")
ROW = PairRow(
    pair="norm",
    reference="einsum",
    variants=("multiply", "fused"),
    cases=("small",),
    dtypes=("float32",),
    meshes=("data2", "data4"),
    wide_meshes=("data64",),
    modes=("auto",),
    points=18,
    selected=3,
    product=12,
    unfit=("data64",),
    compiled=("large on cpu",),
)


def accepted(*rows: AcceptedVerdicts, problems: tuple[Problem, ...] = ()) -> AcceptDocument:
    return AcceptDocument(environment=ENVIRONMENT, results=rows, problems=problems)


def cached(*rows: CacheRow) -> CacheDocument:
    return CacheDocument(folder="/c", limit="512MB", limit_from="the default", results=rows)


def compared(*disagreements: Disagreement) -> DefaultsDocument:
    agreement = Agreement(keys=9, compared=7, ignored=("seed",), required=("model",), disagreements=disagreements)
    return DefaultsDocument(first="a.yml", second="b.yml", results=agreement)


HOSTILE = (
    accepted(SAME, NEW, problems=(PROBLEM,)),
    cached(SMALL, LARGE),
    compared(RATE, EXTRA),
    Listing(results=(ROW,), problems=(PROBLEM,)),
)


@pytest.mark.parametrize("document", HOSTILE, ids=["accept", "cache", "defaults", "list"])
def test_nothing_of_a_document_is_markup(document: Paged) -> None:
    require_escaped(document)


def test_what_was_written_and_lost_comes_first() -> None:
    lines = screen(accepted(SAME, NEW))
    assert lines == [
        "norm: changed: 6 results with equal bits beyond the contract (1 more, 2 fewer); norm.json",
        "rope: unchanged: 4 results with equal bits beyond the contract",
        "2 pairs: 1 snapshot written, 10 results beyond the contract; 2 results no longer equal",
    ]


def test_a_pair_that_is_not_accepted_is_the_headline() -> None:
    failing = Problem(pair="norm", message="a result fails", exit_code=1)
    page = accepted(SAME, problems=(PROBLEM, failing)).page()
    assert (page.state, page.next) == ("failed", "samebits check broken")
    assert page.headline == "2 problems: broken: its file does not import"
    assert accepted(problems=(PROBLEM,)).page().state == "incomplete"


def test_the_largest_cache_is_named_and_first() -> None:
    lines = screen(cached(SMALL, LARGE))
    assert lines[-1] == "86 entries, 2.0 MB in /c; the largest is verdicts, 2.0 MB"
    assert [line.split()[0] for line in lines[2:5]] == ["cache", "verdicts", "compiled"]
    assert screen(cached())[-1] == "0 entries, 0 bytes in /c"


def test_what_was_removed_is_counted() -> None:
    lines = screen(cached(replace(SMALL, entries=0, bytes=0, removed=7)))
    assert lines[-1] == "7 entries of the caches in /c removed"
    assert lines[-2].split() == ["compiled", "0", "0", "bytes", "-", "-", "7", "programs"]


def test_the_first_disagreement_is_the_headline() -> None:
    document = compared(RATE, EXTRA)
    page, text = document.page(), markdown(document)
    assert "first a.yml and b.yml: 'learning_rate' (value): 1e-3 against 3e-4" in page.headline
    assert text.startswith("### samebits audit defaults: differ\n")
    assert "| key | differs in | a.yml | b.yml |" in text and "| extra | missing in one | (no such key) | 1 |" in text


def test_sources_that_agree_have_passed() -> None:
    page, text = compared().page(), markdown(compared())
    assert page.state == "passed" and page.closing.endswith("all agree in name, type and value")
    assert text.startswith("### samebits audit defaults: agree\n") and "#### Ignored keys (1)\n\nseed" in text


def test_a_listing_says_how_much_there_is() -> None:
    lines = screen(Listing(results=(ROW,), problems=()))
    assert "  meshes         data2/4; on more devices data64" in lines
    assert lines[-2:] == ["1 pair with 2 variants; a check of all runs 18 points", "next: samebits check norm"]


def test_a_pair_that_does_not_load_is_the_headline() -> None:
    page = Listing(results=(ROW,), problems=(PROBLEM, PROBLEM)).page()
    assert (page.state, page.headline) == ("incomplete", "2 problems: broken: its file does not import")
    assert page.closing.endswith("18 points; 2 problems")
    assert Listing(results=(), problems=()).page().next is None
