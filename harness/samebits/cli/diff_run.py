"""`samebits diff` as a command: two documents come in, what changed goes out."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.cli.diff import DiffOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.select_pairs import declaration_lines
from samebits.report.any_document import read_any_document
from samebits.report.changes.diff import compare_documents
from samebits.report.changes.diff_document import DiffDocument, Slower, diff_outcomes
from samebits.report.continuous_integration import Outcomes


@dataclass(frozen=True, kw_only=True)
class DiffCommand(Command[DiffDocument, DiffDocument, DiffDocument]):
    """Compare two documents."""

    chosen: DiffOptions

    def load(self, run: CommandRun) -> DiffDocument:
        """What changed, from both documents.

        Raises:
            RequestError: a file is not a document of a command with verdicts, or they are of two commands.
            CouldNotRun: the documents have no result in common.
        """
        old, new, slower = self.chosen.old, self.chosen.new, Slower(ratio=self.chosen.slower, floor=self.chosen.floor)
        both = read_any_document(old), read_any_document(new)
        return compare_documents(*both, files=(str(old), str(new)), slower=slower)

    def execute(self, run: CommandRun, inputs: DiffDocument, results: list[DiffDocument]) -> None:
        """Nothing: both commands have run."""

    def document(self, run: CommandRun, inputs: DiffDocument, results: list[DiffDocument]) -> DiffDocument:
        """What changed."""
        return inputs

    def outcomes(self, inputs: DiffDocument, document: DiffDocument) -> Outcomes:
        """One row per change."""
        return diff_outcomes(document, declaration_lines((), self.chosen.root))
