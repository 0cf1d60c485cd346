"""The work of `samebits compile` of pairs: facts of programs, or with `--tune` the best values.

To be imported after `prepare`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase

from samebits.cli.common import say
from samebits.cli.compile import CompileOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import InOrder, journal_head, run_in_order
from samebits.cli.select_pairs import load_pairs
from samebits.compile.request import CompileRequest, check_request
from samebits.compile.tune import TunedCase, tuned_case
from samebits.engine.compile_work import (
    CompiledPrograms,
    CompileError,
    CompileWork,
    TunedValues,
    TuneWork,
    compile_items,
    tune_items,
)
from samebits.engine.drive import Done
from samebits.engine.journal import JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.host import environment
from samebits.host.accelerator import mismatch
from samebits.host.environment import Environment
from samebits.programs.catalogue import Locator
from samebits.report.compile import CompileDocument, ProgramBlock, block_fold, summarise
from samebits.report.tune import TuneDocument, summarise_tuned, tuned_folds
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize
from samebits.schema.result import Problem
from samebits.schema.target import Target
from samebits.schema.tuning import SmallValue

Declared = list[tuple[Locator, Pair]]


def compile_pairs(
    chosen: CompileOptions, request: CompileRequest, settings: EngineSettings, run: CommandRun
) -> CompileDocument:
    """Compile a request, and show each case on each target in the order of the declarations."""
    pairs, without = _declaring(
        chosen,
        run,
        lambda real: True,
        "no production shapes to compile; write compiled=(RealSize(...),) in its declaration",
    )
    run.notes += [f"left out: pair '{name}' declares no production shapes" for name in without]
    here = _start(run, pairs, request, settings)
    items = compile_items(pairs, request)
    threads = 1 if not settings.in_process and len(items) > 1 else os.cpu_count() or 1
    results: list[CompiledPrograms] = []

    def show(done: list[Done[CompiledPrograms]]) -> None:
        for part in done[0].rows:
            results.append(part)
            report_errors(part.errors, done[0].item.pair, run)
            if part.programs:
                run.show([block_fold(ProgramBlock(part.programs, part.comparisons, part.effects))])

    blocks = InOrder[CompiledPrograms](items, lambda item: item.key, show)
    work = CompileWork(request, cached=not chosen.no_cache, threads=threads)
    with run.partial("interrupted; what was compiled so far is shown"):
        run_in_order(run, work, blocks, settings, _head("compile", chosen, request, settings, here))
    programs = [program for part in results for program in part.programs]
    comparisons = [comparison for part in results for comparison in part.comparisons]
    run.notes += version_notes(program.target for program in programs)
    run.notes += dict.fromkeys(warning for part in results for warning in part.warnings)
    declared = _declared_claims(chosen, pairs)
    return CompileDocument(
        environment=here,
        results=tuple(programs),
        comparisons=tuple(comparisons),
        options=tuple(effect for part in results for effect in part.effects),
        problems=tuple(run.problems),
        notes=tuple(run.notes),
        summary=summarise(programs, comparisons, run.seconds, run.interrupted, declared=declared),
    )


def tune_pairs(
    chosen: CompileOptions, request: CompileRequest, settings: EngineSettings, run: CommandRun
) -> TuneDocument:
    """Try the declared values of a request's pairs, and show each case in the order of the declarations."""
    pairs, _ = _declaring(
        chosen,
        run,
        lambda real: bool(real.tune),
        "no values to tune; write tune={'ARGUMENT': (VALUE, VALUE)} and tune_sizes in a RealSize of its declaration",
    )
    here = _start(run, pairs, request, settings)
    items = tune_items(pairs, request)
    results: list[TunedCase] = []
    small: dict[tuple[str, str], tuple[SmallValue, ...]] = {}

    def show(done: list[Done[TunedValues]]) -> None:
        (values,), item = done[0].rows, done[0].item
        _, case, number = item.payload
        report_errors(values.errors, item.pair, run)
        if number is None:  # comes before the programs of its shape
            small[item.pair, case] = values.small
        elif values.trials:
            results.append(tuned_case(values.trials, small.get((item.pair, case), ())))
            run.show(tuned_folds(results[-1].trials, results[-1].best))

    # How many values a process compiles at once, where there are fewer processes than processors.
    threads = max((os.cpu_count() or 1) // max(min(settings.processes, len(items)), 1), 1)
    blocks = InOrder[TunedValues](items, lambda item: item.key, show)
    work = TuneWork(request, cached=not chosen.no_cache, threads=threads)
    with run.partial("interrupted; what was tried so far is shown"):
        run_in_order(run, work, blocks, settings, _head("tune", chosen, request, settings, here))
    trials = [trial for part in results for trial in part.trials]
    return TuneDocument(
        environment=here,
        trials=tuple(trials),
        best=tuple(best for part in results for best in part.best),
        problems=tuple(run.problems),
        notes=(*run.notes, *version_notes(trial.target for trial in trials)),
        summary=summarise_tuned(trials, run.seconds, run.interrupted),
    )


def _declaring(
    chosen: CompileOptions, run: CommandRun, has: Callable[[RealSize], bool], lacks: str
) -> tuple[Declared, list[str]]:
    """Load the pairs with a production shape that has what is needed, and name those without."""
    declared = load_pairs(chosen.pairs, chosen.root, run)
    pairs = [(locator, pair) for locator, pair in declared if any(map(has, pair.compiled))]
    without = [pair.name for _, pair in declared if not any(map(has, pair.compiled))]
    if without and (chosen.pairs or not pairs):
        raise RequestError(f"pair '{without[0]}' declares {lacks}")
    run.pairs = [pair for _, pair in pairs]
    return pairs, without


def _start(run: CommandRun, pairs: Declared, request: CompileRequest, settings: EngineSettings) -> Environment:
    """Start the backend with as many CPU devices as the targets need, once the request fits the pairs."""
    declared = [pair for _, pair in pairs]
    if pairs:
        check_request(declared, request)
    if not request.targets:
        _prepare_cpus(declared)
    return run.start_backend(ray=settings.ray)


def _head(
    name: str, chosen: CompileOptions, request: CompileRequest, settings: EngineSettings, here: Environment
) -> JournalHead:
    words = {"pairs": [*chosen.pairs], "cached": not chosen.no_cache, **asdict(request)}
    return journal_head(name, settings, here, chosen.root, **words)


def _declared_claims(chosen: CompileOptions, pairs: Declared) -> int:
    """Count the claims of the production shapes that are asked for, whatever they are about."""
    return sum(
        len(real.claims)
        for _, pair in pairs
        for real in pair.compiled
        if not chosen.case or any(fnmatchcase(real.case.id, case) for case in chosen.case)
    )


def version_notes(targets: Iterable[str]) -> list[str]:
    """Say where something was compiled for a TPU and libtpu does not fit the version of jax."""
    wrong = mismatch() if any(not target.startswith("cpu") for target in targets) else None
    return [wrong] if wrong else []


def _prepare_cpus(pairs: Sequence[Pair]) -> None:
    """Start as many CPU devices as declared targets name; once the backend runs, the target says what is missing."""
    names = [name for pair in pairs for real in pair.compiled for name in real.targets]
    wanted = max((Target(name=name).cpu_devices or 0 for name in names), default=0)
    if wanted > environment.asked_devices():
        with contextlib.suppress(RequestError):
            environment.prepare(devices=wanted)


def report_errors(errors: Iterable[CompileError], pair: str, run: CommandRun) -> None:
    """Report errors as problems of a pair, with what the compiler wrote."""
    for error in errors:
        problem = Problem(pair=pair, message=error.message, exit_code=error.exit_code)
        if problem in run.problems:
            continue  # the same in the other direction, or for another case
        run.problem(problem)
        for log in error.logs:
            say(f"the compiler wrote: {log}")
