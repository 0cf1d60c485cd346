"""How the processes of one run exchange data: process 0 holds a board, the others call it over the network.

The barriers and the key-value store of jax's coordination service are private names of jax, and its public functions
(`multihost_utils`) run on the devices, without a time limit. So the board is served by `multiprocessing.managers` of
the standard library: connections, authentication and serialisation are there; the board itself is a dictionary.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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
        """A sign of life.

        Args:
            number: of the process.
            place: its system and its number there; None where that is not known.
            stage: what it is doing.

        Returns:
            Why the run is over; None while it is not.
        """
        with self._changed:
            member = self._members[number]
            member.place, member.seen, member.stage = place, time.monotonic(), stage
            for other in self._members:
                reason = self._lost(other)
                if reason is not None:
                    return self.end(reason)
            return self._ended

    def leave(self, number: int, point: int, text: str) -> None:
        """A process leaves a point before its end; the others leave it too, at their next exchange in it."""
        with self._changed:
            self._failures.setdefault(point, (number, text))
            self._none_wait(lambda tag: tag[0] == point)

    def end(self, text: str) -> str:
        """The run is over; the first reason counts and is returned."""
        with self._changed:
            self._ended = self._ended or text
            self._changed.notify_all()
            return self._ended

    def ended(self) -> str | None:
        """Why the run is over; None while it is not."""
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
        """Those that wait there can go on, and no longer wait from now on, even before their threads run."""
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
        """Why an exchange cannot come about any more; None while it can."""
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
        """Why a process is not there any more; None where it is, and where it has left the run."""
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
    """Whether a process of this very system has exited; False where that cannot be seen from here."""
    own = own_place()
    if place is None or own is None or place[0] != own[0]:
        return False
    try:
        with open(f"/proc/{place[1]}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:  # its number is free again
        return True
