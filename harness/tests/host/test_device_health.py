"""A device that rejects what it is given, or returns something else, is named; one that was never started is not."""

import jax
import numpy as np
import pytest

from samebits.host import environment
from samebits.host.device_health import device_failure
from tests.support import failing_device


@pytest.fixture(autouse=True)
def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_device.mend_after(monkeypatch)


def test_devices_that_work() -> None:
    environment.devices_here()
    assert device_failure() is None


def test_a_guard_of_the_user_is_no_failure() -> None:
    environment.devices_here()
    with jax.transfer_guard("disallow_explicit"):
        assert device_failure() is None


def test_a_device_that_rejects_everything() -> None:
    failing_device.fail()
    named = device_failure()
    assert named is not None and named.startswith("device ")
    assert named.endswith(f" failed: {failing_device.MESSAGE}")


def test_a_device_that_returns_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    device = environment.devices_here()[0]
    monkeypatch.setattr("jax.device_put", lambda value, device: np.uint32(0))
    assert device_failure() == f"device {device} failed: it returned 0 for 1"


def test_nothing_is_started_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_device.fail()
    monkeypatch.setattr(environment, "backend_started", lambda: False)
    assert device_failure() is None
