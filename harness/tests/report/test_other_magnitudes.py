"""Sides that are the same only at inputs like those tried are noted."""

from samebits.report.check import note_lines
from samebits.report.words import REMEDY, other_input_notes
from samebits.schema.assumption import Assumption
from tests.support.documents import document, result

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
