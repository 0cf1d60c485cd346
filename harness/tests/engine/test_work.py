"""What every work reports, items one after the other, shards, last words, and how many processes the driver uses."""

import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.engine.drive import FEW, Limits, drive
from samebits.engine.work import (
    Chunk,
    Ended,
    Event,
    Executor,
    Finished,
    Item,
    OneByOne,
    ProcessExit,
    Reached,
    Remark,
    Shard,
    Started,
    Trouble,
    Work,
    finished,
    from_text,
    last_words,
    lost_words,
    remarks,
    to_text,
    trouble,
    without_stacks,
)
from samebits.errors import DeclarationError, RequestError
from samebits.host.isolation import note, take_notes
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, toy_items


def test_rows_are_encoded_one_by_one() -> None:
    """As the journal has them."""
    event = finished("a", [Problem(pair="p", message="m", exit_code=2)], ["file"])
    assert (event.key, event.reads, len(event.rows)) == ("a", ("file",), 1)
    assert bytes(event.rows[0]) == b'{"pair":"p","message":"m","exit_code":2}'


def test_text_has_infinities_and_integer_keys() -> None:
    """Which JSON as such does not."""
    value = {1: {"a": math.inf, "b": math.nan, "c": 0.1 + 0.2}}
    read = from_text(to_text(value), dict[int, dict[str, float]])
    assert read[1]["a"] == math.inf and math.isnan(read[1]["b"]) and read[1]["c"] == 0.1 + 0.2


def test_notes_are_taken_once() -> None:
    """They are of this process, and go to the one that reports."""
    take_notes()
    list(remarks())  # those of tests that ran before, in the same process
    note("a setting was changed")
    assert list(remarks()) == [Remark(text="a setting was changed")]
    assert list(remarks()) == []


def test_an_error_of_ours_keeps_its_exit_code() -> None:
    event = trouble("p", DeclarationError("the pair is wrong"))
    assert (event.pair, event.message, event.exit_code) == ("p", "the pair is wrong", 2)


def test_a_bug_prints_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """It could not be told, and the line asks for a report."""
    try:
        raise ZeroDivisionError("planted")
    except ZeroDivisionError as error:
        event = trouble("p", error)
    assert event.exit_code == 3 and "samebits itself raised ZeroDivisionError: planted" in event.message
    assert "Traceback" in capsys.readouterr().err


def test_a_loss_is_told_with_its_stage() -> None:
    loss = ProcessExit(kind="exit", text="exit code 3", last_words="Check failed: x")
    assert lost_words(loss, "compiling") == "its process ended while compiling: exit code 3; Check failed: x"


@dataclass(frozen=True)
class Squared:
    """A row."""

    number: int


class Squares(OneByOne[Squared]):
    """Squares numbers; a negative one is a wrong declaration."""

    kind = "squares"
    row = Squared

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[int, int] | None = None

    def steps(self, item: Item) -> Iterator[str | Squared]:
        yield "squaring it"
        self._known = {**(self._known or {}), item.payload: item.payload**2}
        note(f"squared {item.payload}")
        if item.payload < 0:
            raise DeclarationError("negative")
        yield Squared(item.payload**2)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Squared:
        return Squared(0)


def item(number: int) -> Item:
    return Item(key=f"k{number}", pair=f"p{number}", words="", replay="", group=0, payload=number)


def test_an_item_that_raises_leaves_the_others_as_they_are() -> None:
    events = list(Squares("toy").run([item(-1), item(3)], 0))
    assert [type(event) for event in events] == [Started, Reached, Trouble, Remark, Started, Reached, Finished, Remark]
    assert events[1:4] == [
        Reached("k-1", "squaring it"), Trouble("p-1", "negative", DeclarationError.exit_code), Remark("squared -1"),
    ]  # fmt: skip
    (done,) = (event for event in events if isinstance(event, Finished))
    assert (done.key, [bytes(row) for row in done.rows]) == ("k3", [b'{"number":9}'])


def test_what_is_cached_stays_in_its_process() -> None:
    work = Squares("toy")
    list(work.run([item(2)], 0))
    there = pickle.loads(pickle.dumps(work))
    assert (work._known, there._known, there.name) == ({2: 4}, None, "toy")


