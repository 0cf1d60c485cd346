"""`samebits launch`: the processes of one command on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import click

from samebits.cli import options
from samebits.cli.common import say


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """The options of `samebits launch`."""

    processes: int
    devices: int
    timeout: int | None
    wait: int
    words: tuple[str, ...]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "-n",
    "--processes",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Number of processes.",
)
@click.option(
    "--devices",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="CPU devices per process.",
)
@click.option("--timeout", type=click.IntRange(min=1), metavar="SECONDS", help="Limit for the whole run, not an item.")
@click.option(
    "--wait",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long a process waits for the others at a point.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@options.takes(LaunchOptions, runs_user_code=False)
def launch(chosen: LaunchOptions) -> int:
    """Run check, train or pytest in several processes on this machine, with meshes that span them.

    To test multi-host runs on one machine: `samebits launch -n 2 --devices 4 -- check rms_norm`. Collectives use gloo.
    The exit code is that of process 0, or 3 if a process crashes or hangs (then all are killed), or if the processes
    end with different codes.
    """
    from samebits.cluster.launch import LaunchRequest
    from samebits.cluster.launch import launch as started

    request = LaunchRequest(
        words=chosen.words,
        processes=chosen.processes,
        devices=chosen.devices,
        seconds=chosen.timeout,
        wait=chosen.wait,
    )
    return started(request, say)
