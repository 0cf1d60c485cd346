"""`samebits emulate`: pairs checked on processors that are not available here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options


@dataclass(frozen=True, kw_only=True)
class EmulateOptions(options.Filters):
    """The options of `samebits emulate`."""

    pairs: tuple[str, ...]
    processors: tuple[str, ...]
    seconds: int | None
    root: Path | None


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@options.filters
@click.option("--processor", "processors", multiple=True, metavar="NAME", help="As `qemu-x86_64 -cpu help` lists them.")
@click.option("--seconds", type=click.IntRange(min=1), metavar="N", help="The longest that one processor may take.")
@options.root
@options.builtin
@options.takes(EmulateOptions, runs_user_code=False)
def emulate(chosen: EmulateOptions) -> int:
    """Check PAIRs natively and on emulated processors (qemu's user mode); slow, so select little.

    By default IvyBridge, Haswell and EPYC, which differ in fused multiply-add, AVX2 and vendor. `moved` counts leaves
    whose reference has other bits than natively: where none moved, a processor is not evidence.
    Exit codes: 0 all contracts hold, 1 one breaks on a processor, 2 a wrong request, 3 a processor could not be run.
    """
    from samebits.cli.emulate_run import EmulateCommand
    from samebits.cli.pipeline import ReportFiles, run_command

    command = EmulateCommand(
        pairs=chosen.pairs,
        request=chosen.request(),
        root=chosen.root,
        processors=chosen.processors,
        seconds=chosen.seconds,
    )
    return run_command(command, ReportFiles())
