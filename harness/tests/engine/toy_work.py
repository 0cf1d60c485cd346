"""A work without jax, whose items do what their payload says: end their process in every way that there is."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from samebits.engine.work import Event, Finished, Item, ProcessExit, Reached, Started, Trouble, Work
from tests.support import failing_device


@dataclass(frozen=True, kw_only=True, slots=True)
class ToyRow:
    """What a toy item gave."""

    key: str
    value: int = 0
    error: str | None = None


class ToyWork(Work[ToyRow]):
    """Items with an action as payload: `good`, `abort`, `segv`, `exit 0`, `exit 3`, `raise`, `sleep`, `eat`, `trouble`.

    `device` leaves the devices unusable, `later` has a thread abort after half a second, `wait` is good after a second,
    `files` raises and leaves no file to be opened, `pid NUMBER` takes itself for another process. `start FILE` starts
    another process, writes its number into the file, and sleeps; `leave FILE` has one run whose parent has ended.
    `group` ends its process group. `fork` goes on in a child, and then raises.

    Args:
        ahead: how many items start before the first one runs.
        seconds: that a good item takes.
    """

    kind = "toy"
    row = ToyRow

    def __init__(self, ahead: int = 0, seconds: float = 0.0) -> None:
        self.ahead = ahead
        self.seconds = seconds

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Start items ahead, then do them."""
        waiting = list(items)
        started: list[Item] = []
        while waiting or started:
            while waiting and len(started) <= ahead:
                started.append(waiting.pop(0))
                yield Started(started[-1].key)
            item = started.pop(0)
            yield Reached(item.key, "acting")
            if item.payload == "trouble":
                yield Trouble(item.pair, "cannot be declared", 2)
                return
            act(item.payload)
            time.sleep(self.seconds)
            yield Finished(item.key, (raw(ToyRow(key=item.key, value=len(item.key))),))

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> ToyRow:
        """Why, in words."""
        return ToyRow(key=item.key, error=f"{loss.kind} while {stage}: {loss.said()}")


def raw(row: ToyRow) -> msgspec.Raw:
    """A row as it travels."""
    return msgspec.Raw(msgspec.json.encode(row))


def act(action: str) -> None:
    """Do what a payload says."""
    if action == "abort":
        os.abort()
    elif action == "segv":
        ctypes.string_at(0)
    elif action.startswith("exit"):
        os._exit(int(action.split()[1]))
    elif action == "raise":
        raise SystemExit(7)
    elif action == "later":
        threading.Timer(0.5, os.abort).start()
    elif action == "wait":
        time.sleep(1)
    elif action == "files":
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        raise OSError("too many open files")
    elif action.startswith("pid"):
        os.getpid = lambda: int(action.split()[1])
    elif action == "device":
        failing_device.fail()
    elif action == "sleep":
        time.sleep(1000)
    elif action.startswith("start"):
        child = subprocess.Popen(["sleep", "1000"])
        Path(action.split()[1]).write_text(str(child.pid))
        time.sleep(1000)
    elif action.startswith("leave"):
        subprocess.run(["sh", "-c", 'sleep 1000 & echo $! > "$0"', action.split()[1]], check=True)
    elif action == "group":
        os.killpg(os.getpgrp(), signal.SIGTERM)
        time.sleep(1000)
    elif action == "fork":
        if os.fork():
            os.wait()
            raise SystemExit(7)
    elif action == "print":
        print("printed by the code of an item")
        print("and to stderr", file=sys.stderr)
    elif action == "eat":
        held = []
        while True:
            held.append(b"x" * 20_000_000)


def toy_items(*actions: str, pair: str = "toy") -> list[Item]:
    """Items with these actions, in one group."""
    return [
        Item(key=f"{pair}/{number}-{action}", pair=pair, words=f"item {number}", replay="", group=pair, payload=action)
        for number, action in enumerate(actions)
    ]
