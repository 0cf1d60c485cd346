"""`samebits history`: many documents through time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(options.ReportOptions):
    """The options of `samebits history`."""

    folder: Path
    root: Path | None


@click.command("history")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.root
@options.json_file("the history")
@options.markdown_file("tables of at most 60 lines")
@options.takes(HistoryOptions)
def history(chosen: HistoryOptions) -> int:
    """Show how each result moved through many documents, such as those of a month of nights.

    DIR holds files that `--json` wrote, in subfolders too; those of one command are compared with one another, in the
    order of their commits where each names one that the repository here has, else in the order of their times. Results
    that never changed are counted; for the others there are the verdicts, and the commit or package where each moved.

    Exit codes: 0 shown, whatever it shows (`samebits diff` compares two documents); 2 the folder has no files of this
    kind; 3 a file could not be read and was skipped, or there are not two documents of one command.
    """
    files = chosen.report_files()
    from samebits.cli.history_run import HistoryCommand
    from samebits.cli.pipeline import run_command

    return run_command(HistoryCommand(folder=chosen.folder, root=chosen.root), files)
