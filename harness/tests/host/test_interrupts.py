"""A signal ends a run once, however many processes of its group pass it on."""

from __future__ import annotations

import os
import signal

import pytest

from samebits.host import interrupts
from samebits.host.interrupts import Stop


def _send() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_signals_of_one_moment_are_one_request() -> None:
    with Stop().listening() as stop:
        with pytest.raises(KeyboardInterrupt):
            _send()
        _send()  # while the run is ended, which must not be cut short
        assert stop.asked


def test_a_later_signal_is_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "ONE_REQUEST", -1.0)
    with Stop().listening():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                _send()
