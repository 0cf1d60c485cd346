"""SIGHUP in tests, which may themselves run under `nohup`."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGHUP has its usual effect, here and in processes that are started from here."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
