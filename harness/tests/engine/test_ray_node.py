from __future__ import annotations

import pytest

from samebits.engine.ray_node import MESSAGES, Held, Over, tasks_on
from samebits.engine.work import Finished, Loss, Started


@pytest.mark.parametrize(
    ("resources", "task", "count"),
    (
        ({"CPU": 8.0}, {"CPU": 1.0}, 8),
        ({"CPU": 8.0}, {"CPU": 3.0}, 2),
        ({"CPU": 0.9}, {"CPU": 0.3}, 3),
        ({"CPU": 8.0, "TPU": 4.0}, {"CPU": 1.0, "TPU": 4.0}, 1),
        ({"CPU": 8.0}, {"CPU": 1.0, "TPU": 4.0}, 0),
    ),
)
def test_tasks_for_which_a_node_has_room(resources: dict[str, float], task: dict[str, float], count: int) -> None:
    assert tasks_on(resources, task) == count


def test_messages_survive_the_way() -> None:
    import msgspec

    loss = Loss(kind="signal", text="SIGSEGV", last_words="here\nand there")
    said = [Started("a"), Finished("a", (msgspec.Raw(b'{"x":1}'),), ("file",)), Held(7), Over(loss), Over(None)]
    assert MESSAGES.decode(msgspec.json.encode(said)) == said
