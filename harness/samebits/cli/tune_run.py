"""`samebits compile --tune` as a command: pairs come in, the best values go out. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from samebits.cli.compile_run import CompileInputs, compile_inputs, report_errors, version_notes
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.run_items import InOrder, run_items
from samebits.cli.select_pairs import load_pairs
from samebits.compile.request import CompileRequest
from samebits.compile.tune import TunedCase, tuned_case
from samebits.engine.drive import Done
from samebits.engine.journal import JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.engine.tune_work import TunedValues, TuneWork, tune_items
from samebits.engine.work import Item
from samebits.errors import RequestError
from samebits.report.tune import (
    TuneDocument,
    exit_code_of_tuning,
    show_tuned,
    show_tuned_end,
    summarise_tuned,
    tuned_markdown,
)
from samebits.schema.result import Problem
from samebits.schema.tuning import SmallValue


@dataclass(frozen=True, kw_only=True)
class TuneCommand(Command[CompileInputs, TunedCase, TuneDocument]):
    """Try the declared values of a request's pairs.

    Args:
        pairs: names of pairs, or `module:PAIR`; empty means those of the tree that declare a sweep.
        request: targets and filters; no options.
        root: the tree, or None for the current one.
        cached: whether programs are read from and written to the cache on disk.
        settings: where and how values are compiled and run.
    """

    pairs: Sequence[str]
    request: CompileRequest
    root: Path | None
    cached: bool
    settings: EngineSettings

    on_interrupt = "interrupted; what was tried so far is shown"
    handles_signals = True

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
        return compile_inputs(run, pairs, self.request, self.settings.ray)

    def execute(self, run: CommandRun, inputs: CompileInputs, results: list[TunedCase]) -> None:
        """Try the values, and show each case in the order of the declarations."""
        items = tune_items(inputs.pairs, self.request)
        small: dict[tuple[str, str], tuple[SmallValue, ...]] = {}

        def show(done: list[Done[TunedValues]]) -> None:
            (values,), item = done[0].rows, done[0].item
            _, case, number = item.payload
            report_errors(values.errors, item.pair, run)
            if number is None:  # comes before the programs of its shape
                small[item.pair, case] = values.small
            elif values.trials:
                results.append(tuned_case(values.trials, small.get((item.pair, case), ())))
                show_tuned(run.console, results[-1].trials, results[-1].best)

        def dropped(problem: Problem) -> None:
            run.problem(problem)
            for item in items:
                if item.pair == problem.pair:
                    blocks.drop(item.key)

        blocks = InOrder[TunedValues](items, lambda item: item.key, show)
        work = TuneWork(self.request, cached=self.cached, threads=self._threads(items))
        ran = run_items(run, work, items, self.settings, self._head(inputs), self.root or Path(), dropped)
        with contextlib.closing(ran), contextlib.closing(blocks):
            for done in ran:
                blocks.add(done)

    def _threads(self, items: Sequence[Item]) -> int:
        """How many values a process compiles at once, where there are fewer processes than processors."""
        return max((os.cpu_count() or 1) // max(min(self.settings.processes, len(items)), 1), 1)

    def _head(self, inputs: CompileInputs) -> JournalHead:
        """What was asked for, for the journal."""
        return JournalHead(
            command="tune",
            request={
                "pairs": list(self.pairs),
                "root": str((self.root or Path()).resolve()),
                "cached": self.cached,
                **asdict(self.request),
            },
            environment=asdict(inputs.environment),
        )

    def document(self, run: CommandRun, inputs: CompileInputs, results: list[TunedCase]) -> TuneDocument:
        """All values that were tried."""
        trials = [trial for part in results for trial in part.trials]
        return TuneDocument(
            environment=inputs.environment,
            trials=tuple(trials),
            best=tuple(best for part in results for best in part.best),
            problems=tuple(run.problems),
            notes=(*run.notes, *version_notes(trial.target for trial in trials)),
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
