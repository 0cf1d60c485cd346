"""The section of a report on shaking the compiler: a row per option, a line per leaf whose bits changed."""

from dataclasses import replace

from samebits.report.check import moved_leaves
from samebits.schema.finding import shake_of
from samebits.schema.result import ShakenLeaf
from tests.support.documents import document, result
from tests.support.pages import screen

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
    lines = [" ".join(line.split()) for line in screen(replace(document(*RESULTS), shake=summary), width=250)]
    lines = lines[next(number for number, line in enumerate(lines) if line.startswith("Shaken, ")) :]
    assert lines[0].endswith("are equal as usual: broken 1, fragile 1")
    assert "together 2 2" in lines
    assert "idle 2 no effect here: no evidence" in lines
    assert "newer: not accepted here: unknown flag" in lines
    assert lines[-3] == "left out, for they move more than rounding: fast_math"
