"""Snapshots of verdicts: compared with each check, and accepted by `samebits accept`. Imports jax."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.audit.snapshots.accept import AcceptedVerdicts, accept_verdicts
from samebits.audit.snapshots.hold import SnapshotComparison, compare_to_snapshots
from samebits.audit.snapshots.record import FOLDER, Processor, processor_here
from samebits.cli.accept import AcceptOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.select_pairs import load_pairs, plans
from samebits.engine.run_work import EngineSettings
from samebits.engine.sweep import sweep
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.host.permit import Permit, permit_in
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


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptInputs:
    """The pairs whose verdicts are accepted, by whom, and for which environment."""

    tree: Path
    permit: Permit
    loaded: Sequence[LoadedPair]
    surroundings: Environment
    processor: Processor


@dataclass(frozen=True, kw_only=True)
class AcceptCommand(Command[AcceptInputs, AcceptedVerdicts, AcceptDocument]):
    """Check pairs and accept what they give here.

    Args:
        chosen: the options.
        settings: where and how points run.
    """

    chosen: AcceptOptions
    settings: EngineSettings

    def load(self, run: CommandRun) -> AcceptInputs:
        """The pairs and their plans, once it is known that verdicts may be accepted now.

        Raises:
            RequestError: they may not.
        """
        tree = self.chosen.root or default_root()
        permit = permit_in(
            tree, tree / FOLDER, things="verdicts", reason=self.chosen.reason, author_given=self.chosen.author
        )
        declared = load_pairs(self.chosen.pairs, self.chosen.root, run)
        here = run.start_backend(shown=False, workers=self.settings.processes)
        loaded, problems, _ = plans(declared, self.chosen.request(), here.devices)
        for problem in problems:
            run.problem(problem)
        run.show_head(here, None)
        return AcceptInputs(
            tree=tree,
            permit=permit,
            loaded=loaded,
            surroundings=here,
            processor=processor_here(here),
        )

    def execute(self, run: CommandRun, inputs: AcceptInputs, results: list[AcceptedVerdicts]) -> None:
        """Check all pairs, and accept pair by pair."""
        with contextlib.closing(sweep(inputs.loaded, on_problem=run.problem, settings=self.settings)) as swept:
            all_checked = list(swept)
        for item in inputs.loaded:
            checked = [result for result in all_checked if result.place.pair == item.pair.name]
            if any(problem.pair == item.locator.name for problem in run.problems):
                continue
            try:
                accepted = accept_verdicts(
                    item.pair.name, inputs.tree, checked, inputs.surroundings, inputs.processor, inputs.permit
                )
                results.append(accepted)
            except SamebitsError as error:
                failing = any(result.failed and result.ruling.verdict != "error" for result in checked)
                code = 1 if failing else error.exit_code
                run.problem(Problem(pair=item.pair.name, message=str(error), exit_code=code))

    def document(self, run: CommandRun, inputs: AcceptInputs, results: list[AcceptedVerdicts]) -> AcceptDocument:
        """All pairs whose verdicts were accepted, and the problems of the others."""
        return AcceptDocument(environment=inputs.surroundings, results=tuple(results), problems=tuple(run.problems))
