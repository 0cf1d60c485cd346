"""The document of `samebits compile`, its published keys in full and in order, and its page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.report.compile import blocks, closing
from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.page import Fold
from samebits.schema.program_facts import ClaimResult
from samebits.schema.result import Problem
from tests.report.html.run_samples import beside, claim, compiled_document, side, two_sides
from tests.support.invoke import samebits
from tests.support.pages import markdown, screen
from tests.support.real_tree import write_real_pair

DOCUMENT_KEYS = "schema written command environment results comparisons options problems notes summary"
RESULT_KEYS = (
    "pair side case dtype mesh mode direction target shapes options compiler replay while_loops loop_turns "
    "gathers scatters copies collectives wire_bytes sparsecore sparsecore_operations custom_calls operations "
    "temp_bytes peak_bytes argument_bytes output_bytes bytes_accessed flops optimal_seconds compile_seconds "
    "cached program unordered"
)
COMPARISON_KEYS = (
    "pair variant reference case dtype mesh direction target same_program same_order verdict reason temp_ratio "
    "peak_ratio bytes_ratio wire_ratio operations expectations region"
)
EXPECTATION_KEYS = "shows source finding holds ok got"
SUMMARY_KEYS = "programs cached comparisons same_program claims failed findings unknown seconds declared interrupted"
OPTION_KEYS = "pair side case direction target options changed before after operations"
PROBLEM_KEYS = "pair message exit_code"


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_published_keys(cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run with everything in it: a claim that holds, a finding, an option, a side that raises."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    claims = [
        'variant="turned", shows=VARIANT.gathers == 0',
        'variant="again", shows=VARIANT.gathers == 0, finding="one is left"',
    ]
    write_real_pair(tmp_path, claims=claims, variants=("turned", "again", "absent"))
    optimized = tmp_path / "optimized_impls" / "reorder.py"
    optimized.write_text(optimized.read_text() + "\n\ndef absent(x):\n    raise RuntimeError\n")
    file = tmp_path / "compiled.json"
    words = ["--direction", "forward", "--option", "turned:xla_allow_excess_precision=False"]
    words += [] if cached else ["--no-cache"]
    ended = samebits("compile", "--root", tmp_path, "--json", file, *words)
    assert ended.code == 3, ended
    document = json.loads(file.read_text())
    assert " ".join(document) == DOCUMENT_KEYS
    assert (document["schema"], document["command"]) == ("samebits/2", "compile")
    claimed = [judged for one in document["comparisons"] for judged in one["expectations"]]
    for rows, count, keys in (
        (document["results"], 4, RESULT_KEYS),
        (document["comparisons"], 2, COMPARISON_KEYS),
        (claimed, 2, EXPECTATION_KEYS),
        (document["options"], 1, OPTION_KEYS),
        (document["problems"], 1, PROBLEM_KEYS),
        ([document["summary"]], 1, SUMMARY_KEYS),
    ):
        assert [" ".join(row) for row in rows] == [keys] * count
    assert document["notes"] == []
    summary = {**document["summary"], "seconds": 0}
    assert summary == {
        "programs": 4,
        "cached": 0,
        "comparisons": 2,
        "same_program": 1,
        "claims": 2,
        "failed": 0,
        "findings": 1,
        "unknown": 0,
        "seconds": 0,
        "declared": 2,
        "interrupted": False,
    }


FAILS = {"holds": False, "ok": False, "got": "3"}


def test_a_failed_claim_is_named_with_its_place_and_command() -> None:
    document = two_sides(claim(), claim(**FAILS))
    page = document.page()
    assert (page.state, page.word) == ("failed", "not as declared")
    assert page.headline == (
        "reorder/permute: 1 of 3 results: does not hold; first case layer, bfloat16, mesh context4, v5p:2x2x1, "
        "forward, while_loops == 0: got 3; expected holds: us"
    )
    assert page.next == "samebits compile reorder --variant permute"
    assert page.headline in markdown(document)
    assert "  FAILS: permute: while_loops == 0 (got 3; us)" in screen(document)
    body = section_of(document).body
    assert '<tr class="o-fail"><td>permute' in body.replace("\n", "") and '<li class="bad">FAILS: permute' in body


@pytest.mark.parametrize(
    ("claims", "state", "words"),
    [
        ((claim(),), "passed", "all as declared"),
        ((claim(holds=None, ok=False),), "incomplete", "1 of 2 results: no figure"),
        ((), "passed", "none declared"),
    ],
)
def test_the_state_is_that_of_the_claims(claims: tuple[ClaimResult, ...], state: str, words: str) -> None:
    page = two_sides(*claims).page()
    assert page.state == state and words in (page.headline or page.closing)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (1, "0 of 1 declared claim is about what was compiled"),
        (2, "0 of 2 declared claims are about what was compiled"),
    ],
)
def test_declared_claims_about_nothing_are_counted(declared: int, words: str) -> None:
    document = two_sides()
    document = replace(document, summary=replace(document.summary, declared=declared))
    assert f"; {words}; " in closing(document) and "none declared" not in closing(document)


def test_what_could_not_be_compiled_is_the_headline() -> None:
    document = compiled_document([], [], problems=(Problem(pair="rope", message="no such target", exit_code=2),))
    section = section_of(document)
    assert (section.page.state, section.page.headline) == ("failed", "1 problem: rope: no such target")


def test_the_table_has_ratios_loops_and_collectives() -> None:
    (block,) = blocks(two_sides())
    heads, rows = block.table()
    assert heads == [
        *("side", "temp", "temp MB", "peak MB", "traffic MB", "comm MB", "loops", "estimate", "program", "collectives")
    ]
    assert rows[0][0] == "gather" and rows[0][6] == "3 (12 trips)" and rows[0][-1] == "all-gather 1"
    assert rows[1][:3] == ["permute", "0.229x", "1 610.7"]


def test_a_program_with_options_has_a_name_of_its_own() -> None:
    (block,) = blocks(compiled_document([side(), side(options={"a": "b"})], []))
    assert [row[0] for row in block.table()[1]] == ["gather", "gather + options"]


def test_html_has_bars_and_the_differing_region_besides() -> None:
    section = section_of(two_sides(claim()))
    assert [*section.charts] == ["block-0"] and 'data-chart="block-0"' in section.body
    picture = svg(section.charts["block-0"])
    assert all(text in picture for text in ("7.03 GB", "1.61 GB", "temporary memory", "communication"))
    assert "in the body of while.1 of the entry computation" in section.body
    assert "<mark>2.5</mark>" in section.body and "<mark>2.25</mark>" in section.body
    assert "backend_config differs in window_config" in section.body
    assert "not shown: 3 more differing instructions of this computation" in section.body


def test_what_fails_is_unfolded_and_comes_first() -> None:
    programs, comparisons = [], []
    for number in range(6):
        reference, variant = side(case=f"case{number}"), side("permute", case=f"case{number}")
        claims = (claim(**FAILS),) if number == 3 else (claim(),)
        programs += [reference, variant]
        comparisons.append(beside(variant, reference, expectations=claims))
    folds = [block for block in compiled_document(programs, comparisons).page().live if isinstance(block, Fold)]
    assert [fold.open for fold in folds] == [True] + [False] * 5
    assert "case3" in folds[0].title
