"""Settings of the Python process that the user's code may change: how each is read, put back and named.

Those that decide what code computes, or whether a run can report it and end: standard streams, signal handlers,
warnings that raise, NumPy's error handling, the global random generators and the working directory. `isolation` reads
them before the user's code runs and puts them back after it.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.host.stderr_capture import standard_error

_STREAMS = ("stdin", "stdout", "stderr")

PYTHON_RANDOM = "the state of Python's random numbers"
NUMPY_RANDOM = "the state of NumPy's global random numbers"

MOST_DRAWN = 1000
"""The most random numbers that a library is expected to draw when it is imported."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """One setting.

    Args:
        read: its value; None where it does not exist in this process.
        write: put a value back that was read.
        words: what a change is called, given the new value.
        same: whether a value is as another one that was read before it.
    """

    read: Callable[[], Any]
    write: Callable[[Any], None]
    words: Callable[[Any], str]
    same: Callable[[Any, Any], bool] = operator.eq


def read_state() -> dict[str, Any]:
    """Return every setting as it is now."""
    return {name: setting.read() for name, setting in _SETTINGS.items()}


def put_back(before: Mapping[str, Any], *, may_draw: bool = False) -> Iterator[str]:
    """Put back every setting that is not as it was; each in words, such as `the working directory to /`.

    Args:
        before: the settings.
        may_draw: whether it is not worth a word that random numbers were drawn, as libraries do when they are imported
            (`rich` does, which Flax imports). Another seed is.
    """
    for name, setting in _SETTINGS.items():
        now = setting.read()
        if before[name] is not None and not setting.same(now, before[name]):
            setting.write(before[name])
            if not (may_draw and name == "random" and _are_drawn(before[name], now)):
                yield setting.words(now)


@contextlib.contextmanager
def fresh_random_numbers() -> Iterator[None]:
    """Start the global random generators from the system's numbers inside, as in a process of its own.

    Restarting them from one state for each side of a pair would give both sides the same draws.
    """
    names = ("random", "numpy random")
    before = {name: _SETTINGS[name].read() for name in names}
    random.seed()
    if before["numpy random"] is not None:
        _numpy("numpy.random").seed()
    try:
        yield
    finally:
        for name in names:
            if before[name] is not None:
                _SETTINGS[name].write(before[name])


def _are_drawn(before: Any, now: Any) -> bool:
    """Return whether a state of Python's random generator comes from drawing a few numbers in another one."""
    generator = random.Random()
    generator.setstate(before)
    for _ in range(MOST_DRAWN):
        generator.getrandbits(32)
        if generator.getstate() == now:
            return True
    return False


def _streams() -> tuple[Any, ...]:
    """Return the standard streams, each with whether it is open."""
    return tuple((stream, not getattr(stream, "closed", True)) for stream in (sys.stdin, sys.stdout, standard_error()))


def _write_streams(before: tuple[Any, ...]) -> None:
    for descriptor, (name, (stream, was_open)) in enumerate(zip(_STREAMS, before, strict=True)):
        if was_open and stream.closed and descriptor:
            with contextlib.suppress(OSError):  # its descriptor is closed too, or leads nowhere
                stream = open(descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # removed by the code that was there
        return "a folder that was removed"


def _numpy(module: str) -> Any:
    """Return a module of NumPy, where it is loaded: its first import can change nothing that was there before."""
    return sys.modules.get(module)


def _numpy_errors() -> dict[str, str] | None:
    numpy = _numpy("numpy")
    return None if numpy is None else dict(numpy.geterr())


def _numpy_random() -> tuple[Any, ...] | None:
    numpy_random = _numpy("numpy.random")
    if numpy_random is None:
        return None
    name, keys, *rest = numpy_random.get_state()
    return (name, keys.tobytes(), *rest)


def _write_numpy_random(state: tuple[Any, ...]) -> None:
    import numpy as np

    name, keys, *rest = state
    np.random.set_state((name, np.frombuffer(keys, np.uint32), *rest))


def _handlers() -> dict[int, Any] | None:
    """Return what each signal does; only the main thread may change that."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return {number: signal.getsignal(number) for number in _signals()}


@functools.cache
def _signals() -> tuple[int, ...]:
    """Return all signals; to make enums of them at each reading took a quarter of its time (64 of 246 us)."""
    return tuple(int(number) for number in signal.valid_signals())


def _write_handlers(before: Mapping[int, Any]) -> None:
    for number, handler in before.items():
        if handler is not None and signal.getsignal(number) != handler:  # None: set outside Python
            signal.signal(number, handler)


def _raising() -> tuple[tuple[Any, ...], ...]:
    """Return the filters that turn warnings into exceptions; those that silence one stay."""
    return tuple(entry for entry in warnings.filters if entry[0] == "error")


def _write_raising(before: tuple[tuple[Any, ...], ...]) -> None:
    kept = [entry for entry in warnings.filters if entry[0] != "error" or entry in before]
    lost = [entry for entry in before if entry not in kept]
    warnings.resetwarnings()  # which also marks the filters as changed
    warnings.filters[:] = [*lost, *kept]  # type: ignore[index]


_SETTINGS: Mapping[str, _Setting] = {
    "streams": _Setting(_streams, _write_streams, lambda now: "sys.stdin, sys.stdout or sys.stderr"),
    "folder": _Setting(_folder, os.chdir, lambda now: f"the working directory to {now}"),
    "errors": _Setting(
        _numpy_errors,
        lambda before: _numpy("numpy").seterr(**before),
        lambda now: f"NumPy's error handling to {now}",
    ),
    "signals": _Setting(_handlers, _write_handlers, lambda now: "how the process handles signals"),
    "warnings": _Setting(_raising, _write_raising, lambda now: "which warnings are exceptions"),
    "random": _Setting(random.getstate, random.setstate, lambda now: PYTHON_RANDOM),
    "numpy random": _Setting(_numpy_random, _write_numpy_random, lambda now: NUMPY_RANDOM),
}
