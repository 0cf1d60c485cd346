"""Of several forms the longest that fits: nothing is cut that would have fitted, and nothing printed that does not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from samebits.report.screen import LINES, Form, cut, height, height_of, in_turn, longest, show_fitted
from samebits.report.tables import line


def lines(count: int, text: str = "x") -> Form:
    def form(to: Console) -> None:
        for _ in range(count):
            line(to, text)

    return form


def shown(*counts: int) -> list[str]:
    file = io.StringIO()
    show_fitted(Console(file=file, width=80), [lines(n, f"{n} lines") for n in counts], [("end", "")], "hint")
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("counts", "form", "hinted"), [((39, 5), 39, False), ((40, 38), 38, True), ((40, 39), 39, True), ((60,), 60, False)]
)
def test_the_longest_form_that_fits(counts: tuple[int, ...], form: int, hinted: bool) -> None:
    printed = shown(*counts)
    assert printed == [f"{form} lines"] * form + ["hint"] * hinted + ["end"]


def test_no_screen_is_exceeded_where_a_form_fits() -> None:
    assert all(len(shown(*counts)) <= LINES for counts in ((39,), (200, 38), (200, 90, 1)))


def test_a_long_line_takes_several() -> None:
    assert [height("x" * n, 10) for n in (0, 10, 11, 21)] == [1, 1, 2, 3]
    assert height_of(lines(2, "x" * 25), 10) == 6
    assert height_of(in_turn(lines(2), lines(3)), 10) == 5
    assert longest([lines(3), lines(2)], 80, 1) is not None


def test_a_cut_text_says_so() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"
