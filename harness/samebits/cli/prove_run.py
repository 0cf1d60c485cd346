"""`samebits prove` as a command: pairs come in, proofs go out. To be imported after `environment.prepare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.check.contract_audit import ANY_DEVICES
from samebits.cli.common import COULD_NOT_TELL
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.select_pairs import declaration_lines, load_pairs, plans
from samebits.engine.prove_points import prove_points
from samebits.host.environment import Environment
from samebits.programs.plan import LoadedPair, Request
from samebits.report.outcomes import Outcomes, proof_outcomes
from samebits.report.prove import ProofDocument, show_end, show_pair
from samebits.schema.proof import ProofResult, exit_code


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveInputs:
    """The pairs to prove, and the environment for the report."""

    loaded: Sequence[LoadedPair]
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class ProveCommand(Command[ProveInputs, ProofResult, ProofDocument]):
    """Prove a request, and show each pair as it is done.

    Args:
        pairs: names of pairs, or `module:PAIR`; empty means the whole tree.
        request: the filters; meshes may be of any size.
        root: the tree, or None for the current one.
        platform: the target; None is the platform that jax chooses here.
        assuming: whether a proof may rest on assumptions beyond shapes and rounding.
    """

    pairs: Sequence[str]
    request: Request
    root: Path | None
    platform: str | None
    assuming: bool

    on_interrupt = "interrupted; what was proved so far is shown"

    def load(self, run: CommandRun) -> ProveInputs:
        """The declarations and their plans."""
        loaded, problems, left_out = plans(load_pairs(self.pairs, self.root, run), self.request, ANY_DEVICES)
        for problem in problems:
            run.problem(problem)
        run.notes += left_out
        return ProveInputs(loaded=loaded, environment=run.start_backend(shown=bool(loaded)))

    def execute(self, run: CommandRun, inputs: ProveInputs, results: list[ProofResult]) -> None:
        """Prove pair by pair; a pair that was interrupted is left out."""
        for item in inputs.loaded:
            own: list[ProofResult] = []
            with run.problems_of(item.locator.name):
                for argument in prove_points(item.pair, item.locator, item.plan, self.platform, assuming=self.assuming):
                    own.append(argument)
            results += own
            show_pair(run.console, item.pair.name, own)

    def document(self, run: CommandRun, inputs: ProveInputs, results: list[ProofResult]) -> ProofDocument:
        """All proofs."""
        return ProofDocument(
            environment=inputs.environment,
            results=tuple(results),
            problems=tuple(run.problems),
            notes=tuple(run.notes),
            seconds=round(run.seconds, 3),
            interrupted=run.interrupted,
        )

    def outcomes(self, inputs: ProveInputs, document: ProofDocument) -> Outcomes:
        """One row per leaf."""
        return proof_outcomes(document, declaration_lines([item.pair for item in inputs.loaded], self.root))

    def show(self, run: CommandRun, inputs: ProveInputs, document: ProofDocument) -> None:
        """What follows the pairs."""
        if inputs.loaded:
            show_end(run.console, document)

    def exit_code(self, inputs: ProveInputs, document: ProofDocument) -> int:
        """1 where a leaf is refuted; a wrong request over what could not be told."""
        worst = max((problem.exit_code for problem in document.problems), key=lambda code: code == 2, default=0)
        return exit_code(list(document.results), COULD_NOT_TELL if document.interrupted else worst)
