"""The smaller pages: caches, verdicts, defaults, pairs of a tree, the gate, advice, claims, and steps compiled."""

from dataclasses import replace

import pytest

from samebits.audit.defaults import Agreement, Disagreement
from samebits.audit.snapshots import AcceptedVerdicts
from samebits.host.cache_folder import CacheRow
from samebits.report.cache import CacheDocument
from samebits.report.defaults import DefaultsDocument
from samebits.report.gate import GateDocument, claim_of
from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.list import Listing, PairRow
from samebits.report.markdown import markdown_page
from samebits.report.page import charts_of
from samebits.report.snapshots import AcceptDocument
from samebits.schema.finding import Finding, Place, Ruling
from samebits.schema.gate_row import GateRow
from samebits.schema.result import Problem
from tests.report.html.run_samples import steps_document
from tests.support.charts import layer_rows
from tests.support.documents import ENVIRONMENT
from tests.support.evidence_documents import PROBLEM, advice, advised, claim, claims
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


HOLDS = GateRow(kind="formula", state="holds", words="outputs: rounding")


def leaf(verdict: str) -> Finding:
    ruling = Ruling(verdict=verdict, required="rounding", ok=True)  # type: ignore[arg-type]
    return Finding(place=Place(pair="norm", variant="kernel", leaf="out"), ruling=ruling)


def document(*rows: GateRow, leaves: tuple[Finding, ...] = ()) -> GateDocument:
    claim = claim_of(rows, leaves)
    return GateDocument(kernel="k.py:kernel", reference="r.py:reference", results=rows, leaves=leaves, claim=claim)


@pytest.mark.parametrize(
    ("rows", "verdicts", "code", "claim"),
    [
        ((HOLDS,), ("rounding", "proved"), 0, "it has the formula of its reference, up to rounding that is bounded"),
        ((HOLDS,), ("proved",), 0, "it has the same bits as its reference for every input"),
        (
            (HOLDS, GateRow(kind="structure", state="limited", words="wrong with 15 in place of 16")),
            ("bitwise",),
            0,
            "; not beyond its inputs: wrong with 15 in place of 16",
        ),
        ((GateRow(kind="kept", state="refuted", words="call 2"), HOLDS), (), 1, "refuted: kept (call 2)"),
        ((GateRow(kind="formula", state="undecided", words="a loop"),), (), 3, "undecided: a loop"),
        ((GateRow(kind="formula", state="not tried", words=""),), (), 3, "undecided: no output was compared"),
    ],
)
def test_the_claim_is_no_more_than_what_was_seen(
    rows: tuple[GateRow, ...], verdicts: tuple[str, ...], code: int, claim: str
) -> None:
    made = document(*rows, leaves=tuple(map(leaf, verdicts)))
    assert made.exit_code == code and claim in made.claim


def test_what_refutes_comes_first() -> None:
    text = markdown_page(document(HOLDS, GateRow(kind="kept", state="refuted", words="call 2", where="k.py:3")).page())
    assert "refuted: kept (call 2)" in text
    assert text.index("| kept |") < text.index("| formula |")


BOUND = advice(axis="tensor", size=2, verdict="communication-bound", dimension="mlp", has=100, wants=400.0)
UNKNOWN = advice(axis="memory", verdict="unknown", needed=None, wants=None, block=None)


def test_what_is_bound_by_communication_closes_the_page() -> None:
    document = advised(advice(), BOUND, exit_code=1)
    lines, text = screen(document), markdown(document)
    assert document.page().state == "failed"
    assert lines[-1] == (
        "llama on tpu7x, mesh fsdp16: 1 of 2 rules bound by what it moves; "
        "tensor 2 wants mlp above 400; llama has 100: communication-bound"
    )
    assert "tensor 2 wants mlp above 400; llama has 100: communication-bound" in lines
    assert text.startswith("### samebits audit advise: bound by what it moves\n")
    assert "| tensor 2 | 1 ICI axis |" in text and "| 100 | 400 | communication-bound |" in text


def test_a_missing_figure_is_incomplete() -> None:
    page = advised(advice(), UNKNOWN, exit_code=3).page()
    assert page.state == "incomplete"
    assert page.closing.endswith("1 of 2 rules unknown; memory: unknown, a figure of the chip is not published")
    assert "  HBM: not published" in screen(advised(advice(), UNKNOWN, exit_code=3))


