"""A limit on the time that a part of a program takes, asked for between its steps."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTime(Exception):
    """The time of the innermost `limited` is over."""


@contextlib.contextmanager
def limited(end: float) -> Iterator[None]:
    """Let `require_time` raise inside, from a moment of `time.monotonic` on."""
    before = _END.set(min(end, _END.get()))
    try:
        yield
    finally:
        _END.reset(before)


def require_time() -> None:
    """Go on where there is time left.

    Raises:
        OutOfTime: there is none.
    """
    if time.monotonic() > _END.get():
        raise OutOfTime
