"""Records what the judgement of a point asks of the user's code: programs, arguments and inputs, with their answers.

A point whose programs are the same, and for which the same questions have the same answers, has the same result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any


class Asked:
    """The questions of one point, in their order.

    Attributes:
        answers: by question, what it was about and what the answer was.
        outside: why these are not all questions, or why one cannot be asked again; None where they are and can.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[Hashable, ...], Any] = {}
        self.outside: str | None = None

    def extend(self, other: Asked) -> None:
        """Add the questions of another record, whose conclusion is used."""
        self.answers |= other.answers
        self.outside = self.outside or other.outside


_OPEN: list[Asked] = []
"""The records that are being made in this process, the innermost last: code that asks is called by code that asks."""


@contextlib.contextmanager
def recorded(questions: Asked) -> Iterator[None]:
    """Record questions there, inside."""
    _OPEN.append(questions)
    try:
        yield
    finally:
        _OPEN.pop()


def record(question: tuple[Hashable, ...], *answer: Any) -> None:
    """Record a question with what is needed to ask it again, and the answer."""
    if _OPEN:
        _OPEN[-1].answers[question] = answer


def record_all(questions: Asked) -> None:
    """Record questions that an earlier point has asked, whose conclusion is used again."""
    if _OPEN:
        _OPEN[-1].extend(questions)


def record_outside(why: str) -> None:
    """Record that user code is asked in a way that is not recorded: the result is not remembered by its programs."""
    if _OPEN:
        _OPEN[-1].outside = why
