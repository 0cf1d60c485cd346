from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from samebits.cluster import ray_node
from samebits.cluster.ray_node import MESSAGES, Held, Over, tasks_on
from samebits.engine.work import Chunk, Ended, Event, Finished, ProcessExit, Started


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

    loss = ProcessExit(kind="signal", text="SIGSEGV", last_words="here\nand there")
    said = [Started("a"), Finished("a", (msgspec.Raw(b'{"x":1}'),), ("file",)), Held(7), Over(loss), Over(None)]
    assert MESSAGES.decode(msgspec.json.encode(said)) == said


class Played:
    """A process that says each thing so many seconds after the one before, and ends when it is killed."""

    def __init__(self, script: list[tuple[float, Event | Ended]], monkeypatch: pytest.MonkeyPatch) -> None:
        self.script, self.now = script, 0.0
        self.killed: list[ProcessExit] = []
        monkeypatch.setattr(ray_node, "WorkerProcesses", lambda work, count, forward: self)
        monkeypatch.setattr(ray_node, "time", SimpleNamespace(monotonic=lambda: self.now))

    def submit(self, chunk: Chunk) -> None: ...

    def close(self) -> None: ...

    def memory(self, number: int) -> None: ...

    def kill(self, number: int, loss: ProcessExit) -> None:
        self.killed.append(loss)
        self.script = [(0.0, Ended(loss))]

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        after, event = self.script[0]
        if after > 1:
            self.now, self.script[0] = self.now + 1, (after - 1, event)
        else:
            self.now, self.script = self.now + after, self.script[1:]
            yield 0, event


def told(played: Played, seconds: float | None) -> list[Any]:
    relay = ray_node._Relay(None, Chunk(number=0, items=()), 2**40, seconds)  # type: ignore[arg-type]
    return [message for text in relay.messages() for message in MESSAGES.decode(text)]


def test_an_item_that_takes_too_long_is_ended_on_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of one item, also where the next has been started ahead; not that of the chunk."""
    of_two: list[tuple[float, Event | Ended]] = [
        (5, Started("a")),
        (4, Started("b")),
        (1, Finished("a", ())),
        (5, Finished("b", ())),
        (5, Started("c")),
    ]
    quick = Played([*of_two, (5, Finished("c", ())), (1, Ended(None))], monkeypatch)
    assert told(quick, 6)[-1] == Over(None) and not quick.killed
    late = Played([*of_two, (9, Finished("c", ())), (1, Ended(None))], monkeypatch)
    assert told(late, 6)[-1] == Over(ProcessExit(kind="timeout", text="more than 6 s"))
    assert (len(late.killed), late.now) == (1, 27.0)
    silent = Played([(125, Started("a")), (5, Finished("a", ())), (1, Ended(None))], monkeypatch)
    assert told(silent, 6)[-1] == Over(None), "a process may take two minutes longer to start"
    stuck = Played([(200, Started("a"))], monkeypatch)
    assert told(stuck, 6)[-1] == Over(ProcessExit(kind="timeout", text="more than 6 s")) and stuck.now == 127.0
    between = Played([(1, Started("a")), (1, Finished("a", ())), (200, Ended(None))], monkeypatch)
    assert told(between, 6)[-1] == Over(ProcessExit(kind="timeout", text="more than 6 s"))
    ahead = Played([(1, Started("a")), (4, Started("b")), (4, Finished("a", ())), (1, Ended(None))], monkeypatch)
    assert told(ahead, 6)[-1] == Over(ProcessExit(kind="timeout", text="more than 6 s"))
    left_alone = Played([*of_two, (900, Finished("c", ())), (1, Ended(None))], monkeypatch)
    assert told(left_alone, None)[-1] == Over(None) and not left_alone.killed
