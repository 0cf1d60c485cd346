"""`samebits report diff`: a branch against its base, from the documents of two checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options


@dataclass(frozen=True, kw_only=True)
class DiffOptions(options.ContinuousIntegration, options.ReportOptions):
    """The options of `samebits report diff`."""

    base: Path
    branch: Path
    root: Path | None


@click.command("diff")
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("branch", type=click.Path(path_type=Path))
@options.root
@options.json_file("what changed")
@options.markdown_file("a table for a pull request")
@options.continuous_integration
@options.takes(DiffOptions)
def report_diff(chosen: DiffOptions) -> int:
    """Compare two documents of `samebits check --json`: that of BASE, and that of a BRANCH.

    Shown are new failures, verdicts that fell although the contract holds, results that are no longer compared, and
    where the reference itself has other bits. Nothing is run again.

    Exit codes: 0 nothing is worse, 1 a new failure, or a verdict that fell in the same environment; 2 a file is not
    such a document, or a declaration is newly wrong; 3 the documents have no result in common.
    """
    files = chosen.report_files()
    from samebits.cli.pipeline import run_command
    from samebits.cli.report_diff_run import DiffCommand

    return run_command(DiffCommand(base=chosen.base, branch=chosen.branch, root=chosen.root), files)
