"""`samebits prove model` as a command: training steps come in, proofs go out. To be imported after `prepare`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.cli.pipeline import Command, CommandRun
from samebits.host.environment import Environment
from samebits.programs.catalogue import default_root
from samebits.programs.replay import of_tree
from samebits.prove.selftest import check_proofs
from samebits.report.prove_model import StepDocument, exit_code, show_steps
from samebits.report.prove_model_markdown import steps_proved_markdown
from samebits.schema.model import Config, Defect, Model
from samebits.train.load import load_model
from samebits.train.prove_request import ProveRequest, replay_words, steps
from samebits.train.prove_step import StepLeaf, StepProver


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveModelInputs:
    """The steps to prove: configurations, each with the defect that is planted in it, if any."""

    model: Model
    tree: Path
    steps: list[tuple[Config, Defect | None]]
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class ProveModelCommand(Command[ProveModelInputs, StepLeaf, StepDocument]):
    """Prove training steps of a full model.

    Args:
        request: which steps.
        root: the tree with the model, or None for the current one.
        verbose: whether every step is shown, however many there are.
    """

    request: ProveRequest
    root: Path | None
    verbose: bool = False

    on_interrupt = "interrupted; what was proved so far is shown"

    def load(self, run: CommandRun) -> ProveModelInputs:
        """The model; the proofs have shown that they see planted differences.

        Raises:
            CheckerBroken: they do not.
        """
        tree = self.root or default_root()
        model = load_model(tree)
        chosen = steps(model, self.request)
        here = run.start_backend()
        check_proofs()
        return ProveModelInputs(model=model, tree=tree, steps=chosen, environment=here)

    def execute(self, run: CommandRun, inputs: ProveModelInputs, results: list[StepLeaf]) -> None:
        """Prove step by step."""
        prover = StepProver(inputs.model, inputs.tree)
        for config, defect in inputs.steps:
            with run.problems_of(config.name, printed=False):
                words = replay_words(inputs.model, self.request, config, defect)
                again = shlex.join(["samebits", "prove", "model", *words, *of_tree(inputs.tree)])
                results += [replace(leaf, replay=again) for leaf in prover.prove(config, defect)]

    def document(self, run: CommandRun, inputs: ProveModelInputs, results: list[StepLeaf]) -> StepDocument:
        """All leaves of all steps."""
        return StepDocument(
            environment=inputs.environment,
            model=inputs.model.name,
            results=tuple(results),
            problems=tuple(run.problems),
            seconds=round(run.seconds, 3),
            interrupted=run.interrupted,
        )

    def markdown(self, document: StepDocument) -> str:
        """Tables for a pull request."""
        return steps_proved_markdown(document)

    def show(self, run: CommandRun, inputs: ProveModelInputs, document: StepDocument) -> None:
        """Every step, and one sentence for all."""
        show_steps(run.console, document, verbose=self.verbose)

    def exit_code(self, inputs: ProveModelInputs, document: StepDocument) -> int:
        """1 where a leaf is refuted."""
        return exit_code(document)
