"""The page of a check: 40 lines of a screen and 60 of Markdown whatever is wrong, and whole where that fits."""

import re
from dataclasses import replace
from typing import Any

import pytest

from samebits.report.check import Document, PairHead, layout_notes, moved_leaves, note_lines
from samebits.report.markdown import LINES as MARKDOWN_LINES
from samebits.report.markdown import LONGEST, WORST
from samebits.report.terminal import LINES, height
from samebits.report.words import REMEDY, other_input_notes
from samebits.schema.assumption import Assumption
from samebits.schema.finding import Finding, shake_of
from samebits.schema.line_difference import LineDifference
from samebits.schema.result import Problem, ShakenLeaf
from tests.support import pages
from tests.support.documents import different, document, result
from tests.support.pages import markdown

HINT = "--verbose prints every row, note and failure"


def screen(of: Document, width: int = 140, *, verbose: bool = False) -> str:
    return "\n".join([*pages.screen(of, width=width, verbose=verbose), ""])


def of_pairs(*results: Finding, **more: Any) -> Document:
    heads = tuple(
        PairHead(pair=pair, reference="einsum", variants=("multiply",), selected=1, product=1)
        for pair in dict.fromkeys(result.place.pair for result in results)
    )
    return replace(document(*results, **more), pairs=heads)


def test_skips_that_fail_the_run_are_said() -> None:
    skips = replace(of_pairs(result(), result(verdict="skipped", ok=False)), no_skips=True)
    assert "what ran holds, but 1 skipped result fails the run (--no-skips)" in screen(skips)
    assert "all contracts hold" not in screen(skips)
    assert markdown(skips).startswith("### samebits check: incomplete\n")
    assert "all contracts hold, 1 skipped" in screen(replace(skips, no_skips=False))
    assert markdown(replace(skips, no_skips=False)).startswith("### samebits check: passed\n")


def lines_of(text: str, width: int) -> int:
    return sum(height(line, width) for line in text.splitlines())


MANY_ERRORS = [
    result(pair=f"p{n}", verdict="error", ok=False, leaf="*", reason=f"raised Error{'x' * n}: {'why ' * 90}")
    for n in range(60)
]
MANY_LINES = [
    different(
        case=f"c{n}",
        lines=(LineDifference(change="other", variant=f"norm.py:{n}", variant_code="x" * 200),),
        evidence="long " * 200,
    )
    for n in range(80)
]
ROUNDING = [
    result(
        pair=f"p{n}",
        verdict="rounding",
        required="rounding",
        mismatches=3,
        reason=f"summed {n} backwards",
        leaf=f"l{n}",
    )
    for n in range(40)
]
NOTES = tuple(f"note {n}: {'words ' * 60}" for n in range(50))
EVERYTHING = [*MANY_ERRORS, *MANY_LINES, *ROUNDING]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize(
    "of",
    [
        of_pairs(*MANY_ERRORS),
        of_pairs(*MANY_LINES),
        of_pairs(*ROUNDING, notes=NOTES),
        of_pairs(*EVERYTHING, notes=NOTES),
        of_pairs(*[result(pair=f"pair_{n}", variant=f"v{m}") for n in range(60) for m in range(4)]),
        of_pairs(*[different(case=f"c{n}") for n in range(2000)]),
    ],
    ids=["errors", "lines", "rounding", "everything", "all hold", "one cause"],
)
def test_whatever_is_wrong_fits_on_a_screen(of: Document, width: int) -> None:
    text = screen(of, width)
    assert lines_of(text, width) <= LINES
    assert HINT in text
    whole = screen(of, width, verbose=True)
    assert lines_of(whole, width) > 2 * LINES
    assert HINT not in whole


def test_what_fits_is_printed_whole() -> None:
    of = document(result(variant="einsum"), result(), notes=("a note",))
    assert screen(of) == screen(of, verbose=True)


