"""`golden check` and `golden accept` as commands: runs come in, goldens are checked or written. Imports jax."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from samebits.cli.common import say
from samebits.cli.golden import GoldenAcceptOptions, GoldenCheckOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.run_items import run_items
from samebits.engine.golden_work import GoldenWork, golden_items
from samebits.engine.journal import JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.host.permit import Permit
from samebits.programs.catalogue import default_root
from samebits.report.golden import GoldenDocument
from samebits.report.markdown import WORST
from samebits.schema.model import Model
from samebits.schema.result import Problem
from samebits.train.cache import persistent_compile_cache
from samebits.train.golden.accept import AcceptedGolden, permit
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.runs import (
    GoldenSession,
    NamedConfig,
    accept_goldens,
    goldens_to_check,
    selected,
    without_goldens,
)
from samebits.train.load import load_model


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCheckInputs:
    """The model whose goldens are checked, its tree, and the environment."""

    model: Model
    tree: Path
    surroundings: Environment


@dataclass(frozen=True, kw_only=True)
class GoldenCheckCommand(Command[GoldenCheckInputs, CheckedGolden, GoldenDocument]):
    """Compare today's runs with their goldens.

    Args:
        chosen: the options; without a name, every run of each matrix that has goldens here.
        settings: where and how configurations run.
    """

    chosen: GoldenCheckOptions
    settings: EngineSettings

    def load(self, run: CommandRun) -> GoldenCheckInputs:
        """The model.

        Raises:
            RequestError: there is no such matrix or configuration.
        """
        tree = self.chosen.root or default_root()
        model = load_model(tree)
        selected(model, self.chosen.matrix, self.chosen.config)
        here = run.start_backend(None, workers=self.settings.processes, ray=self.settings.ray)
        return GoldenCheckInputs(model=model, tree=tree, surroundings=here)

    def execute(self, run: CommandRun, inputs: GoldenCheckInputs, results: list[CheckedGolden]) -> None:
        """Run and compare."""
        wanted = goldens_to_check(inputs.model, inputs.surroundings, self.chosen.matrix, self.chosen.config)
        items = golden_items(inputs.tree, [named.name for named in wanted.runs])
        head = JournalHead(
            command="golden-check",
            request={
                "tree": str(inputs.tree.resolve()),
                "matrices": list(self.chosen.matrix),
                "configs": list(self.chosen.config),
            },
            shard=None if self.settings.shard is None else str(self.settings.shard),
            environment=asdict(inputs.surroundings),
        )

        def failed(problem: Problem) -> None:
            results.append(CheckedGolden(name=problem.pair, status="not run", message=problem.message))

        ran = run_items(run, GoldenWork(inputs.tree), items, self.settings, head, inputs.tree, failed)
        with contextlib.closing(ran):
            for done in ran:
                results += done.rows
        results[:] = wanted.in_order(results)

    def document(self, run: CommandRun, inputs: GoldenCheckInputs, results: list[CheckedGolden]) -> GoldenDocument:
        """A result per golden, and which matrices have none."""
        missing = () if self.chosen.matrix or self.chosen.config else without_goldens(inputs.model, inputs.surroundings)
        return GoldenDocument(
            command="golden check",
            environment=inputs.surroundings,
            results=tuple(results),
            notes=(_unchecked(missing),) if missing else (),
        )

    def show(self, run: CommandRun, inputs: GoldenCheckInputs, document: GoldenDocument) -> None:
        """Say what could not be read or run on stderr, then show the page."""
        results = _checked(document)
        if not results:
            shard = self.settings.shard
            why = "the model has no matrix" if shard is None else f"nothing is left for --shard {shard}"
            say(f"no golden was checked: {why}")
            return
        unusable = [result.message for result in results if result.exit_code > 1]
        for message in unusable if self.verbose else unusable[:WORST]:
            say(message)
        super().show(run, inputs, document)


def _unchecked(matrices: Sequence[str]) -> str:
    if len(matrices) == 1:
        return f"matrix {matrices[0]} has no goldens here: not checked"
    return f"matrices {', '.join(matrices)} have no goldens here: not checked"


def _checked(document: GoldenDocument) -> list[CheckedGolden]:
    return [result for result in document.results if isinstance(result, CheckedGolden)]


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenAcceptInputs:
    """The runs whose traces become goldens, by whom, and the environment."""

    model: Model
    tree: Path
    runs: Sequence[NamedConfig]
    permit: Permit
    surroundings: Environment


@dataclass(frozen=True, kw_only=True)
class GoldenAcceptCommand(Command[GoldenAcceptInputs, AcceptedGolden, GoldenDocument]):
    """Make today's runs the goldens."""

    chosen: GoldenAcceptOptions

    def load(self, run: CommandRun) -> GoldenAcceptInputs:
        """The runs, once it is known that goldens may be accepted now.

        Raises:
            RequestError: they may not, or there is no such run.
        """
        chosen = self.chosen
        tree = chosen.root or default_root()
        model = load_model(tree)
        runs = selected(model, chosen.matrix, chosen.config)
        allowed = permit(model, tree, reason=chosen.why(), author_given=chosen.author, steps=chosen.steps)
        here = run.start_backend(None)
        return GoldenAcceptInputs(model=model, tree=tree, runs=runs, permit=allowed, surroundings=here)

    def execute(self, run: CommandRun, inputs: GoldenAcceptInputs, results: list[AcceptedGolden]) -> None:
        """Accept one run after the other; one that cannot be accepted is a problem, and the others go on."""
        with persistent_compile_cache():
            session = GoldenSession(model=inputs.model, root=inputs.tree, here=inputs.surroundings)
            outcomes = accept_goldens(
                session, inputs.runs, inputs.permit, steps=self.chosen.steps, only_confirm=self.chosen.confirm
            )
            for outcome in outcomes:
                if isinstance(outcome, AcceptedGolden):
                    results.append(outcome)
                    continue
                name, error = outcome
                assert isinstance(error, SamebitsError)
                run.problems.append(Problem(pair=name, message=str(error), exit_code=error.exit_code))
                say(str(error))

    def document(self, run: CommandRun, inputs: GoldenAcceptInputs, results: list[AcceptedGolden]) -> GoldenDocument:
        """A result per golden that was written."""
        return GoldenDocument(
            command="golden accept",
            environment=inputs.surroundings,
            results=tuple(results),
            problems=tuple(run.problems),
        )
