"""Ctrl-C and SIGTERM: the run stops, and its results so far are still shown and written."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from samebits.host.own_output import own_stdout

ONE_REQUEST = 1.0
"""Seconds within which several signals are one request: a group of processes gets one each, and passes its own on."""


class Stop:
    """Whether a signal arrived. The flag remains set where the exception is lost in a callback that cannot raise."""

    def __init__(self) -> None:
        self.asked = False
        self._last: float | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[Stop]:
        """Inside, a signal sets the flag and raises `KeyboardInterrupt`; afterwards signals are as before."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return

        def stop(number: int, frame: FrameType | None) -> None:
            before, self._last = self._last, time.monotonic()
            self.asked = True
            if before is None or self._last - before > ONE_REQUEST:
                raise KeyboardInterrupt

        with _handled(stop):
            yield self


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Inside, signals are ignored, so that a report is written as a whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(signal.SIG_IGN):
        yield


def exit_without_waiting(code: int) -> None:
    """End the process without waiting for compilations that are under way, which can take minutes."""
    own_stdout().flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def _handled(handler: signal._HANDLER) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