def test_one_fault_is_one_group() -> None:
    line = LineDifference(change="moved", variant="norm.py:8", reference="plain.py:3", primitive="reverse")
    failing = [
        different(case=case, mesh=mesh, direction=direction, lines=(line,), devices=8)
        for case in ("a", "b")
        for mesh in ("data2", "data4", "data8")
        for direction in ("forward", "gradient")
    ]
    text = screen(document(*failing, different(case="a", mesh="data2", leaf="rows", devices=2, lines=(line,))))
    assert text.count("FAILED") == 1
    assert "FAILED  norm/multiply: 13 of 13 results: different\n" in text
    assert "  likely    the right elements in the wrong order, a permutation: norm.py:8" in text
    assert "  where     a, b; bfloat16; data2/4/8; forward, gradient\n" in text
    assert "  example   case a, bfloat16, mesh data2 (auto), forward, rows\n" in text
    assert "            out['rows'][1, 2]: reference=6.4375 (0x40ce), multiply=6.375 (0x40cc)\n" in text
    assert text.endswith("\nnext: samebits check norm --variant multiply\n")


def test_a_single_failure_is_explained_in_full() -> None:
    text = screen(document(result(mesh="data4"), different()))
    assert "FAILED  norm/multiply, case small, bfloat16, mesh data2 (auto), forward\n  likely    not rounding" in text
    assert "  witness   out['rows'][1, 2]: reference=6.4375 (0x40ce)\n" in text


def test_a_single_point_of_many_leaves_is_one_group() -> None:
    text = screen(document(*[different(leaf=f"out[{number}]", evidence="long " * 40) for number in range(9)]))
    assert "FAILED  norm/multiply: 9 of 9 results: different" in text
    assert lines_of(text, 140) <= LINES


def test_groups_beyond_the_screen_are_counted() -> None:
    text = screen(of_pairs(*MANY_ERRORS))
    titles = [line for line in text.splitlines() if line.startswith("FAILED  ")]
    explained = text.count("  likely    ")
    assert 3 <= explained < len(titles) == explained + 4
    assert f"{len(MANY_ERRORS) - len(titles)} more groups with {len(MANY_ERRORS) - len(titles)} failing results" in text


def test_pairs_get_a_line_each_where_their_rows_do_not_fit() -> None:
    several = [result(pair=f"pair_{n}", variant=f"v{m}") for n in range(20) for m in range(4)]
    text = screen(of_pairs(*several, different(pair="pair_3")))
    assert "pair_2   bitwise 4\n" in text and "pair_3   bitwise 4, different 1; 1 fail\n" in text
    assert "meshes" not in text.split("FAILED")[0]
    text = screen(of_pairs(*[result(pair=f"pair_{n}") for n in range(60)], different(pair="pair_3")))
    assert "59 pairs hold: pair_0, pair_1, pair_2, pair_4, " in text


def test_of_a_run_that_was_cut_short_no_pair_is_said_to_hold() -> None:
    """Of a pair, only the reference may have run."""
    done = of_pairs(*[result(pair=f"pair_{n}") for n in range(60)], different(pair="pair_3"))
    problem = Problem(pair="pair_4", message="a case could not be read")
    cut = replace(done, summary=replace(done.summary, interrupted=True), problems=(problem,))
    text = screen(cut)
    assert "58 pairs without a failure so far: pair_0, pair_1, pair_2, pair_5, " in text
    assert "hold" not in text.split("FAILED")[0]


def test_each_section_prints_its_own() -> None:
    of = document(
        result(variant="einsum"),
        different(),
        result(verdict="rounding", required="rounding", mismatches=3, max_ulp=48_674, reason="summed backwards"),
        notes=("a note",),
    )
    text = screen(of, verbose=True)
    assert "  einsum (reference)  bitwise 1" in text
    assert "multiply, forward, out: 1 of 2 results are only" not in text
    assert "at most 4.9e4 ulps" in text
    assert "\n\nNotes:\n  a note\n\nFAILED  norm/multiply, case small, bfloat16, mesh data2 (auto), forward\n" in text


