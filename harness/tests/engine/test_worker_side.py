"""An error that is no item's own counts in a process that has done nothing else; elsewhere the process ends."""

import pytest

from samebits.engine import worker_processes
from samebits.engine.work import Event, Finished, Started, Trouble, Unusable

OURS = Trouble("rope", "samebits itself raised OSError", 3)


@pytest.mark.parametrize(
    ("event", "used", "unusable"),
    [
        (OURS, False, None),
        (OURS, True, Unusable("exit", "rope: samebits itself raised OSError")),
        (Trouble("rope", "has no variant 'fast'", 2), True, None),
        (Finished("rope/1", ()), True, None),
        (Started("rope/1"), True, None),
    ],
)
def test_when_a_process_ends_itself(
    event: Event, used: bool, unusable: Unusable | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes._WORKER, "used", used)
    assert worker_processes._unusable(event) == unusable


def test_a_failed_device_ends_it_after_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "device_failure", lambda: "device cuda:0 failed")
    assert worker_processes._unusable(Finished("rope/1", ())) == Unusable("device", "device cuda:0 failed")
    assert worker_processes._unusable(Started("rope/1")) is None
