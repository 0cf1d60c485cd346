"""Ctrl-C, SIGTERM and a closed terminal: one request, however many signals, and children that it does not reach."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import ClassVar

ONE_REQUEST = 1.0
"""Seconds within which several signals are one request: a group of processes gets one each, and passes its own on."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a run to end; SIGHUP comes when its terminal is closed."""


class Interrupted(SystemExit):
    """The end of a process in which Ctrl-C left nothing to report."""


class Stop:
    """Whether a signal arrived. The flag remains set where the exception is lost in a callback that cannot raise."""

    _listening: ClassVar[list[Stop]] = []

    def __init__(self) -> None:
        self.asked = False
        self._last: float | None = None

    @contextlib.contextmanager
    def listening(self, *signals: signal.Signals) -> Iterator[Stop]:
        """Set the flag and raise `KeyboardInterrupt` at a signal inside, by default one of `ENDING`."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return

        def stop(number: int, frame: FrameType | None) -> None:
            before, self._last = self._last, time.monotonic()
            self.asked = True
            if before is None or self._last - before > ONE_REQUEST:
                raise KeyboardInterrupt

        with handled(stop, signals or ENDING):
            Stop._listening.append(self)
            try:
                yield self
            finally:
                Stop._listening.remove(self)

    @staticmethod
    def caused(error: BaseException) -> bool:
        """Return whether a `KeyboardInterrupt` is Ctrl-C: code of the user may raise it too.

        Args:
            error: that was raised; where no `Stop` is active, every `KeyboardInterrupt` is taken for Ctrl-C.
        """
        heard = Stop._listening
        return isinstance(error, KeyboardInterrupt) and (not heard or any(stop.asked for stop in heard))

    def require_none(self) -> None:
        """Raise the interrupt that a callback swallowed."""
        if self.asked:
            raise KeyboardInterrupt


@contextlib.contextmanager
def handled(handler: signal._HANDLER, signals: tuple[signal.Signals, ...] = ENDING) -> Iterator[None]:
    """Handle signals otherwise inside; not SIGHUP where it is ignored, as under `nohup`."""
    signals = tuple(
        number for number in signals if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    )
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def withheld_from_children() -> Iterator[None]:
    """Start processes inside that no terminal ends, however early; what arrives here meanwhile waits.

    A terminal sends its signals to the whole group, and only the parent answers them. A handler in the child would be
    too late: it imports jax before a line of ours runs.
    """
    from multiprocessing import resource_tracker  # which most commands do not need, and so the next one

    from samebits.host.subprocesses import current_folder_ignored

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])  # the process of the resource tracker inherits that
        with current_folder_ignored():
            resource_tracker.ensure_running()  # it unblocks SIGINT where it starts its process
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
