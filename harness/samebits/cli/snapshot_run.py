"""Snapshots of verdicts: compared with each check, and accepted by `samebits accept`. Imports jax."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from samebits.audit.snapshots import (
    FOLDER,
    AcceptedVerdicts,
    SnapshotComparison,
    accept_verdicts,
    compare_to_snapshots,
    processor_here,
)
from samebits.cli.accept import AcceptOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.select_pairs import load_pairs, plans
from samebits.engine.run_work import EngineSettings
from samebits.engine.verdict_cache import sweep
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.host.permit import permit_in
from samebits.programs.catalogue import default_root
from samebits.programs.plan import LoadedPair
from samebits.report.snapshots import AcceptDocument
from samebits.schema.finding import Finding
from samebits.schema.result import Problem


def compare_with_snapshots(
    results: Sequence[Finding], loaded: Sequence[LoadedPair], here: Environment, run: CommandRun
) -> tuple[list[Finding], SnapshotComparison]:
    """Compare the results of a check with the snapshots of its pairs, in their trees."""
    pairs = {
        item.pair.name: Path(item.locator.root) if item.locator.root is not None else default_root()
        for item in loaded
        if ":" not in item.locator.name
    }
    judged, verdicts, problems = compare_to_snapshots(results, pairs, here, processor_here(here))
    for problem in problems:
        run.problem(problem)
    run.notes += verdicts.notes()
    return judged, verdicts


def accept_pairs(chosen: AcceptOptions, settings: EngineSettings, run: CommandRun) -> AcceptDocument:
    """Check pairs, and accept pair by pair what they give here, once it is known that verdicts may be accepted now."""
    tree = chosen.root or default_root()
    permit = permit_in(tree, tree / FOLDER, things="verdicts", reason=chosen.reason, author_given=chosen.author)
    declared = load_pairs(chosen.pairs, chosen.root, run)
    here = run.start_backend(shown=False, workers=settings.processes)
    loaded = plans(run, declared, chosen.request(), here.devices)
    run.show_head(here, None)
    with contextlib.closing(sweep(loaded, on_problem=run.problem, settings=settings)) as swept:
        every = list(swept)
    processor, results = processor_here(here), list[AcceptedVerdicts]()
    for item in loaded:
        checked = [result for result in every if result.place.pair == item.pair.name]
        if any(problem.pair == item.locator.name for problem in run.problems):
            continue
        try:
            results.append(accept_verdicts(item.pair.name, tree, checked, here, processor, permit))
        except SamebitsError as error:
            failing = any(result.failed and result.ruling.verdict != "error" for result in checked)
            run.problem(Problem(pair=item.pair.name, message=str(error), exit_code=1 if failing else error.exit_code))
    return AcceptDocument(environment=here, results=tuple(results), problems=tuple(run.problems))
