"""`samebits faults` as a command: planted faults come in, the result of the check on each goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from samebits.audit.faults.fault import Fault
from samebits.audit.faults.find import all_faults
from samebits.audit.faults.plant import FaultOutcome
from samebits.audit.faults.run import checked
from samebits.cli.pipeline import Command, CommandRun
from samebits.errors import RequestError
from samebits.programs.catalogue import default_root
from samebits.report.faults import FaultRow, FaultTable, show_fault, show_faults_end


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultInputs:
    """All faults of a tree, and the places of those that are planted."""

    tree: Path
    known: Sequence[Fault]
    numbers: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class FaultsCommand(Command[FaultInputs, FaultRow, FaultTable]):
    """Plant faults and check each.

    Args:
        patterns: shell patterns of pairs; none for all.
        root: the tree, or None for the current one.
        workers: how many processes.
    """

    patterns: Sequence[str]
    root: Path | None
    workers: int

    on_interrupt = "interrupted"

    def load(self, run: CommandRun) -> FaultInputs:
        """The faults of the patterns.

        Raises:
            RequestError: there are none.
        """
        tree = (self.root or default_root()).resolve()
        known = all_faults(tree)
        numbers = [
            number
            for number, fault in enumerate(known)
            if not self.patterns or any(fnmatchcase(fault.pair, pattern) for pattern in self.patterns)
        ]
        if not numbers:
            names = ", ".join(dict.fromkeys(fault.pair for fault in known))
            raise RequestError(f"no fault is planted in {' '.join(self.patterns)}; expected some of {names}")
        # Else each fault would fail by itself on an accelerator that is in use.
        run.start_backend(shown=False, workers=self.workers if self.workers > 1 else 0)
        return FaultInputs(tree=tree, known=known, numbers=numbers)

    def execute(self, run: CommandRun, inputs: FaultInputs, results: list[FaultRow]) -> None:
        """Plant, check and show one fault after the other."""
        for number, caught in checked(inputs.tree, inputs.numbers, self.workers):
            results.append(_row(inputs.known[number], caught))
            show_fault(run.console, len(results), len(inputs.numbers), results[-1])

    def document(self, run: CommandRun, inputs: FaultInputs, results: list[FaultRow]) -> FaultTable:
        """A row per fault."""
        return FaultTable(results=tuple(results))

    def show(self, run: CommandRun, inputs: FaultInputs, document: FaultTable) -> None:
        """One sentence for all."""
        show_faults_end(run.console, document.results, len(inputs.numbers))

    def exit_code(self, inputs: FaultInputs, document: FaultTable) -> int:
        """1 where a fault is not caught or an honest implementation fails; 3 where not all were tried."""
        if any(not (row.caught and row.honest) for row in document.results):
            return 1
        return 0 if len(document.results) == len(inputs.numbers) else 3


def _row(fault: Fault, caught: FaultOutcome) -> FaultRow:
    return FaultRow(
        pair=fault.pair,
        side=fault.side,
        fault=fault.name,
        expected=f"{fault.verdict} ({fault.kind})" if fault.kind else fault.verdict,
        caught=caught.caught,
        honest=caught.honest,
        said=caught.said,
        results=caught.results,
        failed=caught.failed,
        by=caught.by,
    )
