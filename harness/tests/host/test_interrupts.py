"""A signal ends a run once, however many processes of its group pass it on, and is blocked in its children."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from samebits.host import interrupts
from samebits.host.interrupts import Stop, withheld_from_children
from tests.support.hangup import heard as heard


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


def test_a_lost_request_is_raised_later() -> None:
    """As a callback of the garbage collector loses it, in which Python prints an exception and goes on."""
    stop = Stop()
    stop.require_none()
    with stop.listening(signal.SIGINT):
        with contextlib.suppress(KeyboardInterrupt):
            _send()
        with pytest.raises(KeyboardInterrupt):
            stop.require_none()


def test_ctrl_c_is_told_from_code_that_raises_it() -> None:
    assert Stop.caused(KeyboardInterrupt()), "where nobody listens"
    with Stop().listening() as outer, Stop().listening():
        assert not Stop.caused(KeyboardInterrupt()) and not Stop.caused(ValueError())
        outer.asked = True
        assert Stop.caused(KeyboardInterrupt())


@pytest.mark.usefixtures("heard")
def test_a_closed_terminal_is_a_request() -> None:
    with Stop().listening() as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.asked


def test_under_nohup_a_closed_terminal_is_none() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop().listening() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.asked
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_the_given_signals_are_handled() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop().listening(signal.SIGINT):
        assert signal.getsignal(signal.SIGTERM) is before


CHILD = "import signal; print({signal.SIGINT, signal.SIGHUP} <= signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def test_children_are_started_with_it_blocked() -> None:
    """However early it comes: a handler would be too late."""
    with withheld_from_children():
        inside = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    outside = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert (inside.stdout, outside.stdout) == ("True\n", "False\n")


def test_what_arrives_meanwhile_waits() -> None:
    with Stop().listening(signal.SIGINT) as stop:
        with pytest.raises(KeyboardInterrupt), withheld_from_children():
            _send()
        assert stop.asked
