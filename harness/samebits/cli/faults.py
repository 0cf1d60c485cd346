"""`samebits faults`: plant every known fault, and show that the check catches each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options


@dataclass(frozen=True, kw_only=True)
class FaultsOptions(options.JsonOption):
    """The options of `samebits faults`."""

    patterns: tuple[str, ...]
    root: Path | None
    workers: int
    platform: str | None


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PAIR]...")
@options.root
@options.builtin
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="How many processes.")
@options.platform
@options.json_file("the table")
@options.takes(FaultsOptions)
def faults(chosen: FaultsOptions) -> int:
    """Plant the faults of a tree's `suites/faults/` in its pairs and in samebits itself; show what the check says.

    PAIR limits the table to some pairs, shell patterns allowed. Exit code 1 when a fault is not caught, or when an
    honest implementation fails where its fault is planted.
    """
    files = chosen.report_files()
    from samebits.host import environment

    environment.prepare(platform=chosen.platform, processes=chosen.workers)
    from samebits.cli.faults_run import FaultsCommand
    from samebits.cli.pipeline import run_command

    command = FaultsCommand(patterns=chosen.patterns, root=chosen.root, workers=chosen.workers)
    return run_command(command, files)