def test_points_with_the_same_error_share_a_block() -> None:
    """A function that raises does so under its gradient too; of another cause, each point has its own."""
    ways = ("forward", "gradient")
    both = [result(verdict="error", ok=False, leaf="*", reason="raised", direction=way) for way in ways]
    other = result(verdict="error", ok=False, leaf="*", reason="raised else", dtype="float32")
    blocks = screen(document(*both, other), verbose=True).split("FAILED  ")[1:]
    assert sorted(text.count("norm/multiply, case small") for text in blocks) == [1, 2]
    assert [text.count("  reason    raised") for text in blocks] == [1, 1]


@pytest.mark.parametrize("count", [0, 1, 2, 17, 500])
def test_at_most_sixty_lines(count: int) -> None:
    failing = [different(case=f"c{n}", pair=f"q{n % 30}", variant=f"v{n % 7}") for n in range(count)]
    problems = tuple(Problem(pair=f"x{n}", message="lacks a twin") for n in range(count))
    text = markdown(
        of_pairs(*failing, *MANY_ERRORS[:40], *ROUNDING, problems=problems, notes=tuple(f"note {n}" for n in range(90)))
    )
    assert text.count("\n") <= MARKDOWN_LINES
    assert text.startswith("### samebits check: failed\n")
    assert len(re.findall(r"^\d\. \*\*", text, re.MULTILINE)) == WORST
    assert "<details><summary>" in text and text.count("<details>") == text.count("</details>")


def test_few_results_are_not_folded() -> None:
    assert "<details>" not in markdown(document(result(variant="einsum"), result(), different()))


def test_the_other_groups_are_folded_and_counted() -> None:
    text = markdown(of_pairs(*MANY_ERRORS[:8]))
    assert "#### Failures: 8 results, 8 groups" in text
    assert text.count("\n   - where: ") == text.count("; example: case ") == WORST
    folded = text[text.index("<details><summary>3 more groups</summary>") : text.index("</details>")]
    assert folded.count("\n- **") == 3


def test_rows_of_sides_that_fail_are_kept() -> None:
    holding = [result(pair=f"p{n}") for n in range(80)]
    text = markdown(of_pairs(*holding, different(pair="last"), result(pair="very_last")))
    assert "| last | multiply | different 1 |" in text and "| very_last |" not in text
    assert text.count("\n") <= MARKDOWN_LINES


def test_a_long_text_is_cut_and_names_are_plain() -> None:
    text = markdown(
        of_pairs(*[different(evidence="<script>" + "y" * 9999, case=case, pair="a_*b*") for case in ("a", "b")])
    )
    assert "\\<script\\>y" in text and "a_\\*b\\*/multiply" in text
    assert max(len(line) for line in text.splitlines()) < 3 * LONGEST


# --- shaking the compiler --------------------------------------------------------------------------------------------


ROBUST = ShakenLeaf(option="together", outcome="robust", verdict="bitwise", reference_moved=True)
FRAGILE = ShakenLeaf(option="fast_min_max", outcome="fragile", verdict="rounding", mismatches=3)
BROKEN = ShakenLeaf(option="fast_min_max", outcome="broken", verdict="different", mismatches=7)
IDLE = ShakenLeaf(option="idle", outcome="no effect", verdict="bitwise")
RESULTS = (result(shaken=(ROBUST, FRAGILE, IDLE)), result(case="tall", shaken=(ROBUST, BROKEN, IDLE)))


def test_a_leaf_that_differs_has_a_line_per_outcome_and_option() -> None:
    assert moved_leaves(RESULTS) == [
        "norm/multiply, forward, out: fragile: bits differ under fast_min_max: "
        "3 of 40 (case small, bfloat16, mesh data2)",
        "norm/multiply, forward, out: broken: the contract breaks under fast_min_max: "
        "7 of 40 (case tall, bfloat16, mesh data2)",
    ]


