"""`samebits diff`: two documents of one command, an old one and a new one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samebits.cli import options
from samebits.cli.declared import argument, option

if TYPE_CHECKING:
    from samebits.cli.pipeline import CommandRun
    from samebits.report.changes.diff_document import DiffDocument


@dataclass(frozen=True, kw_only=True)
class DiffOptions(options.ContinuousIntegration, options.ReportOptions):
    """The options of `samebits diff`."""

    old: Annotated[Path, argument()]
    new: Annotated[Path, argument()]
    slower: Annotated[
        float,
        option("A result is slower from this ratio of its times on; it never fails.", "RATIO", above=1),
    ] = 2.0
    floor: Annotated[float, option("And if it takes so many seconds longer.", "SECONDS", least=0)] = 1.0
    root: options.Tree = None


@options.command(DiffOptions)
def diff(chosen: DiffOptions) -> int:
    """Compare two documents of one command: last night's and today's, two machines, two versions of jax.

    OLD and NEW are files that `--json` wrote: of check, prove, compile, train, golden check, bisect, or one of
    audit. Shown are new and worse failures, verdicts that fell although the contract holds,
    results that are no longer compared, changed contracts, where the reference itself has other bits, what is slower,
    figures of compiled programs that changed, and where the environments differ. Nothing is run again.

    Exit codes: 0 nothing is worse, 1 a new failure, a failure with a lower verdict, or a verdict that fell or a loss of
    training that moved further than rounding in the same environment; 2 a file is not such a document, the files are
    of two commands, or a declaration is newly wrong; 3 the documents have no result in common.
    """
    return options.run("diff:compare_files", chosen)


def compare_files(chosen: DiffOptions, run: CommandRun) -> DiffDocument:
    """Compare two documents."""
    from samebits.report.any_document import read_any_document
    from samebits.report.changes.diff import compare_documents
    from samebits.report.changes.diff_document import Slower, diff_outcomes

    run.outcomes = diff_outcomes
    both = read_any_document(chosen.old), read_any_document(chosen.new)
    slower = Slower(ratio=chosen.slower, floor=chosen.floor)
    return compare_documents(*both, files=(str(chosen.old), str(chosen.new)), slower=slower)
