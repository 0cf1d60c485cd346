"""`samebits audit claims`: every claim of the design documents beside the results of check and compile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from samebits.cli import options
from samebits.cli.declared import argument, option
from samebits.rooms import door


@dataclass(frozen=True, kw_only=True)
class ClaimsOptions(options.ReportOptions):
    """The options of `samebits audit claims`."""

    pairs: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    claim: Annotated[tuple[str, ...], option("Only this claim, such as 3922.5 or '3922.*'.", "ID")] = ()
    list_: Annotated[bool, option("Say what would run, and run nothing.")] = False
    workers: Annotated[
        int | None, option("How many processes at once; one per processor by default.", "N", least=1)
    ] = None
    no_cache: options.NoCache = False
    whole: options.Whole = False
    root: options.AnyTree = None


@options.command(ClaimsOptions)
def claims(chosen: ClaimsOptions) -> int:
    """Run every claim of the design documents: is it the same, under which condition, and what do compilers save?

    A claim is declared by its pair (documented=...). Its row is filled by `check`, `compile` and tests of that pair,
    run as processes. A claim that is not true is not a failure where a finding says so, with its numbers; a row that is
    otherwise than declared is.

    Exit codes: 0 every row is as declared, 1 one is not, 2 the request or a declaration is wrong, 3 undecided.
    """
    files = chosen.report_files()
    from samebits.cli.pipeline import run_command

    claims_run = door("cli.claims_run")
    command = claims_run.ClaimsCommand(chosen=chosen)
    return claims_run.list_jobs(command) if chosen.list_ else run_command(command, files)
