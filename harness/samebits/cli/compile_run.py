"""`samebits compile` of pairs as a command, which finds facts of programs, or with `--tune` the best values.

To be imported after `prepare`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from samebits.cli.common import say
from samebits.cli.compile import CompileOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.run_items import InOrder, run_in_order
from samebits.cli.select_pairs import declaration_lines, load_pairs
from samebits.compile.request import CompileRequest, check_request
from samebits.compile.tune import TunedCase, tuned_case
from samebits.engine.compile_work import CompiledPrograms, CompileWork, compile_items
from samebits.engine.compiling_work import CompileError
from samebits.engine.drive import Done
from samebits.engine.journal import JournalHead
from samebits.engine.ray_request import RayRequest
from samebits.engine.run_work import EngineSettings
from samebits.engine.tune_work import TunedValues, TuneWork, tune_items
from samebits.engine.work import Item
from samebits.errors import RequestError
from samebits.host import environment
from samebits.host.accelerator import mismatch
from samebits.host.environment import Environment
from samebits.programs.catalogue import Locator
from samebits.report.compile import CompileDocument, ProgramBlock, block_fold, summarise
from samebits.report.continuous_integration import Outcomes, outcomes
from samebits.report.terminal import show_blocks
from samebits.report.tune import TuneDocument, summarise_tuned, tuned_folds
from samebits.schema.pair import Pair
from samebits.schema.result import Problem
from samebits.schema.target import Target
from samebits.schema.tuning import SmallValue


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileInputs:
    """The pairs to compile, and the environment for the report."""

    pairs: list[tuple[Locator, Pair]]
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class CompileCommand(Command[CompileInputs, CompiledPrograms, CompileDocument]):
    """Compile a request, and show each case on each target as it is done.

    Args:
        chosen: the options.
        request: targets, filters and compiler options.
        settings: where and how programs are compiled.
    """

    chosen: CompileOptions
    request: CompileRequest
    settings: EngineSettings

    on_interrupt = "interrupted; what was compiled so far is shown"
    handles_signals = True

    @property
    def shows_live(self) -> bool:
        """Whether each case is shown as soon as it is compiled."""
        return True

    def load(self, run: CommandRun) -> CompileInputs:
        """The pairs that declare production shapes.

        Raises:
            RequestError: a pair that was named declares none, or no pair does.
        """
        declared = load_pairs(self.chosen.pairs, self.chosen.root, run)
        pairs = [(locator, pair) for locator, pair in declared if pair.compiled]
        without = [pair.name for _, pair in declared if not pair.compiled]
        if without and (self.chosen.pairs or not pairs):
            raise RequestError(
                f"pair '{without[0]}' declares no production shapes to compile; "
                "write compiled=(RealSize(...),) in its declaration"
            )
        run.notes += [f"left out: pair '{name}' declares no production shapes" for name in without]
        return compile_inputs(run, pairs, self.request, self.settings.ray)

    def execute(self, run: CommandRun, inputs: CompileInputs, results: list[CompiledPrograms]) -> None:
        """Compile case by case, and show each in the order of the declarations."""
        items = compile_items(inputs.pairs, self.request)
        threads = 1 if not self.settings.in_process and len(items) > 1 else os.cpu_count() or 1

        def show(done: list[Done[CompiledPrograms]]) -> None:
            for part in done[0].rows:
                results.append(part)
                report_errors(part.errors, done[0].item.pair, run)
                if part.programs:
                    block = ProgramBlock(part.programs, part.comparisons, part.effects)
                    show_blocks(run.console, [block_fold(block)])

        blocks = InOrder[CompiledPrograms](items, lambda item: item.key, show)
        work = CompileWork(self.request, cached=not self.chosen.no_cache, threads=threads)
        run_in_order(run, work, blocks, self.settings, _head("compile", self, inputs), self.tree())

    def document(self, run: CommandRun, inputs: CompileInputs, results: list[CompiledPrograms]) -> CompileDocument:
        """All programs and comparisons."""
        programs = [program for part in results for program in part.programs]
        comparisons = [comparison for part in results for comparison in part.comparisons]
        run.notes += version_notes(program.target for program in programs)
        return CompileDocument(
            environment=inputs.environment,
            results=tuple(programs),
            comparisons=tuple(comparisons),
            options=tuple(effect for part in results for effect in part.effects),
            problems=tuple(run.problems),
            notes=tuple(run.notes),
            summary=summarise(
                programs, comparisons, run.seconds, run.interrupted, declared=self._declared_claims(inputs)
            ),
        )

    def _declared_claims(self, inputs: CompileInputs) -> int:
        """How many claims the production shapes that are asked for have, whatever they are about."""
        return sum(
            len(real.claims)
            for _, pair in inputs.pairs
            for real in pair.compiled
            if not self.chosen.case or any(fnmatchcase(real.case.id, case) for case in self.chosen.case)
        )

    def outcomes(self, inputs: CompileInputs, document: CompileDocument) -> Outcomes:
        """One row per claim."""
        return outcomes(document, declaration_lines([pair for _, pair in inputs.pairs], self.chosen.root))


def _head(name: str, command: CompileCommand | TuneCommand, inputs: CompileInputs) -> JournalHead:
    """What was asked for, for the journal."""
    return JournalHead(
        command=name,
        request={
            "pairs": list(command.chosen.pairs),
            "root": str(command.tree().resolve()),
            "cached": not command.chosen.no_cache,
            **asdict(command.request),
        },
        environment=asdict(inputs.environment),
    )


def compile_inputs(
    run: CommandRun, pairs: list[tuple[Locator, Pair]], request: CompileRequest, ray: RayRequest | None
) -> CompileInputs:
    """Pairs to compile, once the request fits them and the backend has as many CPU devices as their targets need."""
    declared = [pair for _, pair in pairs]
    if pairs:
        check_request(declared, request)
    if not request.targets:
        _prepare_cpus(declared)
    return CompileInputs(pairs=pairs, environment=run.start_backend(ray=ray))


def version_notes(targets: Iterable[str]) -> list[str]:
    """Where something was compiled for a TPU: whether libtpu fits the version of jax."""
    wrong = mismatch() if any(not target.startswith("cpu") for target in targets) else None
    return [wrong] if wrong else []


def _prepare_cpus(pairs: Sequence[Pair]) -> None:
    """As many CPU devices as declared targets name; where the backend has started, the target says what is missing."""
    names = [name for pair in pairs for real in pair.compiled for name in real.targets]
    wanted = max((Target(name=name).cpu_devices or 0 for name in names), default=0)
    if wanted > environment.asked_devices():
        with contextlib.suppress(RequestError):
            environment.prepare(devices=wanted)


def report_errors(errors: Iterable[CompileError], pair: str, run: CommandRun) -> None:
    """Errors as problems of a pair, with what the compiler wrote."""
    for error in errors:
        problem = Problem(pair=pair, message=error.message, exit_code=error.exit_code)
        if problem in run.problems:
            continue  # the same in the other direction, or for another case
        run.problem(problem)
        for log in error.logs:
            say(f"the compiler wrote: {log}")


@dataclass(frozen=True, kw_only=True)
class TuneCommand(Command[CompileInputs, TunedCase, TuneDocument]):
    """Try the declared values of a request's pairs.

    Args:
        chosen: the options.
        request: targets and filters.
        settings: where and how values are compiled and run.
    """

    chosen: CompileOptions
    request: CompileRequest
    settings: EngineSettings

    on_interrupt = "interrupted; what was tried so far is shown"
    handles_signals = True

    def load(self, run: CommandRun) -> CompileInputs:
        """The pairs that declare values.

        Raises:
            RequestError: a pair that was named declares none, or no pair does.
        """
        declared = load_pairs(self.chosen.pairs, self.chosen.root, run)
        pairs = [(locator, pair) for locator, pair in declared if any(real.tune for real in pair.compiled)]
        without = [pair.name for _, pair in declared if not any(real.tune for real in pair.compiled)]
        if without and (self.chosen.pairs or not pairs):
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
                show_blocks(run.console, tuned_folds(results[-1].trials, results[-1].best))

        blocks = InOrder[TunedValues](items, lambda item: item.key, show)
        work = TuneWork(self.request, cached=not self.chosen.no_cache, threads=self._threads(items))
        run_in_order(run, work, blocks, self.settings, _head("tune", self, inputs), self.tree())

    def _threads(self, items: Sequence[Item]) -> int:
        """How many values a process compiles at once, where there are fewer processes than processors."""
        return max((os.cpu_count() or 1) // max(min(self.settings.processes, len(items)), 1), 1)

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

    @property
    def shows_live(self) -> bool:
        """Whether each case is shown as soon as its values were tried."""
        return True
