"""The options by which several processes run one command with one mesh."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from samebits.cli.declared import given, option, spelled
from samebits.engine.distributed_request import (
    COORDINATOR,
    DISTRIBUTED,
    NUM_PROCESSES,
    PROCESS_ID,
    VARIABLES,
    WAIT,
    DistributedRequest,
)
from samebits.errors import RequestError

if TYPE_CHECKING:
    from samebits.cluster.process_group import ProcessGroup


@dataclass(frozen=True, kw_only=True)
class DistributedOptions:
    """Which of several processes this is."""

    HEADING = "Several processes with one mesh"

    distributed: Annotated[
        bool,
        option(
            "Run as one of several processes with one mesh; jax.distributed detects the launcher.",
            variable=DISTRIBUTED,
        ),
    ] = False
    coordinator: Annotated[
        str | None, option("Process 0, if no launcher is detected.", "HOST:PORT", variable=COORDINATOR)
    ] = None
    process_id: Annotated[int | None, option("Which process this is, from 0.", "I", variable=PROCESS_ID)] = None
    num_processes: Annotated[int | None, option("Number of processes.", "N", variable=NUM_PROCESSES)] = None
    wait: Annotated[
        int,
        option(
            "With --distributed: how long a process waits for the others at a point.",
            "SECONDS",
            least=1,
            variable=WAIT,
        ),
    ] = 600

    def spanning(self) -> DistributedRequest | None:
        """What is said about the processes; None where this one is alone.

        Raises:
            RequestError: the options do not go together.
        """
        for name in VARIABLES:  # processes that are started from here are not among those meant
            os.environ.pop(name, None)
        if not self.distributed:
            for name in given(self, DistributedOptions):
                if name != "--wait":  # which a launcher may set for every process
                    raise RequestError(f"{name} goes with --distributed; add it")
            return None
        return DistributedRequest(
            coordinator=self.coordinator,
            process_id=self.process_id,
            num_processes=self.num_processes,
            seconds=float(self.wait),
        )

    def alone_only(self, *names: str) -> None:
        """Reject options that several processes with one mesh do not have.

        Args:
            names: the fields of these options.

        Raises:
            RequestError: one was given, and `--distributed` too.
        """
        for name in names:
            if self.distributed and getattr(self, name) not in (None, False):
                more = "; --wait SECONDS limits each point" if name == "timeout" else ""
                raise RequestError(f"--{spelled(name)} does not go with --distributed{more}; leave it out")


def started(request: DistributedRequest | None) -> ProcessGroup | None:
    """Start jax among the processes of a request; to be called after `environment.prepare`.

    Args:
        request: None where this process is alone.

    Raises:
        RequestError: the others are not reached.
    """
    if request is None:
        return None
    from samebits.cluster.start import start

    _drop_lines_of_gloo()
    return start(request)


def _drop_lines_of_gloo() -> None:
    """Gloo prints to standard output for every device of every communicator, from many threads at once."""
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(writing)

    def forward() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if "[Gloo] Rank " not in line and "Expected number of connected peer ranks" not in line:
                    print(line, end="", file=sys.__stderr__, flush=True)

    threading.Thread(target=forward, name="output of others", daemon=True).start()
