"""`samebits audit claims`: every claim of the design documents beside the results of check and compile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options


@dataclass(frozen=True, kw_only=True)
class ClaimsOptions(options.ReportOptions):
    """The options of `samebits audit claims`."""

    pairs: tuple[str, ...]
    ids: tuple[str, ...]
    listing: bool
    workers: int | None
    no_cache: bool
    whole: bool
    root: Path | None


@click.command("claims")
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@click.option("--claim", "ids", multiple=True, metavar="ID", help="Only this claim, such as 3922.5 or '3922.*'.")
@click.option("--list", "listing", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--workers", type=click.IntRange(min=1), help="How many processes at once; one per processor by default.")
@click.option("--no-cache", is_flag=True, help="Compile anew, and cache nothing.")
@options.root
@options.builtin
@options.json_file("the rows")
@options.markdown_file("the table for a document")
@options.whole
@options.takes(ClaimsOptions)
def claims(chosen: ClaimsOptions) -> int:
    """Run every claim of the design documents: is it the same, under which condition, and what do compilers save?

    A claim is declared by its pair (documented=...). Its row is filled by `check`, `compile` and tests of that pair,
    run as processes. A claim that is not true is not a failure where a finding says so, with its numbers; a row that is
    otherwise than declared is.

    Exit codes: 0 every row is as declared, 1 one is not, 2 the request or a declaration is wrong, 3 undecided.
    """
    files = chosen.report_files()
    from samebits.cli.claims_run import ClaimsCommand, list_jobs
    from samebits.cli.pipeline import run_command

    command = ClaimsCommand(
        pairs=chosen.pairs,
        ids=chosen.ids,
        root=chosen.root,
        cached=not chosen.no_cache,
        workers=chosen.workers or os.cpu_count() or 1,
        whole=chosen.whole,
    )
    return list_jobs(command) if chosen.listing else run_command(command, files)
