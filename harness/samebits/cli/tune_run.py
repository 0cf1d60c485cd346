"""`samebits compile --tune` as a command: pairs come in, the best values go out. To be imported after `prepare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.cli.compile_run import CompileInputs, compile_inputs, open_compiler, reported, version_notes
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.select_pairs import load_pairs
from samebits.compile.request import CompileRequest
from samebits.compile.tune import TunedCase, tune_pair
from samebits.errors import RequestError
from samebits.report.tune import (
    TuneDocument,
    exit_code_of_tuning,
    show_tuned,
    show_tuned_end,
    summarise_tuned,
    tuned_markdown,
)


@dataclass(frozen=True, kw_only=True)
class TuneCommand(Command[CompileInputs, TunedCase, TuneDocument]):
    """Try the declared values of a request's pairs.

    Args:
        pairs: names of pairs, or `module:PAIR`; empty means those of the tree that declare a sweep.
        request: targets and filters; no options.
        root: the tree, or None for the current one.
        cached: whether programs are read from and written to the cache on disk.
    """

    pairs: Sequence[str]
    request: CompileRequest
    root: Path | None
    cached: bool

    on_interrupt = "interrupted; what was tried so far is shown"

    def load(self, run: CommandRun) -> CompileInputs:
        """The pairs that declare values.

        Raises:
            RequestError: a pair that was named declares none, or no pair does.
        """
        declared = load_pairs(self.pairs, self.root, run)
        pairs = [(locator, pair) for locator, pair in declared if any(real.tune for real in pair.compiled)]
        without = [pair.name for _, pair in declared if not any(real.tune for real in pair.compiled)]
        if without and (self.pairs or not pairs):
            raise RequestError(
                f"pair '{without[0]}' declares no values to tune; write tune={{'ARGUMENT': (VALUE, VALUE)}} and "
                "tune_sizes in a RealSize of its declaration"
            )
        return compile_inputs(run, pairs, self.request)

    def execute(self, run: CommandRun, inputs: CompileInputs, results: list[TunedCase]) -> None:
        """Try the values pair by pair."""
        with open_compiler(self.cached) as compiler, run.progress("tune") as bar:
            for locator, pair in inputs.pairs:
                bar.say(pair.name)
                for part in reported(tune_pair(pair, locator, self.request, compiler), locator, run):
                    results.append(part)
                    show_tuned(run.console, part.trials, part.best)

    def document(self, run: CommandRun, inputs: CompileInputs, results: list[TunedCase]) -> TuneDocument:
        """All values that were tried."""
        trials = [trial for part in results for trial in part.trials]
        return TuneDocument(
            environment=inputs.environment,
            trials=tuple(trials),
            best=tuple(best for part in results for best in part.best),
            problems=tuple(run.problems),
            notes=tuple(version_notes(trial.target for trial in trials)),
            summary=summarise_tuned(trials, run.seconds, run.interrupted),
        )

    def markdown(self, document: TuneDocument) -> str:
        """Tables for a pull request."""
        return tuned_markdown(document)

    def show(self, run: CommandRun, inputs: CompileInputs, document: TuneDocument) -> None:
        """What follows the tables."""
        if document.trials:
            show_tuned_end(run.console, document)

    def exit_code(self, inputs: CompileInputs, document: TuneDocument) -> int:
        """1 where a value gives other results."""
        return exit_code_of_tuning(document)
