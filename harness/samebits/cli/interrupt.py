"""The end of an interrupted run: its report is written as a whole, and nothing is waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

import click

from samebits.cli.common import ends_with, printed
from samebits.host.interrupts import Stop, handled


def require_not_interrupted() -> None:
    """Raise what a callback swallowed while the command was imported, as jax's callback of the collector can.

    Raises:
        KeyboardInterrupt: Ctrl-C has arrived since the process began.
    """
    context = click.get_current_context(silent=True)
    stop = None if context is None else context.find_root().obj
    if isinstance(stop, Stop):
        stop.require_none()


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Inside, signals are ignored, so that a report is written as a whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handled(signal.SIG_IGN):
        yield


def exit_without_waiting(code: int) -> NoReturn:
    """End the process without waiting for compilations that are under way, which can take minutes."""
    code = printed(code)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    ends_with(code)
    os._exit(code)
