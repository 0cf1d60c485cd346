"""`samebits compile` as a command: pairs come in, facts of programs go out. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from samebits.cli.common import say
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.select_pairs import declaration_lines, load_pairs
from samebits.compile.cache import CompileCache
from samebits.compile.pair import CompiledCase, Compiler, compile_pair
from samebits.compile.request import CompileRequest, check_request
from samebits.errors import RequestError, SamebitsError
from samebits.host import environment
from samebits.host.environment import Environment
from samebits.host.libtpu import mismatch
from samebits.programs.catalogue import Locator
from samebits.report.compile import CompileDocument, ProgramBlock, exit_code, summarise
from samebits.report.compile_markdown import compiled_markdown
from samebits.report.compile_terminal import show_block, show_end
from samebits.report.outcomes import Outcomes, compile_outcomes
from samebits.schema.pair import Pair
from samebits.schema.result import Problem
from samebits.schema.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileInputs:
    """The pairs to compile, and the environment for the report."""

    pairs: list[tuple[Locator, Pair]]
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class CompileCommand(Command[CompileInputs, CompiledCase, CompileDocument]):
    """Compile a request, and show each case on each target as it is done.

    Args:
        pairs: names of pairs, or `module:PAIR`; empty means those of the tree that declare production shapes.
        request: targets, filters and options.
        root: the tree, or None for the current one.
        cached: whether programs are read from and written to the cache on disk.
    """

    pairs: Sequence[str]
    request: CompileRequest
    root: Path | None
    cached: bool

    on_interrupt = "interrupted; what was compiled so far is shown"

    def load(self, run: CommandRun) -> CompileInputs:
        """The pairs that declare production shapes.

        Raises:
            RequestError: a pair that was named declares none, or no pair does.
        """
        declared = load_pairs(self.pairs, self.root, run)
        pairs = [(locator, pair) for locator, pair in declared if pair.compiled]
        without = [pair.name for _, pair in declared if not pair.compiled]
        if without and (self.pairs or not pairs):
            raise RequestError(
                f"pair '{without[0]}' declares no production shapes to compile; "
                "write compiled=(RealSize(...),) in its declaration"
            )
        run.notes += [f"left out: pair '{name}' declares no production shapes" for name in without]
        return compile_inputs(run, pairs, self.request)

    def execute(self, run: CommandRun, inputs: CompileInputs, results: list[CompiledCase]) -> None:
        """Compile pair by pair."""
        with open_compiler(self.cached) as compiler, run.status("compiling"):
            for locator, pair in inputs.pairs:
                for part in reported(compile_pair(pair, locator, self.request, compiler), locator, run):
                    results.append(part)
                    if part.programs:
                        block = ProgramBlock(tuple(part.programs), tuple(part.comparisons), tuple(part.effects))
                        show_block(run.console, block)

    def document(self, run: CommandRun, inputs: CompileInputs, results: list[CompiledCase]) -> CompileDocument:
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
            summary=summarise(programs, comparisons, run.seconds, run.interrupted),
        )

    def markdown(self, document: CompileDocument) -> str:
        """Tables for a pull request."""
        return compiled_markdown(document)

    def outcomes(self, inputs: CompileInputs, document: CompileDocument) -> Outcomes:
        """One row per claim."""
        return compile_outcomes(document, declaration_lines([pair for _, pair in inputs.pairs], self.root))

    def show(self, run: CommandRun, inputs: CompileInputs, document: CompileDocument) -> None:
        """What follows the tables."""
        if document.results:
            show_end(run.console, document)

    def exit_code(self, inputs: CompileInputs, document: CompileDocument) -> int:
        """1 where a claim is not as declared."""
        return exit_code(document)


def compile_inputs(run: CommandRun, pairs: list[tuple[Locator, Pair]], request: CompileRequest) -> CompileInputs:
    """Pairs to compile, once the request fits them and the backend has as many CPU devices as their targets need."""
    declared = [pair for _, pair in pairs]
    if pairs:
        check_request(declared, request)
    if not request.targets:
        _prepare_cpus(declared)
    return CompileInputs(pairs=pairs, environment=run.start_backend())


@contextlib.contextmanager
def open_compiler(cached: bool) -> Iterator[Compiler]:
    """A compiler whose threads end with the block."""
    compiler = Compiler(CompileCache() if cached else None)
    try:
        yield compiler
    finally:
        compiler.close()


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


class _HasErrors(Protocol):
    errors: list[SamebitsError]


Part = TypeVar("Part", bound=_HasErrors)


def reported(parts: Iterable[Part], locator: Locator, run: CommandRun) -> Iterator[Part]:
    """The parts of one pair; their errors become problems, and the other pairs go on."""
    with run.problems_of(locator.name):
        for part in parts:
            yield part
            for error in part.errors:
                problem = Problem(pair=locator.name, message=str(error), exit_code=error.exit_code)
                if problem in run.problems:
                    continue  # the same in the other direction, or for another case
                run.problem(problem)
                for log in getattr(error, "__notes__", ()):
                    say(f"the compiler wrote: {log}")