def test_the_worst_result_of_a_leaf_is_named() -> None:
    (only,) = moved_leaves([result(shaken=(FRAGILE,)), result(case="tall", shaken=(FRAGILE,))])
    assert "case small" in only and only.endswith("and 1 more result)")
    assert moved_leaves([result(shaken=(ROBUST,))]) == []


def test_options_without_effect_are_marked() -> None:
    summary = shake_of(RESULTS, {"newer": "unknown flag"}, {"fast_math": "changes more than rounding"})
    lines = [" ".join(line.split()) for line in pages.screen(replace(document(*RESULTS), shake=summary), width=250)]
    lines = lines[next(number for number, line in enumerate(lines) if line.startswith("Shaken, ")) :]
    assert lines[0].endswith("are equal as usual: broken 1, fragile 1")
    assert "together 2 2" in lines
    assert "idle 2 no effect here: no evidence" in lines
    assert "newer: not accepted here: unknown flag" in lines
    assert lines[-3] == "left out, for they move more than rounding: fast_math"


# --- outputs in another layout ---------------------------------------------------------------------------------------


ROWS = {"x": "('fsdp', None)", "out": "('fsdp', None)", "out['aux']": "(None,)"}
WHOLE = {**ROWS, "out": "(None, None)"}


def _run(variant: str, layout: dict[str, str], mode: str = "explicit", mesh: str = "fsdp8") -> Document:
    return document(result(variant=variant, layout=layout, mode=mode, mesh=mesh))


def _document(*runs: Document) -> Document:
    first = runs[0]
    head = replace(first.pairs[0], reference="einsum")
    return replace(first, pairs=(head,), results=tuple(r for run in runs for r in run.results))


def test_another_layout_is_noted_once_with_how_often() -> None:
    runs = [_run(side, layout, mesh=mesh) for mesh in ("fsdp8", "fsdp4") for side, layout in SIDES.items()]
    expected = (
        "norm/multiply: in explicit mode out is (None, None) where the reference's is ('fsdp', None), "
        "and has another layout in 1 more setting"
    )
    assert layout_notes(_document(*runs)) == [expected]
    assert expected in note_lines(_document(*runs))


def test_the_compiler_may_choose_in_auto_mode() -> None:
    assert layout_notes(_document(*[_run(side, layout, "auto") for side, layout in SIDES.items()])) == []


def test_equal_layouts_and_sides_that_did_not_run_give_no_note() -> None:
    assert layout_notes(_document(_run("einsum", ROWS), _run("multiply", ROWS))) == []
    assert layout_notes(_document(_run("einsum", {}), _run("multiply", WHOLE))) == []
    assert layout_notes(_document(_run("multiply", WHOLE))) == []


SIDES = {"einsum": ROWS, "multiply": WHOLE}


# --- the same only at inputs like those tried ------------------------------------------------------------------------


COMPARISONS = Assumption("comparisons", "comparisons come out as at the inputs of the case", "other inputs tie")
SEEN = "out[2] is 211.0 in the reference, 6.0 here, in float64, with the inputs 64 times as large"


def test_what_differs_elsewhere_is_noted_once_with_how_often() -> None:
    assumptions = (COMPARISONS, Assumption("comparisons", "", "", counterexample=SEEN))
    noted = document(*[result(assumptions=assumptions, mesh=mesh, direction="forward") for mesh in ("none", "dp2")])
    expected = f"norm/multiply: forward, out: the same only at inputs like those tried: {SEEN}; and in 1 more setting"
    assert other_input_notes(noted.results) == [expected, REMEDY]
    assert expected in note_lines(noted)


def test_an_assumption_without_counterexample_gives_no_note() -> None:
    assert other_input_notes(document(result(assumptions=(COMPARISONS,))).results) == []
