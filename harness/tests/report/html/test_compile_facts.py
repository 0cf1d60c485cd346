"""Figures of compiled sides as rows and bars: with ratios, without what no side has, and readable."""

from __future__ import annotations

import pytest

from samebits.report.html.compile_facts import (
    collectives_sentence,
    drawn_figures,
    fact_rows,
    operations_text,
    side_names,
    size_text,
)
from tests.report.html.run_samples import side, two_sides


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 KB"),
        (16_940_000, "16.9 MB"),
        (7_026_100_000, "7.03 GB"),
        (125e9, "125 GB"),
    ],
)
def test_sizes_are_read_at_a_glance(size: float | None, text: str) -> None:
    assert size_text(size) == text


def test_the_table_has_the_figures_of_the_bars() -> None:
    programs = two_sides().results
    rows = {row[0]: row[1:] for row in fact_rows(programs)}
    for figure in drawn_figures(programs):
        for text, cell in zip(figure.texts.values(), rows[figure.name], strict=True):
            assert cell == text or cell.startswith(f"{text} ("), (figure, cell)


def test_sizes_are_multiples_of_the_references() -> None:
    rows = {row[0]: row[1:] for row in fact_rows(two_sides().results)}
    assert rows["temporary memory"] == ["7.03 GB", "1.61 GB (0.229x)"]
    assert rows["while loops"] == ["3 (12 trips)", "0"]
    assert rows["all-gather"] == ["1", "0"]
    assert "gathers" not in rows and "scatters" not in rows


def test_loops_and_collectives_in_words() -> None:
    assert collectives_sentence(two_sides().results) == (
        "gather: all-gather 1, 3 while loops with 12 trips; permute: no collectives, no loop"
    )
    unknown = side(while_loops=1, loop_turns=None)
    assert "1 while loop with an unknown number of trips" in collectives_sentence([unknown])


def test_figures_that_no_side_has_are_not_drawn() -> None:
    names = [figure.name for figure in drawn_figures([side(wire_bytes=0), side("b", wire_bytes=None)])]
    assert names == ["temporary memory", "peak memory", "memory traffic"]


def test_a_program_with_options_has_a_name_of_its_own() -> None:
    assert side_names([side(), side(options={"a": "b"})]) == ["gather", "gather + options"]


def test_many_changed_operations_are_counted() -> None:
    changed = {f"op{number}": (number, 0) for number in range(20)}
    text = operations_text(changed, most=3)
    assert text == "op0 0 → 0, op1 1 → 0, op2 2 → 0, and 17 more"
