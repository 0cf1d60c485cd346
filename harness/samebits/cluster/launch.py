"""Starts the processes of one command on this machine, and ends all of them when one has exited."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, cast

from samebits.engine.distributed_request import (
    COORDINATOR,
    DISTRIBUTED,
    NUM_PROCESSES,
    PROCESS_ID,
    REPORTED,
    WAIT,
    lacks_report,
)
from samebits.errors import COULD_NOT_TELL, RequestError
from samebits.host.environment import without_device_count
from samebits.host.interrupts import handled
from samebits.host.own_output import own_stdout
from samebits.host.subprocesses import samebits_environment

COMMANDS = ("check", "train", "pytest")
"""What can run in several processes with one mesh."""

GRACE = 60.0
"""Seconds that the others have to report and to end once a process has ended."""

GRACE_AFTER_REPORT = 10.0
"""The same once process 0 has ended, which reports."""

_NO_REASON = (
    "[Gloo]",
    "@ ",
    "PC: @",
    "***",
    "Extension modules:",
    ":UNKNOWN",
    "File ",
    "Current thread",
    "Thread 0x",
    "Additional GRPC error",
    "Expected number of connected",
    "RPC: /",
)
"""How lines begin that do not say why a process ended: frames of a stack, modules, and what gRPC and gloo log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchRequest:
    """What is started.

    Args:
        words: the command and its arguments.
        processes: how many.
        devices: CPU devices of each.
        seconds: after which all are ended; None for no limit.
        wait: seconds that a process waits for the others at a point.

    Raises:
        RequestError: the command does not run in several processes.
    """

    words: Sequence[str]
    processes: int
    devices: int
    seconds: float | None
    wait: int

    def __post_init__(self) -> None:
        known = ", ".join(COMMANDS[:-1]) + f" and {COMMANDS[-1]}"
        if not self.words:
            raise RequestError(f"launch: give the command after --, such as -- check rms_norm; it starts {known}")
        if self.words[0] not in COMMANDS:
            raise RequestError(f"launch: '{self.words[0]}' does not run in several processes; {known} do")

    def command(self) -> list[str]:
        """Return the command line of every process."""
        if self.words[0] == "pytest":
            return [sys.executable, "-m", "pytest", "-p", "no:xdist", *self.words[1:]]
        return [sys.executable, "-m", "samebits", *self.words]

    def environment(self, number: int, port: int, report: Path) -> dict[str, str]:
        """Return the environment of a process."""
        flags = without_device_count(os.environ.get("XLA_FLAGS", ""))
        own = {
            DISTRIBUTED: "1",
            COORDINATOR: f"127.0.0.1:{port}",
            PROCESS_ID: str(number),
            NUM_PROCESSES: str(self.processes),
            WAIT: str(self.wait),
            REPORTED: str(report),
            "JAX_PLATFORMS": "cpu",  # an accelerator cannot be shared by processes of one machine
            "JAX_NUM_CPU_DEVICES": str(self.devices),
            "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
            **({"XLA_FLAGS": flags} if "XLA_FLAGS" in os.environ else {}),
        }
        return samebits_environment({**os.environ, **own})


@dataclass(slots=True)
class _Launched:
    """A started process; `err` is what one other than process 0 prints."""

    number: int
    process: subprocess.Popen[bytes]
    err: IO[bytes] | None
    ended: float | None = field(default=None)

    def how(self) -> str:
        """Return how it ended, with its last line."""
        code = self.process.returncode
        words = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return words + (f": {line}" if (line := self._last_line()) else "")

    def _last_line(self) -> str:
        if self.err is None:
            return ""
        self.err.seek(0)
        lines = [line.strip() for line in self.err.read().decode("utf-8", "replace").splitlines()]
        reasons = [line for line in lines if line and not line.startswith(_NO_REASON)]
        own = [line for line in reasons if line.startswith("samebits: ")]
        return (own or reasons or [""])[-1][:300]


