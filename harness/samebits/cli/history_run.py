"""`samebits history` as a command: a folder of documents comes in, what moved through time goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from samebits.cli.pipeline import Command, CommandRun
from samebits.errors import COULD_NOT_TELL, RequestError
from samebits.host.git import in_order
from samebits.host.written import Written
from samebits.report.any_document import read_any_document
from samebits.report.changes.diff import environment_of
from samebits.report.changes.documents import READERS, document_rows
from samebits.report.changes.history import Dated, HistoryDocument, history_of
from samebits.report.changes.history_text import history_markdown, show_history


@dataclass(frozen=True, kw_only=True)
class HistoryCommand(Command[HistoryDocument, HistoryDocument, HistoryDocument]):
    """Put many documents into an order.

    Args:
        folder: where they are.
        root: a tree of the repository whose commits they name, or None for the current folder.
    """

    folder: Path
    root: Path | None

    def load(self, run: CommandRun) -> HistoryDocument:
        """What moved.

        Raises:
            RequestError: the folder has no documents.
            CouldNotRun: it has not two of one command.
        """
        if not self.folder.is_dir():
            raise RequestError(f"{self.folder}: expected a folder with documents that --json FILE wrote")
        paths = sorted(path for path in self.folder.rglob("*.json") if path.is_file())
        if not paths:
            raise RequestError(f"{self.folder}: has no *.json; expected documents that --json FILE wrote")
        documents, skipped, without = [], [], []
        for path in paths:
            try:
                document: Any = read_any_document(path)
            except RequestError as error:
                skipped.append(str(error))
                continue
            if document.command in READERS:
                documents.append(_dated(path, self.folder, document))
            else:
                without.append(f"{path.relative_to(self.folder)} ({document.command})")
        history = history_of(str(self.folder), documents, self._commits(documents), skipped)
        notes = (f"without verdicts, and not compared: {', '.join(without)}",) if without else ()
        return replace(history, notes=(*history.notes, *notes))

    def _commits(self, documents: list[Dated]) -> list[str]:
        commits = list(dict.fromkeys(document.written.commit for document in documents))
        return in_order(self.tree(), [commit for commit in commits if commit is not None])

    def execute(self, run: CommandRun, inputs: HistoryDocument, results: list[HistoryDocument]) -> None:
        """Nothing: the documents are there."""

    def document(self, run: CommandRun, inputs: HistoryDocument, results: list[HistoryDocument]) -> HistoryDocument:
        """The history."""
        return inputs

    def markdown(self, document: HistoryDocument) -> str:
        """Tables for an issue or a page."""
        return history_markdown(document)

    def show(self, run: CommandRun, inputs: HistoryDocument, document: HistoryDocument) -> None:
        """The documents, what moved, and one sentence."""
        show_history(run.console, document)

    def exit_code(self, inputs: HistoryDocument, document: HistoryDocument) -> int:
        """3 where a file was skipped: what it says is missing."""
        return COULD_NOT_TELL if document.skipped else 0


def _dated(path: Path, folder: Path, document: Any) -> Dated:
    # Documents of older versions have no time; that of the file is the next best.
    written = document.written or Written(
        time=f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%dT%H:%M:%SZ}"
    )
    return Dated(
        file=str(path.relative_to(folder)),
        command=document.command,
        written=written,
        environment=environment_of(document),
        rows=document_rows(document),
    )
