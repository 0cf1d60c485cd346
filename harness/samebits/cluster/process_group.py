"""One of several processes that check the same points in the same order: exchanges with the others, and a watch."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.managers import BaseManager
from typing import Any, TypeVar

from samebits.errors import SamebitsError
from samebits.host.group import SECONDS, FailedElsewhere, LockstepGroup, RunEnded
from samebits.user_errors import one_line

# How the processes of one run exchange data: process 0 holds a board, the others call it over the network.
SILENCE = 60.0
"""Seconds without a sign of a process after which it counts as ended."""

GRACE = 30.0
"""Seconds that the other processes have to come to an exchange where one of them has failed already."""

CLOSED = "the end"
"""The last stage of a process that has nothing more to do with the others."""

POLL = 0.2
"""Seconds between two looks at who is missing."""


@dataclass(frozen=True, slots=True)
class Post:
    """What one process brings to an exchange.

    Args:
        payload: for the others.
        failed: what it could not do, in words; then those that are in a collective with it never come back.
    """

    payload: Any = None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """What an exchange gave.

    Args:
        posts: of all processes, in their order; empty where the exchange did not come about.
        failed: the process that left this point for another reason, and why.
        ended: why the run is over.
    """

    posts: tuple[Post, ...] = ()
    failed: tuple[int, str] | None = None
    ended: str | None = None


@dataclass(slots=True)
class _Member:
    """What is known of a process: its last sign, what it was doing, and where it waits."""

    place: tuple[str, int] | None = None
    seen: float = field(default_factory=time.monotonic)
    stage: str = "starting"
    waits: tuple[int, str] | None = None


@dataclass(slots=True)
class _Exchange:
    posts: dict[int, Post] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)
    failed_at: float | None = None


class Board:
    """Exchanges between so many processes, each with a time limit; a process that is missing is named.

    Args:
        count: of processes.
        silence: seconds without a sign after which a process counts as ended.
        grace: seconds for the others where one has failed.
    """

    def __init__(self, count: int, silence: float = SILENCE, grace: float = GRACE) -> None:
        self._members = {number: _Member() for number in range(count)}
        self._silence, self._grace = silence, grace
        self._exchanges: dict[tuple[int, str], _Exchange] = {}
        self._failures: dict[int, tuple[int, str]] = {}
        self._ended: str | None = None
        self._changed = threading.Condition(threading.RLock())

    def sign(self, number: int, place: tuple[str, int] | None, stage: str) -> str | None:
        """Note what a process does, and its place: its system and its number there; return why the run is over."""
        with self._changed:
            member = self._members[number]
            member.place, member.seen, member.stage = place, time.monotonic(), stage
            for other in self._members:
                reason = self._lost(other)
                if reason is not None:
                    return self.end(reason)
            return self._ended

    def leave(self, number: int, point: int, text: str) -> None:
        """Leave a point before its end; the others leave it too, at their next exchange in it."""
        with self._changed:
            self._failures.setdefault(point, (number, text))
            self._none_wait(lambda tag: tag[0] == point)

    def end(self, text: str) -> str:
        """End the run, and return the reason: that of the first who ends it counts."""
        with self._changed:
            self._ended = self._ended or text
            self._changed.notify_all()
            return self._ended

    def ended(self) -> str | None:
        """Explain why the run is over; None while it is not."""
        return self._ended

    def exchange(self, number: int, tag: tuple[int, str], post: Post, seconds: float, last: bool = False) -> Gathered:
        """Bring something, and wait until all have.

        Args:
            number: of the process.
            tag: the point and the name of the exchange in it; each is used once.
            post: what it brings.
            seconds: how long the others may take.
            last: whether it ends the point: then those that left the point take part in it.
        """
        limit = time.monotonic() + seconds
        with self._changed:
            exchange = self._exchanges.setdefault(tag, _Exchange())
            exchange.posts[number] = post
            self._members[number].seen, self._members[number].stage = time.monotonic(), tag[1]
            if post.failed is not None and exchange.failed_at is None:
                exchange.failed_at = time.monotonic()
            if len(exchange.posts) == len(self._members):
                self._none_wait(lambda other: other == tag)
            try:
                return self._gathered(number, tag, exchange, limit, seconds, last)
            finally:
                self._members[number].waits = None

    def _none_wait(self, where: Callable[[tuple[int, str]], bool]) -> None:
        """Have those that wait there go on: they no longer wait, even before their threads run."""
        for member in self._members.values():
            if member.waits is not None and where(member.waits):
                member.waits = None
        self._changed.notify_all()

    def _gathered(
        self, number: int, tag: tuple[int, str], exchange: _Exchange, limit: float, seconds: float, last: bool
    ) -> Gathered:
        while len(exchange.posts) < len(self._members):
            if self._ended is not None:
                return Gathered(ended=self._ended)
            if not last and tag[0] in self._failures:
                return Gathered(failed=self._failures[tag[0]])
            reason = self._unable(tag[1], exchange, limit, seconds)
            if reason is not None:
                self._ended = reason
                self._changed.notify_all()
                return Gathered(ended=reason)
            self._members[number].waits = tag
            self._changed.wait(POLL)
        exchange.fetched.add(number)
        if len(exchange.fetched) == len(self._members):
            del self._exchanges[tag]
        return Gathered(posts=tuple(exchange.posts[number] for number in self._members))

    def _unable(self, name: str, exchange: _Exchange, limit: float, seconds: float) -> str | None:
        """Explain why an exchange cannot come about any more; None while it can."""
        now = time.monotonic()
        missing = {number: member for number, member in self._members.items() if number not in exchange.posts}
        for number, member in missing.items():
            if member.waits is not None:
                return f"process {number} is at '{member.waits[1]}' while others are at '{name}'"
            reason = self._lost(number)
            if reason is not None:
                return reason
        listed = ", ".join(f"process {number} (last at '{member.stage}')" for number, member in missing.items())
        if exchange.failed_at is not None and now - exchange.failed_at > self._grace:
            number, post = next((n, post) for n, post in exchange.posts.items() if post.failed is not None)
            return f"process {number} failed at '{name}' ({post.failed}), and {listed} does not come out of it"
        return f"{listed} did not come to '{name}' within {seconds:g} s" if now > limit else None

    def _lost(self, number: int) -> str | None:
        """Explain why a process is not there any more; None where it is, and where it has left the run."""
        member = self._members[number]
        if member.stage == CLOSED:
            return None
        if is_gone(member.place):
            return f"process {number} has ended; it was last at '{member.stage}'"
        if time.monotonic() - member.seen > self._silence:
            return f"process {number} has sent no heartbeat for {self._silence:g} s; it was last at '{member.stage}'"
        return None


def own_place() -> tuple[str, int] | None:
    """This process as another one of the same system can look it up; None where that cannot be said."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}", os.getpid()
    except OSError:  # another system than Linux
        return None