def launch(request: LaunchRequest, say: Callable[[str], None]) -> int:
    """Start all processes, wait for them, and end the others when one has exited.

    Returns:
        The exit code of process 0; 3 where a process ended otherwise than the others, or had to be ended.
    """
    port = _free_port()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="samebits-")))
        launched: list[_Launched] = []
        with _signals_forwarded(launched) as heard:
            try:
                for number in range(request.processes):
                    process = _started(request, number, port, folder, stack)
                    missed = tuple(heard)  # they came before this one could be sent any
                    launched.append(process)
                    for signal_number in missed:
                        launched[-1].process.send_signal(signal_number)
                reason = _wait(launched, request.seconds)
            finally:
                _kill(launched)
        codes = [process.process.returncode for process in launched]
        if reason is None and len(set(codes)) > 1:
            listed = "; ".join(f"process {process.number} {process.how()}" for process in launched)
            reason = f"the processes did not end alike: {listed}"
        elif reason is None and codes[0] < 0:
            reason = f"all processes were ended by {signal.Signals(-codes[0]).name}; nothing was reported"
        elif reason is None and codes[0] in (0, 1) and lacks_report(folder / "0", codes[0]):
            reason = f"process 0 ended with exit code {codes[0]} and without a report: the code that it ran ended it"
    if reason is not None:
        say(reason)
        return COULD_NOT_TELL
    return COULD_NOT_TELL if codes[0] < 0 else codes[0]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _started(request: LaunchRequest, number: int, port: int, folder: Path, stack: contextlib.ExitStack) -> _Launched:
    # A file, not a pipe: it is not read while they run.
    err = cast("IO[bytes]", stack.enter_context(tempfile.TemporaryFile())) if number else None  # noqa: SIM115
    try:
        process = subprocess.Popen(
            request.command(),
            env=request.environment(number, port, folder / str(number)),
            stdin=subprocess.DEVNULL,
            stdout=own_stdout() if err is None else subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,  # Ctrl-C reaches them from here, once
        )
    except OSError as error:
        raise RequestError(f"launch: process {number} cannot be started: {error.strerror or error}") from None
    return _Launched(number, process, err)


def _wait(launched: Sequence[_Launched], seconds: float | None) -> str | None:
    """Wait until all have ended; why they had to be ended, in a line."""
    begin = time.monotonic()
    while True:
        for process in launched:
            if process.ended is None and process.process.poll() is not None:
                process.ended = time.monotonic()
        ended = [process for process in launched if process.ended is not None]
        running = [f"process {process.number}" for process in launched if process.ended is None]
        if not running:
            return None
        if seconds is not None and time.monotonic() - begin > seconds:
            return f"{' and '.join(running)} did not end within {seconds:g} s (--timeout); {_were(running)} ended"
        if ended:
            first = min(ended, key=lambda process: process.ended or 0)
            grace = GRACE_AFTER_REPORT if launched[0].ended is not None else GRACE
            since = launched[0].ended if launched[0].ended is not None else first.ended
            if since is not None and time.monotonic() - since > grace:
                how = f"process {first.number} {first.how()}"
                late = f"{' and '.join(running)} did not end within {grace:g} s after it"
                return f"{how}; {late}; {_were(running)} ended"
        time.sleep(0.1)


def _kill(launched: Sequence[_Launched]) -> None:
    """End what still runs: the processes, and what user code has started in them, also where they have ended."""
    for process in launched:
        with contextlib.suppress(OSError):
            os.killpg(process.process.pid, signal.SIGKILL)
        process.process.wait()


def _were(processes: Sequence[str]) -> str:
    return "it was" if len(processes) == 1 else "they were"


@contextlib.contextmanager
def _signals_forwarded(launched: Sequence[_Launched]) -> Iterator[Sequence[int]]:
    """Inside, what asks a run to end goes to the processes, which report and end; those signals so far."""
    heard: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        for process in launched:
            if process.process.poll() is None:
                process.process.send_signal(number)

    with handled(forward):
        yield heard