def _items(groups: list[int]) -> list[Item]:
    return [replace(item, group=group) for item, group in zip(toy_items(*["good"] * len(groups)), groups, strict=True)]


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 6))
def test_shards_are_a_partition(groups: list[int], count: int) -> None:
    items = _items(groups)
    parts = [Shard(number, count).of(items) for number in range(1, count + 1)]
    assert sorted(item.key for part in parts for item in part) == sorted(item.key for item in items)
    for group in set(groups):
        assert sum(any(item.group == group for item in part) for part in parts) == 1


def test_shards_of_groups_are_about_equal() -> None:
    parts = [Shard(number, 3).of(_items(list(range(10)))) for number in (1, 2, 3)]
    assert [len(part) for part in parts] == [4, 3, 3]


@pytest.mark.parametrize("text", ["0/4", "5/4", "x", "3", "1/0", "-1/4", "1/2/3", "", "1/x", " 1/4"])
def test_a_wrong_shard_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="expected K/N with K from 1 to N, such as 3/8"):
        Shard.parse(text)


def test_a_shard_reads_as_it_is_written() -> None:
    assert str(Shard.parse("3/8")) == "3/8"


STACK = b"""Fatal Python error: Aborted

Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/site-packages/jax/_src/pjit.py", line 3 in call
  File "/opt/me/fast.py", line 12 in fused
  File "/opt/me/train.py", line 40 in step

Extension modules: numpy, jaxlib (total: 2)
"""


def test_the_innermost_line_of_the_user_is_named() -> None:
    assert last_words(STACK) == "it was at /opt/me/fast.py:12 in fused"


def test_a_failed_check_of_xla_is_quoted() -> None:
    text = b"loading\nF0000 00:00:17 all_reduce.cc:12] Check failed: a == b (1 vs. 2)\n" + STACK
    assert last_words(text).startswith("F0000 00:00:17 all_reduce.cc:12] Check failed: a == b (1 vs. 2); it was at ")


@pytest.mark.parametrize("head", [b"Fatal Python error: ", b"Current thread 0x1", b"Thread 0x1"])
def test_stacks_are_not_shown(head: bytes) -> None:
    assert without_stacks(b"step 1\n" + head + b"rest\n") == b"step 1\n"
    assert without_stacks(b"a Thread 0x1 in a line\n") == b"a Thread 0x1 in a line\n"


def test_a_silent_end_has_no_words() -> None:
    assert last_words(b"") == "" and last_words(b"step 1\nstep 2\n") == ""


class TwoSlots(Executor):
    """Two processes in simulated time; each item takes some seconds."""

    slots = 2

    def __init__(self, work: Work[ToyRow], seconds: float, head_start: float) -> None:
        self.head_start = head_start
        self.time, self.most = 0.0, 0
        self._work, self._seconds = work, seconds
        self._running: dict[int, tuple[float, Chunk]] = {}

    def submit(self, chunk: Chunk) -> None:
        """Start a chunk."""
        self._running[chunk.number] = self.time + self._seconds * len(chunk.items), chunk
        self.most = max(self.most, len(self._running))

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Let time pass; what ends until then has done its items."""
        self.time += seconds
        for number, (end, chunk) in list(self._running.items()):
            if end <= self.time:
                del self._running[number]
                for event in self._work.run(chunk.items, chunk.ahead):
                    yield number, event
                yield number, Ended()

    def kill(self, number: int, loss: ProcessExit) -> None:
        """Nothing here takes too long."""
        raise AssertionError(loss)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("items", "seconds", "head_start", "most"),
    [
        (2, 0.3, 3.0, 1),
        (FEW, 0.3, 3.0, 1),
        (2, 60.0, 3.0, 2),  # long items do not wait for each other
        (FEW + 1, 0.3, 3.0, 2),
        (2, 0.3, 0.0, 2),
    ],
)
def test_a_few_short_items_are_done_by_one_process(items: int, seconds: float, head_start: float, most: int) -> None:
    work = ToyWork()
    executor = TwoSlots(work, seconds, head_start)
    waiting = [item for number in range(items) for item in toy_items("good", pair=f"toy{number}")]
    done = drive(work, waiting, executor, limits=Limits(), on_problem=_no_problem, clock=lambda: executor.time)
    assert sorted(one.item.key for one in done) == sorted(item.key for item in waiting)
    assert executor.most == most


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)
