"""`samebits audit faults` as a command: planted faults come in, the result of the check on each goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from samebits.audit.faults import find
from samebits.audit.faults.fault import FaultRow
from samebits.cli.audit import FaultsOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.run_items import InOrder, run_in_order
from samebits.engine.drive import Done
from samebits.engine.faults_work import FaultsWork, fault_items
from samebits.engine.journal import JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.engine.work import Item
from samebits.errors import RequestError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.faults import FaultTable, fault_lines
from samebits.report.terminal import show_blocks


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultInputs:
    """A tree, and the faults that are planted in it, as items."""

    tree: Path
    items: Sequence[Item]


@dataclass(frozen=True, kw_only=True)
class FaultsCommand(Command[FaultInputs, FaultRow, FaultTable]):
    """Plant faults and check each.

    Args:
        chosen: the options.
        settings: where and how faults are checked.
    """

    chosen: FaultsOptions
    settings: EngineSettings

    on_interrupt = "interrupted; the faults that were checked so far are shown"
    handles_signals = True

    def load(self, run: CommandRun) -> FaultInputs:
        """The faults of the patterns.

        Raises:
            RequestError: there are none, or a pattern fits none.
        """
        tree = (self.chosen.root or default_root()).resolve()
        known = find.all_faults(tree)
        of_pairs = [number for number, fault in enumerate(known) if _fits(fault.pair, self.chosen.patterns)]
        pairs = list(dict.fromkeys(fault.pair for fault in known))
        for pattern in _unmatched(self.chosen.patterns, pairs):
            raise RequestError(f"no fault is planted in '{pattern}'; {suggest(pattern, pairs)}")
        called = list(dict.fromkeys(known[number].name for number in of_pairs))
        for pattern in _unmatched(self.chosen.fault, called):
            raise RequestError(f"no fault is called '{pattern}'; expected some of {', '.join(map(repr, called))}")
        numbers = [number for number in of_pairs if _fits(known[number].name, self.chosen.fault)]
        # Else each fault would fail by itself on an accelerator that is in use.
        run.start_backend(shown=False, workers=self.settings.processes, ray=self.settings.ray)
        items, shard = fault_items(tree, numbers), self.settings.shard
        if shard is not None:
            items = shard.of(items)
            if not items:
                raise RequestError(f"--shard {shard}: nothing is left for this part; ask for fewer parts")
        return FaultInputs(tree=tree, items=items)

    def execute(self, run: CommandRun, inputs: FaultInputs, results: list[FaultRow]) -> None:
        """Plant and check the faults, in the order of their tables."""

        def show(done: list[Done[FaultRow]]) -> None:
            for row in done[0].rows:
                results.append(row)
                if self.verbose:
                    show_blocks(run.console, [fault_lines(len(results), len(inputs.items), row)])

        blocks = InOrder[FaultRow](inputs.items, lambda item: item.key, show)
        head = JournalHead(
            command="faults",
            request={
                "tree": str(inputs.tree),
                "patterns": list(self.chosen.patterns),
                "faults": list(self.chosen.fault),
            },
            shard=None if self.settings.shard is None else str(self.settings.shard),
        )
        settings = replace(self.settings, shard=None)  # the items are those of the shard
        run_in_order(run, FaultsWork(inputs.tree), blocks, settings, head, inputs.tree)

    def document(self, run: CommandRun, inputs: FaultInputs, results: list[FaultRow]) -> FaultTable:
        """A row per fault."""
        return FaultTable(results=tuple(results), problems=tuple(run.problems), planned=len(inputs.items))

    @property
    def shows_live(self) -> bool:
        """Whether each fault is shown as soon as it has been checked."""
        return self.verbose


def _unmatched(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    return [pattern for pattern in patterns if not any(_fits(name, [pattern]) for name in names)]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
