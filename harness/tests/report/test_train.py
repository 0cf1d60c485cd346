"""What a report of training runs says about runs that are in no comparison, and about a run held against itself."""

from __future__ import annotations

import io
import math
from dataclasses import replace

from rich.console import Console

from samebits.report.html.train_section import train_section
from samebits.report.train import (
    TrainDocument,
    closing,
    exit_code,
    failing_runs,
    pairing_table,
    show_trained,
    trained_markdown,
    uncompared_lines,
)
from samebits.train.compare import Uncompared
from samebits.train.distance import FAR
from samebits.train.parts import SAME_RUN
from tests.report.html.run_samples import run, trained

LINE = "two: held against nothing: bfloat16 on another mesh"


def _partly(count: int = 1) -> TrainDocument:
    """Three runs, of which the last is compared with the first."""
    document = trained(run("one"), run("again"))
    names = ["two", *(f"run{number}" for number in range(count - 1))]
    alone = tuple(Uncompared(run=name, reason="bfloat16 on another mesh") for name in names)
    return replace(document, uncompared=alone, summary=replace(document.summary, uncompared=count))


def _shown(document: TrainDocument) -> str:
    file = io.StringIO()
    show_trained(Console(file=file, width=250, markup=False, highlight=False), document)
    return file.getvalue()


def test_a_run_held_against_nothing_is_named_and_counted() -> None:
    document = _partly()
    assert uncompared_lines(document) == [LINE]
    assert closing(document).endswith("; all as expected, but 1 run held against nothing")
    assert exit_code(document) == 3
    assert LINE in _shown(document) and f"- {LINE}" in trained_markdown(document)
    section = train_section(document)
    assert section.state == "incomplete" and LINE in section.body and "held against nothing" in section.headline


def test_the_terminal_names_the_first_of_many() -> None:
    text = _shown(_partly(30))
    assert LINE in text and "more runs held against nothing" in text


def test_where_all_runs_are_compared_nothing_is_said_of_it() -> None:
    document = trained(run("one"), run("again"))
    assert exit_code(document) == 0 and closing(document).endswith("; all as expected")
    assert "held against nothing" not in _shown(document) + trained_markdown(document)


def test_a_run_held_against_itself_is_counted() -> None:
    document = trained(run("one"), run("again"))
    (comparison,) = document.comparisons
    document = replace(document, comparisons=(replace(comparison, reason=SAME_RUN, expected="bitwise"),))
    assert "(1 of the same configuration, run twice); " in closing(document)
    assert "again is one once more: that shows that its bits repeat" in trained_markdown(document)


def test_a_loss_that_is_not_finite_is_no_distance() -> None:
    """Nor is an array: its distance is infinite, and the headroom none."""
    document = trained(run("a"), run("b"))
    (first, *others) = document.comparisons
    broken = replace(first, max_ulp=FAR, worst_leaf="gradient/w", distance=math.inf, verdict="different", ok=False)
    document = replace(document, comparisons=(broken, *others))
    text = _shown(document)
    assert f"not finite of {broken.envelope} ulp" in text and str(FAR) not in text
    assert failing_runs(document)[0].example.endswith("the loss of one of them is not finite")
    assert pairing_table(document)[0][-1].startswith("gradient/w not finite of ")
