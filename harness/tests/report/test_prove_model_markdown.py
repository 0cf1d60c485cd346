"""Proofs of training steps for a pull request and on one screen: what is refuted first, at most 60 and 40 lines."""

from __future__ import annotations

import io

from rich.console import Console

from samebits.report.markdown_fit import LINES as MARKDOWN_LINES
from samebits.report.prove_model import StepDocument, failing_steps, show_steps, steps_proved_markdown
from samebits.report.screen import LINES
from tests.support.evidence_documents import step_leaf, steps

REFUTED = [
    step_leaf(config=f"m/c{n}", verdict="different", witness="loss[] is 2.0 in the reference, 3.0 here", replay="again")
    for n in range(60)
]


def test_many_steps_take_sixty_lines_at_most() -> None:
    text = steps_proved_markdown(steps(*REFUTED, step_leaf()))
    assert len(text.splitlines()) <= MARKDOWN_LINES
    assert text.startswith("### samebits prove model: refuted\n")
    assert "1. **60 of 61 steps refuted, first in " in text


def test_steps_with_one_leaf_are_one_group() -> None:
    undecided = step_leaf(config="m/d", verdict="error", reason="no rule")
    first, second = failing_steps(steps(undecided, *REFUTED))
    assert first.title.startswith("60 of 61 steps refuted") and second.title.startswith("1 of 61 steps undecided")
    assert first.next_command == "again"


def test_the_screen_holds_them() -> None:
    file = io.StringIO()
    show_steps(Console(file=file, width=250, markup=False, highlight=False), steps(*REFUTED))
    lines = file.getvalue().splitlines()
    assert len(lines) <= LINES and lines[-1] == "next: again"


def test_steps_that_hold_pass() -> None:
    document: StepDocument = steps(step_leaf())
    assert steps_proved_markdown(document).startswith("### samebits prove model: proved\n")
