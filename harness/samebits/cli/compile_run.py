"""A run of `samebits compile`, from its request to its exit code. To be imported after `environment.prepare`."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from samebits.cli.common import COULD_NOT_TELL, say, write_text
from samebits.cli.found_results import Findings, load_pairs, start_backend
from samebits.compile.cache import CompileCache
from samebits.compile.pair import Compiler, compile_pair
from samebits.compile.request import CompileRequest, check_request
from samebits.errors import RequestError, SamebitsError, one_line
from samebits.host import environment
from samebits.host.libtpu import mismatch
from samebits.programs.catalogue import Locator
from samebits.report.compile import Block, CompileDocument, encode_compiled, exit_code, summarise
from samebits.report.compile_markdown import compiled_markdown
from samebits.report.compile_terminal import show_block, show_end
from samebits.report.terminal import console, show_head
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, OptionEffect, SideBySide
from samebits.schema.result import Problem
from samebits.schema.target import Target


def run_compile(
    asked: Sequence[str],
    ask: CompileRequest,
    *,
    root: Path | None,
    cached: bool,
    json: Path | None,
    markdown_to: Path | None,
) -> int:
    """Compile a request, show it, write it.

    Args:
        asked: names of pairs, or `module:PAIR`; empty means those of the tree that declare real sizes.
        ask: targets, filters and options.
        root: the tree, or None for the current one.
        cached: whether programs are kept and looked up on disk.
        json, markdown_to: files to write, known to be writable.

    Returns:
        The exit code.

    Raises:
        RequestError: nothing can be compiled as asked.
    """
    begin, found, to = time.perf_counter(), Findings(), console()
    declared = load_pairs(asked, root, found)
    pairs = [(locator, pair) for locator, pair in declared if pair.compiled]
    without = [pair.name for _, pair in declared if not pair.compiled]
    if without and (asked or not pairs):
        raise RequestError(
            f"pair '{without[0]}' declares no real sizes to compile; write compiled=(RealSize(...),) in its declaration"
        )
    if pairs:
        check_request([pair for _, pair in pairs], ask)
    want_cpus([] if ask.targets else [pair for _, pair in pairs])
    seen = start_backend()
    show_head(to, seen.lines()[:1])
    results: list[CompiledSide] = []
    comparisons: list[SideBySide] = []
    effects: list[OptionEffect] = []
    interrupted = False
    compiler = Compiler(CompileCache() if cached else None)
    waiting = to.status("compiling", spinner="dots") if to.is_terminal else contextlib.nullcontext()
    try:
        with waiting:
            for locator, pair in pairs:
                for one in told(compile_pair(pair, locator, ask, compiler), locator, found):
                    results += one.programs
                    comparisons += one.comparisons
                    effects += one.effects
                    if one.programs:
                        show_block(to, Block(tuple(one.programs), tuple(one.comparisons), tuple(one.effects)))
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted; what was compiled so far is shown")
    finally:
        compiler.close()
    wrong = mismatch() if any(not one.target.startswith("cpu") for one in results) else None
    notes = [f"left out: pair '{name}' declares no real sizes" for name in without]
    document = CompileDocument(
        environment=seen,
        results=tuple(results),
        comparisons=tuple(comparisons),
        options=tuple(effects),
        problems=tuple(found.problems),
        notes=tuple([*notes, wrong] if wrong else notes),
        summary=summarise(results, comparisons, time.perf_counter() - begin, interrupted),
    )
    if json is not None:
        write_text(json, encode_compiled(document))
    if markdown_to is not None:
        write_text(markdown_to, compiled_markdown(document))
    if results:
        show_end(to, document)
    return exit_code(document)


def want_cpus(pairs: Sequence[Pair]) -> None:
    """As many CPU devices as declared targets name; where the backend has started, the target says what is missing."""
    names = [name for pair in pairs for real in pair.compiled for name in real.targets]
    wanted = max((Target(name=name).cpu_devices or 0 for name in names), default=0)
    if wanted > environment.asked_devices():
        with contextlib.suppress(RequestError):
            environment.prepare(devices=wanted)


class Part(Protocol):
    """What was found of one case, target and direction."""

    errors: list[SamebitsError]


P = TypeVar("P", bound=Part)


def told(parts: Iterable[P], locator: Locator, problems: Findings) -> Iterator[P]:
    """What a pair shows; what goes wrong with it becomes a problem, and the other pairs go on."""
    try:
        for one in parts:
            yield one
            for error in one.errors:
                problem = Problem(pair=locator.name, message=str(error), exit_code=error.exit_code)
                if problem in problems.problems:
                    continue  # the same in the other direction, or for another case
                problems.problem(problem)
                for log in getattr(error, "__notes__", ()):
                    say(f"the compiler wrote: {log}")
    except SamebitsError as error:
        problems.problem(Problem(pair=locator.name, message=str(error), exit_code=error.exit_code))
    except Exception as error:  # a bug of ours; it must not take the other pairs with it
        traceback.print_exc()
        message = f"samebits itself {one_line(error)}; please report it with the lines above"
        problems.problem(Problem(pair=locator.name, message=message, exit_code=COULD_NOT_TELL))
