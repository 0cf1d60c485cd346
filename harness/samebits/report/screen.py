"""How many lines of a terminal a text takes, and how many a screen has."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from rich.console import Console

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
