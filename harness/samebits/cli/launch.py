"""`samebits run launch`: the processes of one command on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from samebits.cli import options
from samebits.cli.common import say
from samebits.cli.declared import argument, option, record_of


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """The options of `samebits run launch`."""

    processes: Annotated[int, option("Number of processes.", "N", "-n --processes", least=1)] = 2
    devices: Annotated[int, option("CPU devices per process.", "N", least=1)] = 4
    timeout: Annotated[int | None, option("Limit for the whole run, not an item.", "SECONDS", least=1)] = None
    wait: Annotated[int, option("How long a process waits for the others at a point.", "SECONDS", least=1)] = 600
    words: Annotated[tuple[str, ...], argument("-- COMMAND [ARGUMENT]...")] = ()


@options.command(
    LaunchOptions,
    runs_user_code=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def launch(chosen: LaunchOptions) -> int:
    """Run check, train or pytest in several processes on this machine, with meshes that span them.

    To test multi-host runs on one machine: `samebits run launch -n 2 --devices 4 -- check rms_norm`; with gloo.
    The exit code is that of process 0, or 3 if a process crashes or hangs (then all are killed), or if the processes
    end with different codes.
    """
    from samebits.cluster.launch import LaunchRequest
    from samebits.cluster.launch import launch as started

    return started(record_of(LaunchRequest, chosen, seconds=chosen.timeout), say)
