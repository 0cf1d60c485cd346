"""The work of `samebits audit faults`: planted faults come in, the result of the check on each goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from samebits.audit.faults import fault as planted
from samebits.audit.faults.fault import FaultRow
from samebits.cli.audit import FaultsOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import InOrder, journal_head, run_in_order
from samebits.engine.drive import Done
from samebits.engine.faults_work import FaultsWork, fault_items
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.faults import FaultTable, fault_lines


def plant_faults(chosen: FaultsOptions, settings: EngineSettings, run: CommandRun) -> FaultTable:
    """Plant faults and check each, in the order of their tables."""
    tree = (chosen.root or default_root()).resolve()
    numbers = _numbers(chosen, tree)
    # Else each fault would fail by itself on an accelerator that is in use.
    run.start_backend(shown=False, workers=settings.processes, ray=settings.ray)
    head = journal_head("faults", settings, None, tree, patterns=[*chosen.patterns], faults=[*chosen.fault])
    items, shard = fault_items(tree, numbers), settings.shard
    if shard is not None:
        items, settings = shard.of(items), replace(settings, shard=None)
        if not items:
            raise RequestError(f"--shard {shard}: nothing is left for this part; ask for fewer parts")
    results: list[FaultRow] = []

    def show(done: list[Done[FaultRow]]) -> None:
        for row in done[0].rows:
            results.append(row)
            if chosen.verbose:
                run.show([fault_lines(len(results), len(items), row)])

    blocks = InOrder[FaultRow](items, lambda item: item.key, show)
    with run.partial("interrupted; the faults that were checked so far are shown"):
        run_in_order(run, FaultsWork(tree), blocks, settings, head)
    return FaultTable(results=tuple(results), problems=tuple(run.problems), planned=len(items))


def _numbers(chosen: FaultsOptions, tree: Path) -> list[int]:
    """Return the numbers of the faults that the patterns name."""
    known = planted.all_faults(tree)
    of_pairs = [number for number, fault in enumerate(known) if _fits(fault.pair, chosen.patterns)]
    pairs = list(dict.fromkeys(fault.pair for fault in known))
    for pattern in _unmatched(chosen.patterns, pairs):
        raise RequestError(f"no fault is planted in '{pattern}'; {suggest(pattern, pairs)}")
    called = list(dict.fromkeys(known[number].name for number in of_pairs))
    for pattern in _unmatched(chosen.fault, called):
        raise RequestError(f"no fault is called '{pattern}'; expected some of {', '.join(map(repr, called))}")
    return [number for number in of_pairs if _fits(known[number].name, chosen.fault)]


def _unmatched(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    return [pattern for pattern in patterns if not any(_fits(name, [pattern]) for name in names)]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
