"""`samebits prove` as a command: pairs come in, proofs go out. To be imported after `environment.prepare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from samebits.check.contract_audit import ANY_DEVICES
from samebits.check.line_evidence import few_lines
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.prove import ProveOptions
from samebits.cli.run_items import InOrder, run_in_order
from samebits.cli.select_pairs import declaration_lines, load_pairs, plans
from samebits.engine.drive import Done
from samebits.engine.journal import JournalHead
from samebits.engine.prove_work import ProveWork, prove_items
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.host.environment import Environment
from samebits.programs.plan import LoadedPair
from samebits.report.continuous_integration import Outcomes, outcomes
from samebits.report.prove import ProofDocument, pair_block
from samebits.report.terminal import show_blocks
from samebits.report.words import other_input_notes
from samebits.rooms import door
from samebits.schema.finding import Finding, at


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveInputs:
    """The pairs to prove, and the environment for the report."""

    loaded: Sequence[LoadedPair]
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class ProveCommand(Command[ProveInputs, Finding, ProofDocument]):
    """Prove a request.

    Args:
        chosen: the options; meshes may be of any size.
        settings: where and how points are proved.
    """

    chosen: ProveOptions
    settings: EngineSettings

    on_interrupt = "interrupted; what was proved so far is shown"
    handles_signals = True

    def load(self, run: CommandRun) -> ProveInputs:
        """The declarations and their plans."""
        chosen = self.chosen
        loaded, problems, left_out = plans(
            load_pairs(chosen.pairs, chosen.root, run, chosen.sizes), chosen.request(), ANY_DEVICES
        )
        for problem in problems:
            run.problem(problem)
        run.notes += left_out
        if self.chosen.all_sizes:
            loaded, notes = door("sizes.points").of_all_sizes(loaded)
            if not loaded and not run.problems:
                raise RequestError("; ".join(notes))
            run.notes += notes
        # However many there are, they need no accelerator; this process does not either.
        apart = int(not self.settings.in_process)
        here = run.start_backend(shown=bool(loaded), workers=apart, ray=self.settings.ray)
        return ProveInputs(loaded=loaded, environment=here)

    def execute(self, run: CommandRun, inputs: ProveInputs, results: list[Finding]) -> None:
        """Prove all points."""
        items = prove_items(inputs.loaded, all_sizes=self.chosen.all_sizes)
        work = ProveWork(
            self.chosen.platform or inputs.environment.platform,
            assuming=not self.chosen.no_assumptions,
            all_sizes=self.chosen.all_sizes,
        )
        names = {item.locator.name: item.pair.name for item in inputs.loaded}

        def show(pair: list[Done[Finding]]) -> None:
            rows = [row for done in pair for row in done.rows]
            results.extend(rows)
            if self.verbose:
                show_blocks(run.console, [pair_block(names[pair[0].item.pair], few_lines(rows))])

        blocks = InOrder[Finding](items, lambda item: item.pair, show)
        run_in_order(run, work, blocks, self.settings, self._head(inputs), self.tree())

    def _head(self, inputs: ProveInputs) -> JournalHead:
        """What was asked for, for the journal."""
        return JournalHead(
            command="prove",
            request={
                "pairs": list(self.chosen.pairs),
                "root": str(self.tree().resolve()),
                "platform": self.chosen.platform,
                "assuming": not self.chosen.no_assumptions,
                "all_sizes": self.chosen.all_sizes,
                **asdict(self.chosen.request()),
            },
            environment=asdict(inputs.environment),
        )

    def document(self, run: CommandRun, inputs: ProveInputs, results: list[Finding]) -> ProofDocument:
        """All proofs, in the order of the plans."""
        order = {
            at(item.pair.name, point, ""): (first, second)
            for first, item in enumerate(inputs.loaded)
            for second, point in enumerate(item.plan.points)
        }
        results.sort(key=lambda result: order[result.place.whole])
        return ProofDocument(
            environment=inputs.environment,
            results=tuple(few_lines(results)),
            problems=tuple(run.problems),
            notes=(*run.notes, *other_input_notes(results)),
            seconds=round(run.seconds, 3),
            interrupted=run.interrupted,
        )

    @property
    def shows_live(self) -> bool:
        """Whether every proof was shown as its pair was done."""
        return self.verbose

    def outcomes(self, inputs: ProveInputs, document: ProofDocument) -> Outcomes:
        """One row per leaf."""
        return outcomes(document, declaration_lines([item.pair for item in inputs.loaded], self.chosen.root))

    def show(self, run: CommandRun, inputs: ProveInputs, document: ProofDocument) -> None:
        """Print the page; nothing where no pair could be loaded."""
        if inputs.loaded:
            super().show(run, inputs, document)
