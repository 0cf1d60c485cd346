"""The report of a check in a terminal: one screen by default, and every row where that is asked for."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console

from samebits.host.own_output import own_stdout
from samebits.report.causes.cause import Cause, document_causes, first_command
from samebits.report.document import Document
from samebits.report.screen import height
from samebits.report.shake import show_shake
from samebits.report.tables import line
from samebits.report.terminal_rows import show_accepted, show_failures, show_notes, show_pairs
from samebits.report.terminal_screen import show_screen
from samebits.report.words import assumed_sentence, closing, is_empty_shard, remembered_sentence

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


def show(to: Console, document: Document, *, verbose: bool = False) -> None:
    """The report but for its head.

    Args:
        to: where it is printed.
        document: of a check.
        verbose: whether every row is shown, however many there are; otherwise one screen.
    """
    listed = document_causes(document)
    end = _end(document, listed)
    if verbose:
        show_pairs(to, document)
        show_accepted(to, document)
        if document.shake is not None:
            show_shake(to, document.shake, document.results)
        show_notes(to, document)
        show_failures(to, document)
    else:
        show_screen(to, document, listed, reserved=sum(height(text, to.width) for text, _ in end))
    for text, style in end:
        line(to, text, style)


def _end(document: Document, listed: Sequence[Cause]) -> list[tuple[str, str]]:
    """The last lines with their styles: what is remembered, one sentence for all, the next command."""
    nothing = not document.results and not is_empty_shard(document)
    failed = document.summary.failed or document.problems or nothing
    style = "bold red" if failed else "bold yellow" if document.incomplete else "bold green"
    command = first_command(listed)
    lines = [(remembered_sentence(document), ""), (assumed_sentence(document.results), "")]
    lines.append((closing(document), style))
    lines.append((None if command is None else f"next: {command}", ""))
    return [(text, style) for text, style in lines if text is not None]
