"""The programs of `samebits compile` as work: the sides of a pair at one production shape, for one target."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.compile.cache import CompileCache
from samebits.compile.request import CompileRequest
from samebits.engine.rows import COULD_NOT_TELL, finished, lost_words, remarks, trouble
from samebits.engine.work import Event, Item, Loss, Reached, Started, Work
from samebits.errors import SamebitsError
from samebits.programs.catalogue import Locator, load
from samebits.programs.program_cache import Programs
from samebits.programs.replay import of_tree
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, OptionEffect, SideBySide

if TYPE_CHECKING:
    from samebits.compile.compared_case import CompiledCase
    from samebits.compile.pair import Compiler, StartedCase

AHEAD = 3
"""How many cases are traced while the compiler works on the one before them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileError:
    """Why a program, or all programs of a case, could not be compiled.

    Args:
        message: one line.
        exit_code: 2 where the request or the declaration is wrong, 3 where it could not be told.
        logs: what the compiler wrote.
    """

    message: str
    exit_code: int
    logs: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: SamebitsError) -> CompileError:
        """An error as data."""
        return cls(message=str(error), exit_code=error.exit_code, logs=tuple(getattr(error, "__notes__", ())))


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPrograms:
    """The programs and comparisons of one production shape on one target in one direction, and what did not compile."""

    programs: tuple[CompiledSide, ...] = ()
    comparisons: tuple[SideBySide, ...] = ()
    effects: tuple[OptionEffect, ...] = ()
    errors: tuple[CompileError, ...] = ()


def compile_items(pairs: Iterable[tuple[Locator, Pair]], request: CompileRequest) -> list[Item]:
    """One per production shape, target and direction that a request selects; no compiler is started.

    Args:
        pairs: with their declarations.
        request: what is compiled.
    """
    from samebits.compile.pair import selected_cases

    return [
        Item(
            key=f"{pair.name}/{real.case.id}/{target.name}/{direction}/{number}",
            pair=locator.name,
            words=f"{pair.name}: case {real.case.id} for {target.name}, {direction}",
            replay=_replay(locator, real.case.id, target.name, direction, request),
            group=(pair.name, real.case.id, target.name),
            payload=(locator, number),
        )
        for locator, pair in pairs
        for number, (real, target, direction) in enumerate(selected_cases(pair, request))
    ]


class CompileWork(Work[CompiledPrograms]):
    """Compiles the sides of pairs; tracing runs ahead of the compiler.

    Args:
        request: what is compiled.
        cached: whether programs are read from and written to the cache on disk.
        threads: how many programs a process compiles at once.
    """

    kind = "compile"
    row = CompiledPrograms
    ahead = AHEAD

    def __init__(self, request: CompileRequest, *, cached: bool, threads: int) -> None:
        self.request, self.cached, self.threads = request, cached, threads
        self._compiler: Compiler | None = None
        self._programs: Programs | None = None
        self._pair: tuple[Locator, Pair] | None = None

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Compile cases of one pair, in order."""
        locator: Locator = items[0].payload[0]
        try:
            yield from self._cases(locator, items, ahead)
        except Exception as error:
            yield trouble(items[0].pair, error)
        yield from remarks()

    def _cases(self, locator: Locator, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        pair = self._load(locator)
        waiting = iter(items)
        started: deque[tuple[Item, StartedCase | CompiledPrograms]] = deque()
        while True:
            while len(started) <= ahead and (item := next(waiting, None)) is not None:
                yield Started(key=item.key)
                yield Reached(key=item.key, stage="tracing and lowering its sides")
                started.append((item, self._start(pair, locator, item)))
            if not started:
                return
            item, case = started.popleft()
            yield Reached(key=item.key, stage="compiling its programs")
            yield finished(item.key, (self._finish(pair, case),))
            yield from remarks()

    def _load(self, locator: Locator) -> Pair:
        """The declaration of a pair; what was traced of another one is dropped."""
        from samebits.compile.pair import Compiler
        from samebits.compile.selftest import check_compiled

        if self._compiler is None:
            check_compiled()
            self._compiler = Compiler(CompileCache() if self.cached else None, self.threads)
        if self._pair is None or self._pair[0] != locator:
            if self._programs is not None:
                self._programs.close()
            self._programs, self._pair = Programs(threads=1), (locator, load(locator))
        return self._pair[1]

    def _start(self, pair: Pair, locator: Locator, item: Item) -> StartedCase | CompiledPrograms:
        """A case whose programs are being compiled; without any where there is nothing to compile."""
        from samebits.compile.pair import compile_job, in_setting, selected_cases, start_case
        from samebits.programs.sides import TracedSides

        assert self._compiler is not None and self._programs is not None
        real, target, direction = list(selected_cases(pair, self.request))[item.payload[1]]
        try:
            job = compile_job(pair, real, target, direction, self.request)
            if job is None:
                return CompiledPrograms()
            sides = TracedSides(in_setting(pair, real), self._programs)
            return start_case(sides, locator, job, self.request, self._compiler)
        except SamebitsError as error:
            return CompiledPrograms(errors=(CompileError.of(error),))

    def _finish(self, pair: Pair, case: StartedCase | CompiledPrograms) -> CompiledPrograms:
        from samebits.compile.pair import finish_case

        if isinstance(case, CompiledPrograms):
            return case
        try:
            return _as_data(finish_case(case, pair))
        except SamebitsError as error:
            return CompiledPrograms(errors=(CompileError.of(error),))

    def lost(self, item: Item, loss: Loss, stage: str) -> CompiledPrograms:
        """A case without programs."""
        message = f"{item.words}: {lost_words(loss, stage)}; again: {item.replay}"
        return CompiledPrograms(errors=(CompileError(message=message, exit_code=COULD_NOT_TELL),))

    def close(self) -> None:
        """Stop the compiling threads."""
        if self._programs is not None:
            self._programs.close()
        if self._compiler is not None:
            self._compiler.close()
        self._compiler = self._programs = self._pair = None

    def __getstate__(self) -> dict[str, object]:
        state = {"request": self.request, "cached": self.cached, "threads": self.threads}
        return {**state, "_compiler": None, "_programs": None, "_pair": None}


def _as_data(case: CompiledCase) -> CompiledPrograms:
    return CompiledPrograms(
        programs=tuple(case.programs),
        comparisons=tuple(case.comparisons),
        effects=tuple(case.effects),
        errors=tuple(CompileError.of(error) for error in case.errors),
    )


def _replay(locator: Locator, case: str, target: str, direction: str, request: CompileRequest) -> str:
    if locator.rerun is not None:
        return locator.rerun
    words = ["samebits", "compile", locator.name, "--target", target, "--case", case, "--direction", direction]
    for side in request.sides:
        words += ["--variant", side]
    for option in request.options:
        words += ["--option", str(option)]
    return shlex.join([*words, *(of_tree(Path(locator.root)) if locator.root else ())])
