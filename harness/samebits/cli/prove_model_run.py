"""`samebits prove model` as a command: training steps come in, proofs go out. To be imported after `prepare`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.prove import ProveOptions
from samebits.cli.run_items import InOrder, run_in_order
from samebits.engine.journal import JournalHead
from samebits.engine.prove_model_work import ProvedStep, ProveModelWork, step_items
from samebits.engine.run_work import EngineSettings
from samebits.engine.work import Item
from samebits.host.environment import Environment
from samebits.programs.catalogue import default_root
from samebits.report.prove_model import StepDocument
from samebits.schema.model import Model
from samebits.schema.result import Problem
from samebits.train.load import load_model
from samebits.train.prove_request import ProveRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveModelInputs:
    """The steps to prove, in the order of the document, and the environment for the report."""

    model: Model
    tree: Path
    items: list[Item]
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class ProveModelCommand(Command[ProveModelInputs, ProvedStep, StepDocument]):
    """Prove training steps of a full model.

    Args:
        chosen: the options.
        settings: where and how steps are proved.
    """

    chosen: ProveOptions
    settings: EngineSettings

    @property
    def request(self) -> ProveRequest:
        """Which steps are proved."""
        chosen = self.chosen
        return ProveRequest(
            matrix=chosen.matrix,
            config=chosen.config,
            defect=chosen.defect,
            meshes=chosen.mesh,
            shard_modes=chosen.shard_mode,
            choices=chosen.choice,
        )

    on_interrupt = "interrupted; what was proved so far is shown"
    handles_signals = True

    def load(self, run: CommandRun) -> ProveModelInputs:
        """The model and the steps that the request selects."""
        tree = self.chosen.root or default_root()
        model = load_model(tree)
        items = step_items(model, tree, self.request)
        # However many there are, they need no accelerator; this process does not either.
        here = run.start_backend(workers=int(not self.settings.in_process), ray=self.settings.ray)
        return ProveModelInputs(model=model, tree=tree, items=items, environment=here)

    def execute(self, run: CommandRun, inputs: ProveModelInputs, results: list[ProvedStep]) -> None:
        """Prove step by step, and have the steps in the order of the request."""
        steps = InOrder[ProvedStep](inputs.items, lambda item: item.key, lambda done: results.extend(done[0].rows))
        work = ProveModelWork(inputs.tree, self.request)
        run_in_order(run, work, steps, self.settings, self._head(inputs), inputs.tree)

    def _head(self, inputs: ProveModelInputs) -> JournalHead:
        """What was asked for, for the journal."""
        return JournalHead(
            command="prove-model",
            request={"root": str(inputs.tree.resolve()), **asdict(self.request)},
            environment=asdict(inputs.environment),
        )

    def document(self, run: CommandRun, inputs: ProveModelInputs, results: list[ProvedStep]) -> StepDocument:
        """All leaves of all steps, and the steps that could not be looked at."""
        failed = [
            Problem(pair=step.config, message=step.error, exit_code=step.exit_code)
            for step in results
            if step.error is not None
        ]
        return StepDocument(
            environment=inputs.environment,
            model=inputs.model.name,
            results=tuple(leaf for step in results for leaf in step.leaves),
            problems=(*run.problems, *failed),
            notes=tuple(run.notes),
            seconds=round(run.seconds, 3),
            interrupted=run.interrupted,
        )
