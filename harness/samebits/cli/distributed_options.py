"""The options by which several processes run one command with one mesh."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from samebits.cli import options
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


distributed = options.together(
    click.option(
        "--distributed",
        is_flag=True,
        envvar=DISTRIBUTED,
        show_envvar=True,
        help="Run as one of several processes with one mesh; jax.distributed detects the launcher.",
    ),
    click.option(
        "--coordinator",
        metavar="HOST:PORT",
        envvar=COORDINATOR,
        show_envvar=True,
        help="Process 0, if no launcher is detected.",
    ),
    click.option(
        "--process-id",
        type=int,
        metavar="I",
        envvar=PROCESS_ID,
        show_envvar=True,
        help="Which process this is, from 0.",
    ),
    click.option(
        "--num-processes",
        type=int,
        metavar="N",
        envvar=NUM_PROCESSES,
        show_envvar=True,
        help="Number of processes.",
    ),
    click.option(
        "--wait",
        type=click.IntRange(min=1),
        default=600,
        show_default=True,
        metavar="SECONDS",
        envvar=WAIT,
        show_envvar=True,
        help="With --distributed: how long a process waits for the others at a point.",
    ),
)
"""The option `--distributed`, and those that say where the other processes are."""


@dataclass(frozen=True, kw_only=True)
class DistributedOptions:
    """Which of several processes this is."""

    distributed: bool
    coordinator: str | None
    process_id: int | None
    num_processes: int | None
    wait: int

    def spanning(self) -> DistributedRequest | None:
        """What is said about the processes; None where this one is alone.

        Raises:
            RequestError: the options do not go together.
        """
        for name in VARIABLES:  # processes that are started from here are not among those meant
            os.environ.pop(name, None)
        named = {
            "--coordinator": self.coordinator,
            "--process-id": self.process_id,
            "--num-processes": self.num_processes,
        }
        if not self.distributed:
            extra = next((name for name, value in named.items() if value is not None), None)
            if extra is not None:
                raise RequestError(f"{extra} goes with --distributed; add it")
            return None
        return DistributedRequest(
            coordinator=self.coordinator,
            process_id=self.process_id,
            num_processes=self.num_processes,
            seconds=float(self.wait),
        )

    def alone_only(self, **options: object) -> None:
        """Reject options that several processes with one mesh do not have.

        Args:
            options: by name, with what was given; None or False where nothing was.

        Raises:
            RequestError: one was given, and `--distributed` too.
        """
        for name, value in options.items():
            if self.distributed and value not in (None, False):
                more = "; --wait SECONDS limits each point" if name == "timeout" else ""
                raise RequestError(f"--{name.replace('_', '-')} does not go with --distributed{more}; leave it out")


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
