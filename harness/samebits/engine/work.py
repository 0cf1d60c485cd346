"""What an engine runs: work in items, chunks of which any process can run, and what a process reports meanwhile.

`Work` says what is done, an `Executor` says where; `engine.drive` brings them together, and alone decides what happens
to an item whose process ended.
"""

from __future__ import annotations

import json
import re
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from samebits.errors import COULD_NOT_TELL, RequestError, SamebitsError
from samebits.host.file_reads import READS
from samebits.host.isolation import take_notes
from samebits.user_errors import first_user_frame, one_line, retain, take_tracebacks

Row = TypeVar("Row")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One thing to do, such as a point of a pair; small, since it travels to other processes.

    Args:
        key: unique within its work, and the same in every run: `rope/fused-default-bfloat16-tensor4-auto-forward`.
        pair: or configuration that it belongs to; where that cannot run at all (`Trouble`), none of its items runs.
        words: in messages: `rope: fused, case default, bfloat16, tensor4, auto, forward`.
        group: items of one group share programs and are given to one process where possible.
        payload: what the work needs to do it.
    """

    key: str
    pair: str
    words: str
    replay: str
    group: Hashable
    payload: Any


class Started(msgspec.Struct, frozen=True, tag="started"):
    """An item began; more than one may be under way in a process, since programs are traced ahead."""

    key: str


class Reached(msgspec.Struct, frozen=True, tag="reached"):
    """A stage of an item began, such as `compiling`; the last one is named where a process crashes."""

    key: str
    stage: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """An item is done.

    Args:
        rows: its results, encoded as JSON each.
        reads: files of the user's that were read meanwhile, beside modules.
    """

    key: str
    rows: tuple[msgspec.Raw, ...]
    reads: tuple[str, ...] = ()


class Remark(msgspec.Struct, frozen=True, tag="remark"):
    """A notice to the user, shown once, such as a setting that their code changed."""

    text: str


class UserTraceback(msgspec.Struct, frozen=True, tag="traceback"):
    """Of an exception of the user's code, for `--traceback`."""

    text: str


class Trouble(msgspec.Struct, frozen=True, tag="trouble"):
    """A pair that turned out not to run at all."""

    pair: str
    message: str
    exit_code: int


class Unusable(msgspec.Struct, frozen=True, tag="unusable"):
    """The process is about to end by itself, instead of reporting its event."""

    kind: Literal["device", "exit"]
    text: str


class ChunkDone(msgspec.Struct, frozen=True, tag="chunk done"):
    """The process has nothing more to say of its chunk, and waits for another one."""


Event = Started | Reached | Finished | Remark | UserTraceback | Trouble
"""What a process reports while it runs a chunk."""

STACK_TIME = 0.3
"""Seconds that a process has to write its stacks before it is ended."""

LONGEST = 300
"""Characters of a line that are shown."""

_DUMP = re.compile(rb"^(Fatal Python error: |(?:Current thread|Thread) 0x|Extension modules: )", re.MULTILINE)
_WHY = re.compile(r"Check failed|terminate called|^F\d{4} |rror|what\(\):")


def without_stacks(text: bytes) -> bytes:
    """Return what the user's code wrote: the text before the first stack."""
    match = _DUMP.search(text)
    return text if match is None else text[: match.start()]


def last_words(text: bytes) -> str:
    """Explain why a process ended, as it said so itself, and where it was; empty where it said nothing."""
    said = without_stacks(text)
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    why = [line for line in lines[-20:] if _WHY.search(line)][-1:]
    frame = first_user_frame(text[len(said) :].decode("utf-8", "replace"))
    return "; ".join([*(line[:LONGEST] for line in why), *([f"it was at {frame}"] if frame else [])])


