"""Plain tables: aligned columns, failures in red, lines that are never broken."""

from __future__ import annotations

import io

from rich.console import Console

from samebits.report.tables import WIDTH, line, show_table


def printed(colour: bool = False) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=WIDTH, force_terminal=colour, color_system="standard" if colour else None), file


def test_numbers_are_aligned_to_the_right_and_words_to_the_left() -> None:
    to, file = printed()
    show_table(to, ["run", "loss"], [["one", "5.25"], ["thirteen", "10.5"]])
    assert [text.rstrip() for text in file.getvalue().splitlines()] == [
        "  run       loss",
        "  one       5.25",
        "  thirteen  10.5",
    ]


def test_a_row_that_fails_is_red_and_others_are_not() -> None:
    to, file = printed(colour=True)
    show_table(to, ["run", "verdict"], [["one", "holds"], ["two", "FAILS"]])
    honest, failing = file.getvalue().splitlines()[1:]
    assert "\x1b[1;31m" in failing and "\x1b[1;31m" not in honest


def test_markup_in_a_cell_is_text() -> None:
    to, file = printed()
    show_table(to, ["index"], [["out[red]"]])
    line(to, "x[0] " * 100)
    table, long = file.getvalue().split("x[0]", 1)
    assert "out[red]" in table and len(long.rstrip("\n").splitlines()) == 1
