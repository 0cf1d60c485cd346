"""Tables whose cells are whole: as a table where it fits, else as lists."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from samebits.report.tables import Cell, show_whole

HEADS = ("golden", "loss", "ulps", "reason")
ROWS: list[list[Cell]] = [
    ["toy/one", "4.046679019927979", Text("12345678"), "a reason of several words that may be wrapped"],
    ["toy/two", "0.5", "", "none"],
]


def lines(width: int) -> list[str]:
    file = io.StringIO()
    show_whole(Console(file=file, width=width, force_terminal=True, color_system=None), HEADS, ROWS, ("reason",))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_wide_terminal_has_a_row_for_each() -> None:
    assert lines(120) == [
        "golden   loss               ulps      reason",
        "toy/one  4.046679019927979  12345678  a reason of several words that may be wrapped",
        "toy/two  0.5                          none",
    ]


def test_text_is_wrapped_first() -> None:
    assert lines(64) == [
        "golden   loss               ulps      reason",
        "toy/one  4.046679019927979  12345678  a reason of several words",
        "                                      that may be wrapped",
        "toy/two  0.5                          none",
    ]


def test_then_rows_are_lists() -> None:
    assert lines(40) == [
        "toy/one",
        "  loss 4.046679019927979, ulps 12345678,",
        "  reason a reason of several words that",
        "  may be wrapped",
        "toy/two",
        "  loss 0.5, reason none",
    ]
    assert "".join(lines(5)).count("4.046679019927979") == 1
