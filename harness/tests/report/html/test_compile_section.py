"""The section of a compilation: what is not as declared comes first, with figures, claims and the differing region."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from samebits.report.compile import closing
from samebits.report.html.charts import svg
from samebits.report.html.compile_section import OPEN, compile_section
from samebits.report.html.sections import section_of
from samebits.schema.result import Problem
from tests.report.html.run_samples import SCRIPT, beside, claim, compiled_document, side, two_sides

FAILS = {"holds": False, "ok": False, "got": "3"}


def test_a_failed_claim_is_named_with_its_place_and_command() -> None:
    section = section_of(two_sides(claim(), claim(**FAILS)))
    assert section.state == "failed"
    assert section.headline == (
        "1 of 2 claims not as declared: reorder/permute, forward, on v5p:2x2x1: while_loops == 0 (got 3)"
    )
    assert section.next_command == "samebits compile reorder --variant permute"


@pytest.mark.parametrize(
    ("claims", "state", "words"),
    [
        ((claim(),), "passed", "all as declared"),
        ((claim(holds=None, ok=False),), "incomplete", "1 of 1 claim without a figure"),
        ((), "passed", "none declared"),
    ],
)
def test_the_state_is_that_of_the_claims(claims: tuple[object, ...], state: str, words: str) -> None:
    section = compile_section(two_sides(*claims))  # type: ignore[arg-type]
    assert section.state == state and words in section.headline


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
    section = compile_section(document)
    assert (section.state, section.headline) == ("failed", "1 problem: rope: no such target")


def test_the_charts_are_those_of_the_body() -> None:
    section = compile_section(two_sides(claim()))
    assert re.findall(r'data-chart="([^"]+)"', section.body) == [*section.charts] == ["block-0"]
    picture = svg(section.charts["block-0"])
    for text in ("7.03 GB", "1.61 GB", "temporary memory", "communication"):
        assert text in picture and text in section.body, text


def test_the_region_is_readable() -> None:
    body = compile_section(two_sides(claim())).body
    assert "in the body of while.1 of the entry computation" in body
    assert "<mark>2.5</mark>" in body and "<mark>2.25</mark>" in body
    assert "backend_config differs in window_config" in body
    assert "3 more instructions of this computation have no equal and are not shown" in body


def test_a_document_of_before_has_no_region() -> None:
    document = two_sides(claim())
    (comparison,) = document.comparisons
    body = compile_section(replace(document, comparisons=(replace(comparison, region=None),))).body
    assert "First differing instructions" not in body and "copy 2 → 1" in body


def test_of_many_cases_those_that_fail_are_first_and_open() -> None:
    programs, comparisons = [], []
    for number in range(OPEN + 2):
        reference, variant = (side(name, case=f"case{number}") for name in ("gather", "permute"))
        programs += [reference, variant]
        judged = claim(**FAILS) if number == 3 else claim()
        comparisons.append(beside(variant, reference, expectations=(judged,)))
    body = compile_section(compiled_document(programs, comparisons)).body
    blocks = re.findall(r'<details class="block"( open)?>\s*<summary><h3>(.*?)</h3>', body, re.DOTALL)
    assert [bool(opened) for opened, _ in blocks] == [True] + [False] * (OPEN + 1)
    assert "case3" in blocks[0][1]


def test_names_and_texts_are_escaped() -> None:
    reference, variant = side(pair=SCRIPT, case=SCRIPT), side(SCRIPT, pair=SCRIPT, case=SCRIPT, replay=SCRIPT)
    comparison = beside(
        variant, reference, reason=SCRIPT, operations={SCRIPT: (1, 2)}, expectations=(claim(shows=SCRIPT, got=SCRIPT),)
    )
    region = comparison.region
    assert region is not None
    lines = tuple(replace(line, note=SCRIPT, reference_source=SCRIPT) for line in region.lines)
    region = replace(region, lines=(*lines, replace(lines[0], kind="changed", reference=SCRIPT, variant=SCRIPT)))
    document = compiled_document([reference, variant], [replace(comparison, region=region)], notes=(SCRIPT,))
    body = compile_section(document).body
    assert "<script" not in body and "&lt;script&gt;" in body