ExitKind = Literal["signal", "exit", "timeout", "memory", "device", "node"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessExit:
    """Why a process ended before its chunk did.

    Args:
        kind: `signal` and `exit`: by itself; `timeout` and `memory`: it was ended for that; `device`: it ended because
            its device had failed; `node`: its machine is gone, which says nothing about the chunk.
        text: for the row of the item: `SIGSEGV`, `exit code 3`, `more than 600 s`.
        last_words: why it ended as it wrote itself, and where in the user's code it was.
    """

    kind: ExitKind
    text: str
    last_words: str = ""

    def said(self) -> str:
        """Return all of it in one line."""
        return f"{self.text}; {self.last_words}" if self.last_words else self.text


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGSEGV`."""
    try:
        return signal.Signals(number).name
    except ValueError:  # of real time, which have none
        return f"signal {number}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A chunk's process is done with it.

    Args:
        loss: why it ended before.
        used: whether it had run other chunks, one of which may be the reason.
    """

    loss: ProcessExit | None = None
    used: bool = False


class Work(ABC, Generic[Row]):
    """What a command has done.

    It is pickled once for each worker process, which calls `run` with one chunk after another: what `run` caches in the
    object is there for the next chunk. jax is imported in `run` alone.
    """

    kind: ClassVar[str]
    """Of its rows, in journals: `check`, `prove`."""

    row: ClassVar[type]
    """The record of a row."""

    ahead: int = 0
    """How many items may have started beside the one that is running; the driver puts it into each chunk."""

    chunk: int = 32
    """Roughly how many items a process gets at a time: few where an item takes seconds."""

    divides: bool = True
    """Whether several processes may share a large group: not where its items mostly repeat the same work."""

    def events(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Yield the events of `run`, with everything that was read in this process until then."""
        READS.look()
        for event in self.run(items, ahead):
            if isinstance(event, Finished):
                event = msgspec.structs.replace(event, reads=(*event.reads, *READS.all()))
            yield event

    @abstractmethod
    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Do some items in this process, one after the other.

        Args:
            items: in order, of one group or of neighbouring ones.
            ahead: how many items may start before the first one is finished; 0 where one is suspected of ending the
                process.

        Yields:
            What happens, at once; `Finished` exactly once for each item that was done.
        """

    @abstractmethod
    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Row:
        """Return the row of an item whose process ended, with the stage that it had reached."""

    def close(self) -> None:
        """Drop what `run` has cached in this process."""

    def __getstate__(self) -> dict[str, object]:
        # What begins with an underscore is cached, and stays in its process.
        return {name: None if name.startswith("_") else value for name, value in vars(self).items()}


# What all kinds of work report in the same way: rows as JSON, remarks of the user's code, why a process ended.
def finished(key: str, rows: Iterable[object], reads: Iterable[str] = ()) -> Finished:
    """Return the end of an item, with its rows encoded."""
    return Finished(key=key, rows=tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows), reads=tuple(reads))


def remarks() -> Iterator[Event]:
    """Yield what has been noted down in this process since: remarks, and tracebacks of the user's code."""
    yield from (Remark(text) for text in take_notes())
    yield from (UserTraceback(text) for text in take_tracebacks())


def trouble(pair: str, error: Exception) -> Trouble:
    """Return an exception that leaves nothing to be said about a pair or configuration."""
    if isinstance(error, SamebitsError):
        retain(error.__cause__)
        return Trouble(pair=pair, message=str(error), exit_code=error.exit_code)
    traceback.print_exception(error)
    message = f"samebits itself {one_line(error)}; please report it with the lines above"
    return Trouble(pair=pair, message=message, exit_code=COULD_NOT_TELL)


def lost_words(loss: ProcessExit, stage: str) -> str:
    """Explain why there is no result, for the row of an item whose process ended."""
    return f"its process ended while {stage}: {loss.said()}"


def to_text(value: object) -> str:
    """Return a record as text for a field of a row, with infinities and NaN, which JSON as such does not have."""
    return json.dumps(msgspec.to_builtins(value))


def from_text(text: str, kind: type[T]) -> T:
    """Return the inverse of `to_text`."""
    return msgspec.convert(json.loads(text), kind, str_keys=True)


class OneByOne(Work[Row]):
    """Does its items in order; an exception of one leaves the others as they are."""

    @abstractmethod
    def steps(self, item: Item) -> Iterator[str | Row]:
        """Do an item: yield its stages in words, and at the end its row."""

    def failed(self, item: Item, error: Exception) -> Event:
        """Report an item that raised."""
        return trouble(item.pair, error)

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Do items, and report what happens."""
        for item in items:
            yield Started(key=item.key)
            try:
                for step in self.steps(item):
                    yield Reached(item.key, step) if isinstance(step, str) else finished(item.key, (step,))
            except Exception as error:
                yield self.failed(item, error)
            yield from remarks()


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a text such as `3/8`."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise RequestError(f"--shard {text}: expected K/N with K from 1 to N, such as 3/8")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, items: Sequence[Item]) -> list[Item]:
        """Return the items of this part: every `count`-th group, so that parts take about equally long."""
        groups = {group: index for index, group in enumerate(dict.fromkeys(item.group for item in items))}
        return [item for item in items if groups[item.group] % self.count == self.number - 1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Items for one process.

    Args:
        number: of the chunk in this run.
        ahead: as for `Work.run`.
        fresh: it needs a process that has run no other.
    """

    number: int
    items: tuple[Item, ...]
    ahead: int = 0
    fresh: bool = False


class Executor(ABC):
    """Where chunks run; independent of what is in them."""

    slots: int
    """How many chunks run beside each other."""

    head_start: float = 0.0
    """Seconds for which one process has a few items to itself: where another one takes long to start."""

    @abstractmethod
    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run; there are never more than `slots` that have not ended."""

    @abstractmethod
    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Yield what happened since the last call, by number of the chunk; waits so long for something."""

    @abstractmethod
    def kill(self, number: int, loss: ProcessExit) -> None:
        """End the process of a chunk; it is reported as `Ended` with this loss."""

    def memory(self, number: int) -> int | None:
        """Return how many bytes the process of a chunk holds; None where that is not known."""
        return None

    def queued(self, number: int) -> bool:
        """Return whether a chunk waits for a machine, so that its time has not begun."""
        return False

    @abstractmethod
    def close(self) -> None:
        """End all processes at once."""
