"""Plain tables: aligned columns, lists where they do not fit, lines that are never broken."""

import io
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from samebits.report.terminal import ROW_WIDTH as WIDTH
from samebits.report.terminal import line, show_table


def printed() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=WIDTH), file


def cells(*rows: Sequence[str]) -> list[list[Text]]:
    return [[Text(cell) for cell in row] for row in rows]


def test_numbers_are_aligned_to_the_right_and_words_to_the_left() -> None:
    to, file = printed()
    show_table(to, ["run", "loss"], cells(["one", "5.25"], ["thirteen", "10.5"]), right=["loss"])
    assert [text.rstrip() for text in file.getvalue().splitlines()] == [
        "  run       loss",
        "  one       5.25",
        "  thirteen  10.5",
    ]


def test_markup_in_a_cell_is_text() -> None:
    to, file = printed()
    show_table(to, ["index"], cells(["out[red]"]))
    line(to, "x[0] " * 100)
    table, long = file.getvalue().split("x[0]", 1)
    assert "out[red]" in table and len(long.rstrip("\n").splitlines()) == 1


HEADS = ("golden", "loss", "ulps", "reason")
ROWS = (
    ("toy/one", "4.046679019927979", "12345678", "a reason of several words that may be wrapped"),
    ("toy/two", "0.5", "", "none"),
)


def lines(width: int) -> list[str]:
    file = io.StringIO()
    to = Console(file=file, width=width, force_terminal=True, color_system=None)
    show_table(to, HEADS, cells(*ROWS), wrapped=("reason",))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_wide_terminal_has_a_row_for_each() -> None:
    assert lines(120) == [
        "  golden   loss               ulps      reason",
        "  toy/one  4.046679019927979  12345678  a reason of several words that may be wrapped",
        "  toy/two  0.5                          none",
    ]


def test_text_is_wrapped_first() -> None:
    assert lines(68) == [
        "  golden   loss               ulps      reason",
        "  toy/one  4.046679019927979  12345678  a reason of several words",
        "                                        that may be wrapped",
        "  toy/two  0.5                          none",
    ]


def test_then_rows_are_lists() -> None:
    assert lines(40) == [
        "  toy/one",
        "    loss 4.046679019927979,",
        "    ulps 12345678, reason a reason of",
        "    several words that may be wrapped",
        "  toy/two",
        "    loss 0.5, reason none",
    ]
    assert "".join(lines(5)).count("4.046679019927979") == 1
