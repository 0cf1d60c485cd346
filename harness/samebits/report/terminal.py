"""The console of a command, and the head of its report."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console

from samebits.host.own_output import own_stdout
from samebits.report.tables import line

WIDTH = 140
"""Columns of a table that is written to a file or a pipe, unless COLUMNS says otherwise."""


class _Console(Console):
    """A console for a command whose exit code means something."""

    def on_broken_pipe(self) -> None:
        """Print nothing more once the reader has closed the pipe (`samebits check | head`); rich would exit with 1."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console(file: TextIO | None = None) -> Console:
    """A console that prints text as it is: no markup, no guessed colours, plain where stdout is not a terminal."""
    file = file or own_stdout()
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")  # a reason may hold what an ASCII terminal cannot show
    columns = os.environ.get("COLUMNS", "")
    width = None if file.isatty() else int(columns) if columns.isdigit() and int(columns) else WIDTH
    return _Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def show_head(to: Console, lines: Iterable[str]) -> None:
    """The environment, before anything runs."""
    for text in lines:
        line(to, text, "dim")