def test_compute_bound_has_passed() -> None:
    page = advised(advice()).page()
    assert (page.state, page.next) == ("passed", None)
    assert page.closing == "llama on tpu7x, mesh fsdp16: all of it is compute-bound"


def test_the_chart_shows_how_far_each_is_from_enough() -> None:
    chart = charts_of(advised(advice(), BOUND, UNKNOWN, exit_code=1).page().blocks)["margins"]
    points = layer_rows(chart, 1)
    assert [row["parallelism"] for row in points] == ["fsdp 16", "tensor 2"], "what wants nothing known is not drawn"
    assert [row["times"] for row in points] == [16384 / 11535, 0.25]
    assert len(svg(chart)) > 1000
    assert charts_of(advised(UNKNOWN, exit_code=3).page().blocks) == {}


def test_a_row_that_is_not_as_declared_is_the_headline() -> None:
    bad = claim(id="norm-2", ok=False, failed=3, witness="out[0]: 1 and 2", commands=("samebits check norm --case b",))
    section = section_of(claims(claim(), bad))
    assert section.page.state == "failed"
    assert section.page.headline.startswith(
        "norm: 1 of 2 rows: holds but for rounding; first norm-2: 3 results against the contract, out[0]: 1 and 2; "
    )
    assert section.page.next == "samebits check norm --case b"
    assert section.body.index("evidence of norm-2") < section.body.index("evidence of norm-1")
    assert section.body.count("<details open>") == 1, "only its evidence is unfolded"


def test_the_reason_is_what_failed() -> None:
    test = claim(ok=False, shown_by={"test_norm": False})
    assert section_of(claims(test)).page.headline.count("test test_norm failed or did not run") == 1
    figure = claim(ok=False, savings=())
    assert section_of(claims(figure)).page.headline.count("no compiled figure of temp_bytes") == 1


def test_what_was_not_told_is_incomplete() -> None:
    section = section_of(claims(claim(), claim(id="norm-2", holds="undecided", values="undecided", ok=False)))
    assert section.page.state == "incomplete" and section.page.headline.startswith(
        "norm: 1 of 2 rows: undecided; first norm-2; expected a multiply"
    )
    assert section_of(claims()).page.state == "incomplete"
    problem = section_of(claims(claim(), problems=[PROBLEM]))
    assert (problem.page.state, problem.page.headline) == ("incomplete", "1 problem: broken: its file does not import")


def test_claims_as_declared_have_passed() -> None:
    section = section_of(claims(claim(), claim(id="b", holds="does not hold", findings=("it costs",))))
    assert (section.page.state, section.page.next) == ("passed", None)
    assert "all as declared" in section.page.headline
    assert "condition: the table is finite" in section.body
    assert section.body.count("samebits check norm --json norm.json") == 2, "each command once, with its button"


def test_the_figures_are_a_chart() -> None:
    section = section_of(claims(claim()))
    rows = layer_rows(section.charts["savings"], 1)
    assert [(row["compiler"], row["times"]) for row in rows] == [("cpu", 0.5), ("v5p", 0.25)]
    assert len(svg(section.charts["savings"])) > 1000
    assert section_of(claims(claim(savings=(), figure=None))).charts == {}


def test_every_step_has_its_bars_and_its_row() -> None:
    document = steps_document("fsdp", "fsdp_optimized")
    section = section_of(document)
    assert (section.page.state, section.title) == ("passed", "compile model llama")
    picture = svg(section.charts["steps"])
    for text in ("1 fsdp", "2 fsdp_optimized", "8.00 GB", "16.0 GB", "published peak", "18.0 GB"):
        assert text in picture, text
    row = "| fsdp_optimized | fsdp8 | auto | 0 | 7026 | 16000 | 2.000x | 18000 | 2.000x | 0.889x | 0 | 0 |  |"
    assert row in markdown(document)


def test_no_digit_is_cut_off_on_a_narrow_screen() -> None:
    lines = screen(steps_document("fsdp_optimized"), width=80)
    assert "  fsdp_optimized" in lines and any("peak MB 8000" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_what_could_not_be_compiled_is_the_headline() -> None:
    problem = Problem(pair="fsdp", message="out of memory", exit_code=3)
    section = section_of(steps_document("other", problems=(problem,)))
    assert (section.page.state, section.page.headline) == ("incomplete", "1 problem: fsdp: out of memory")


def test_a_document_without_steps_has_a_page() -> None:
    section = section_of(steps_document())
    assert (section.page.state, section.charts) == ("incomplete", {})