def is_gone(place: tuple[str, int] | None) -> bool:
    """Return whether a process of this very system has exited; False where that cannot be seen from here."""
    own = own_place()
    if place is None or own is None or place[0] != own[0]:
        return False
    try:
        with open(f"/proc/{place[1]}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:  # its number is free again
        return True


Value = TypeVar("Value")

BEAT = 1.0
"""Seconds between two signs of life."""


class BoardManager(BaseManager):
    """Reaches the board of process 0; one that serves it registers the board itself."""


CALLS = ("sign", "leave", "end", "exchange")
"""What of a board is called over the network."""

BoardManager.register("board", exposed=CALLS)


class ProcessGroup(LockstepGroup):
    """This process among the others.

    Args:
        number, count: which one of how many.
        board: where they exchange.
        seconds: how long the others may take to come to an exchange, and a program to run.
    """

    def __init__(self, number: int, count: int, board: Board, seconds: float = SECONDS) -> None:
        self.number, self.count, self.seconds = number, count, seconds
        self._board = board
        self._point, self._step, self._words = 0, 0, "starting"
        self._stage, self._since = "starting", time.monotonic()
        self._ended: str | None = None
        self._place = own_place()
        self._closed = threading.Event()
        self._answered = time.monotonic()
        self._sign()  # user code may end this process before its first beat
        threading.Thread(target=self._beat, name="signs of life", daemon=True).start()
        threading.Thread(target=self._watch, name="limits of time", daemon=True).start()

    @property
    def subject(self) -> str:
        """What the present point is of, such as a pair."""
        return self._words.partition(":")[0]

    def begin(self, words: str) -> None:
        """Begin the next point, as the others do."""
        self._point, self._step, self._words = self._point + 1, 0, words
        self.reached(words)

    @contextlib.contextmanager
    def point(self, words: str) -> Iterator[None]:
        """Have all processes do one thing inside; where one of them fails, all do."""
        self.begin(words)
        try:
            yield
        except Exception as error:
            text = str(error) if isinstance(error, SamebitsError) else one_line(error)
            self.leave(text)
            self.exchange("the end", Post(failed=text), last=True)
            raise
        for number, post in enumerate(self.exchange("the end", Post(), last=True)):
            if post.failed is not None:
                raise FailedElsewhere(f"failed in process {number}: {post.failed}")

    def reached(self, stage: str) -> None:
        """Note a stage of the work, by which this process is described should it end here."""
        self._stage, self._since = stage, time.monotonic()

    def exchange(self, name: str, post: Post, last: bool = False) -> tuple[Post, ...]:
        """Return what all processes bring to an exchange, in their order.

        Args:
            name: of the exchange, the same in all of them.
            post: what this one brings.
            last: whether it ends the point.
        """
        self._step += 1
        words = f"{self._words}: {name}"
        self.reached(words)
        tag = (self._point, f"{words} (end of the point)" if last else f"{words} (exchange {self._step})")
        gathered = self._called(lambda: self._board.exchange(self.number, tag, post, self.seconds, last))
        self.reached(words)
        if gathered.ended is not None:
            raise RunEnded(gathered.ended)
        if gathered.failed is not None:
            number, text = gathered.failed
            raise FailedElsewhere(f"failed in process {number}: {text}")
        if last:  # what follows is not of this point, which some may have left
            self._point, self._step = self._point + 1, 0
        return gathered.posts

    def share(self, name: str, payload: Any) -> list[Any]:
        """Return what each process says, in their order; see `exchange`."""
        return [post.payload for post in self.exchange(name, Post(payload))]

    def agree(self, name: str, payload: Any = None, failed: str | None = None) -> list[Any]:
        """Return the same of a step that any process may have failed in."""
        posts = self.exchange(name, Post(payload, failed))
        if failed is None:
            for number, post in enumerate(posts):
                if post.failed is not None:
                    raise FailedElsewhere(f"failed in process {number}: {post.failed}")
        return [post.payload for post in posts]

    def leave(self, text: str) -> None:
        """Leave the point before its end; the others leave it at their next exchange."""
        self._called(lambda: self._board.leave(self.number, self._point, text))

    def watched(self, stage: str, call: Callable[[], Value]) -> Value:
        """Have something run in a thread that this one can abandon: nothing interrupts a collective."""
        self.reached(f"{self._words}: {stage}")
        self._sign()  # what runs may end this process before its next sign of life
        outcome: list[tuple[Value | None, BaseException | None]] = []
        done = threading.Event()

        def run() -> None:
            try:
                outcome.append((call(), None))
            except BaseException as error:  # raised again in the thread that waits
                outcome.append((None, error))
            done.set()

        threading.Thread(target=run, name="program", daemon=True).start()
        limit = time.monotonic() + self.seconds
        while not done.wait(0.2):
            if self._ended is not None:
                raise RunEnded(self._ended)
            if time.monotonic() > limit:
                raise RunEnded(self._overdue())
        value, error = outcome[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _overdue(self) -> str:
        late = f"process {self.number} did not come out of '{self._stage}' within {self.seconds:g} s"
        return self.end(late)

    def end(self, text: str) -> str:
        """End the run for all processes, and return the reason that all of them report, which is the first one's.

        Raises:
            RunEnded: process 0 has ended.
        """
        return self._called(lambda: self._board.end(text))

    def close(self) -> None:
        """Leave the run: the others no longer wait for this process."""
        self._closed.set()
        with contextlib.suppress(EOFError, OSError):
            self._board.sign(self.number, None, CLOSED)

    def _called(self, call: Callable[[], Value]) -> Value:
        try:
            return call()
        except (EOFError, OSError) as error:
            raise RunEnded(f"process 0 has ended ({type(error).__name__}); this was at '{self._stage}'") from None

    def _sign(self) -> None:
        try:
            self._ended = self._board.sign(self.number, self._place, self._stage) or self._ended
            self._answered = time.monotonic()
        except (EOFError, OSError) as error:
            self._ended = self._ended or f"process 0 has ended ({type(error).__name__})"

    def _beat(self) -> None:
        """Give signs of life, from a thread of its own."""
        while not self._closed.wait(BEAT):
            self._sign()

    def _watch(self) -> None:
        """End the process where its main thread hangs in Python, or process 0 no longer answers.

        From a thread that makes no calls: a call waits for as long as process 0 holds Python's lock, or is stopped.
        """
        while not self._closed.wait(BEAT):
            now = time.monotonic()
            if now - self._since > 3 * self.seconds:
                self._give_up(f"process {self.number} hangs at '{self._stage}' for {now - self._since:.0f} s")
            if self._ended is None and now - self._answered > SILENCE:
                self._give_up(f"process 0 has not answered for {SILENCE:g} s; this was at '{self._stage}'")

    @staticmethod
    def _give_up(text: str) -> None:
        print(f"samebits: {text}; this process ends itself", file=sys.__stderr__, flush=True)
        os._exit(3)
