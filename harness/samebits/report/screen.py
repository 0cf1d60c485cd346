"""One screen for the end of a command: of several forms of a report the longest that fits."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from rich.console import Console

from samebits.report.tables import line

LINES = 40
"""Lines of a report on one screen: with its end, without its head, which says the environment."""

Form = Callable[[Console], None]
"""Prints one form of a part of a report."""

Styled = tuple[str, str]
"""A line with its style."""


def height(text: str, width: int) -> int:
    """How many lines a text takes in a terminal of so many columns."""
    return max(1, -(-len(text) // width))


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, on one line."""
    text = text.rstrip()
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}…"


def height_of(form: Form, width: int) -> int:
    """How many lines a form takes in a terminal of so many columns."""
    written = io.StringIO()
    form(Console(file=written, width=width, markup=False, highlight=False, emoji=False))
    return sum(height(text, width) for text in written.getvalue().splitlines())


def tall(lines: Sequence[Styled], width: int) -> int:
    """Return how many lines such lines take in a terminal of so many columns."""
    return sum(height(text, width) for text, _ in lines)


def longest(forms: Sequence[Form], width: int, most: int) -> Form:
    """The first form that takes no more than so many lines; the last where none does.

    Args:
        forms: the longest first.
        width: columns of the terminal.
        most: lines.
    """
    return next((form for form in forms if height_of(form, width) <= most), forms[-1])


def show_fitted(to: Console, forms: Sequence[Form], end: Sequence[Styled], hint: str) -> None:
    """The longest form of a report that leaves room for its end, then the end; where it is not the first, a hint.

    Args:
        to: where it is printed.
        forms: the longest first.
        end: the last lines.
        hint: how the first form is printed.
    """
    left = LINES - sum(height(text, to.width) for text, _ in end)
    form = forms[0]
    if len(forms) > 1 and height_of(form, to.width) > left:
        form = longest(forms[1:], to.width, left - 1)
    form(to)
    for text, style in [*([] if form is forms[0] else [(hint, "dim")]), *end]:
        line(to, text, style)


def in_turn(*forms: Form) -> Form:
    """Several forms, one after the other."""

    def form(to: Console) -> None:
        for part in forms:
            part(to)

    return form
