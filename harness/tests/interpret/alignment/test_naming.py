"""The lines that two programs part at, on 73 planted slips, and on the honest forms of the same functions."""

from pathlib import Path

import pytest

from samebits.interpret.alignment.align import Alignment
from samebits.schema.line_difference import LineDifference
from tests.interpret.alignment.planted import TRAINER, aligned, functions, planted
from tests.interpret.alignment.slips import FIRST, LATER, SLIPS, Slip

RIGHT = {FIRST: 42, LATER: 25}
"""How many of the slips have their line named first, of 44 and 29. The issue asks for 36 of 40."""


def _lines(alignment: Alignment) -> tuple[LineDifference, ...]:
    """Those of the first output that differs."""
    every = (alignment.lines(number) for number in range(len(alignment.question.outputs)))
    return next((lines for lines in every if lines), ())


def _named(slip: Slip, folder: Path) -> tuple[tuple[LineDifference, ...], str]:
    file, line = planted(slip, folder)
    return _lines(aligned(slip.function, slip.direction, file)), f"{file.parent.name}/rewritten.py:{line}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("slips", [FIRST, LATER], ids=["first", "later"])
def test_the_line_of_a_slip_is_named_first(slips: tuple[Slip, ...], tmp_path: Path) -> None:
    """Each slip is one line of the rewritten functions; what is named is never only the reference's side."""
    wrong = []
    for slip in slips:
        lines, expected = _named(slip, tmp_path)
        assert lines, f"nothing is named for '{slip.new}'"
        assert all(line.variant is not None for line in lines), lines
        if lines[0].variant != expected:
            wrong.append(slip.new)
    assert len(slips) - len(wrong) >= RIGHT[slips], wrong


def test_nine_of_ten_slips_are_named_first() -> None:
    """The share that the issue asks for, over both sets."""
    assert sum(RIGHT.values()) >= 0.9 * len(SLIPS) and len(FIRST) >= 40


@pytest.mark.sampled(8)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", functions())
def test_honest_forms_have_no_line(name: str, direction: str) -> None:
    """The rewritten functions are the reference in other forms: sums in another order, fused, in loops, on a mesh."""
    alignment = aligned(name, direction, TRAINER / "rewritten.py")
    assert [alignment.lines(number) for number in range(len(alignment.question.outputs))] == [
        () for _ in alignment.question.outputs
    ]
    assert not any(alignment.differs(number) for number in range(len(alignment.question.outputs)))


def test_both_sides_are_named_with_their_expressions(tmp_path: Path) -> None:
    """The words that a report shows: the expression at each place, and what is missing."""
    slip = next(slip for slip in SLIPS if slip.new == "rsqrt(variance + 1e-5)")
    (line, *_), expected = _named(slip, tmp_path)
    assert (line.change, line.variant, line.variant_code) == ("other", expected, "variance + 1e-5")
    assert line.reference is not None and line.reference.startswith("trainer/reference.py:")
    assert str(line) == f"{expected} has `variance + 1e-5`, the reference's twin at {line.reference} has " + (
        "`variance + 1e-6`"
    )
    slip = next(slip for slip in SLIPS if slip.new == "square.sum(-1, keepdims=True)")
    (line, *_), expected = _named(slip, tmp_path)
    assert (line.change, line.primitive, line.variant) == ("missing", "div", expected)
    assert str(line).endswith(": the variant has no such `div`")


def test_iterations_of_a_loop_are_named(tmp_path: Path) -> None:
    """The iteration in which it begins to differ, and loops that do not run as often."""
    (line, *_), _ = _named(next(slip for slip in SLIPS if slip.new == "h = x * factor"), tmp_path)
    assert line.iterations == (0,) and str(line).endswith("(iteration 0)")
    slip = next(slip for slip in SLIPS if "x.shape[0] - 1, body" in slip.new)
    (line, *_), _ = _named(slip, tmp_path)
    assert line.change == "trip count" and str(line).endswith(": another number of iterations")


def test_a_rule_written_by_hand_has_lines(tmp_path: Path) -> None:
    """The equations of a gradient rule have the line of its call from jax; the rule is traced for its own."""
    slip = next(slip for slip in SLIPS if slip.new == "return ct * b * slope, ct * a")
    (line, *_), expected = _named(slip, tmp_path)
    assert (line.variant, line.variant_code) == (expected, "ct * a")
