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


class _Recorder:
    """What is recorded in this process: one object, because code that asks is called by code that asks.

    Attributes:
        open: the records that are being made, the innermost last.
    """

    def __init__(self) -> None:
        self.open: list[Asked] = []


_RECORDER = _Recorder()


@contextlib.contextmanager
def recorded(questions: Asked) -> Iterator[None]:
    """Record questions there, inside."""
    _RECORDER.open.append(questions)
    try:
        yield
    finally:
        _RECORDER.open.pop()


def record(question: tuple[Hashable, ...], *answer: Any) -> None:
    """Record a question with what is needed to ask it again, and the answer."""
    if _RECORDER.open:
        _RECORDER.open[-1].answers[question] = answer


def record_all(questions: Asked) -> None:
    """Record questions that an earlier point has asked, whose conclusion is used again."""
    if _RECORDER.open:
        _RECORDER.open[-1].extend(questions)


def record_outside(why: str) -> None:
    """Record that user code is asked in a way that is not recorded: the result is not remembered by its programs."""
    if _RECORDER.open:
        _RECORDER.open[-1].outside = why
