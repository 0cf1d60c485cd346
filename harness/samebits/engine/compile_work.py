"""The programs of `samebits compile` as work: the sides of a pair at one production shape, for one target.

Tracing runs ahead of the compiler. With `--tune`, an item has the values of an argument of one production shape, on one
target in one direction. What values give at the small size does not depend on the target. It is an item of its own for
each shape, so that no process runs it again for another target, and what a compiler crash costs are its own programs.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic

from samebits.compile.cache import CompileCache
from samebits.compile.request import CompileRequest
from samebits.engine.work import (
    Event,
    Item,
    ProcessExit,
    Reached,
    Row,
    Started,
    Work,
    finished,
    lost_words,
    remarks,
    trouble,
)
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.programs.catalogue import Locator, load
from samebits.programs.program_cache import Programs
from samebits.programs.replay import of_tree
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, OptionEffect, SideBySide
from samebits.schema.tuning import SmallValue, TuningTrial

if TYPE_CHECKING:
    from samebits.compile.compared_case import CompiledCase
    from samebits.compile.pair import Compiler
    from samebits.schema.real_size import RealSize


AHEAD = 3
"""How many items are traced while the compiler works on the one before them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileError:
    """Why a program, or all programs of a case, could not be compiled.

    Args:
        exit_code: 2 where the request or the declaration is wrong, 3 where it could not be decided.
        logs: what the compiler wrote.
    """

    message: str
    exit_code: int
    logs: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: SamebitsError) -> CompileError:
        """Return an error as data."""
        return cls(message=str(error), exit_code=error.exit_code, logs=tuple(getattr(error, "__notes__", ())))


@dataclass(frozen=True, slots=True)
class CompilingItem(Generic[Row]):
    """An item that is being compiled.

    Args:
        end: waits for its programs, and returns its row.
        stage: what it does meanwhile, in words.
    """

    end: Callable[[], Row]
    stage: str = "compiling its programs"


class CompilingWork(Work[Row]):
    """Compiles programs of pairs; the first part of an item's payload is the locator of its pair.

    Args:
        cached: whether programs are read from and written to the cache on disk.
        threads: how many programs a process compiles at once.
    """

    ahead = AHEAD

    def __init__(self, request: CompileRequest, *, cached: bool, threads: int) -> None:
        self.request, self.cached, self.threads = request, cached, threads
        self._compiler: Compiler | None = None
        self._programs: Programs | None = None
        self._pair: tuple[Locator, Pair] | None = None

    @abstractmethod
    def begin(self, pair: Pair, item: Item) -> CompilingItem[Row]:
        """Trace the programs of an item, and have them compiled."""

    @abstractmethod
    def failed(self, error: CompileError) -> Row:
        """Return the row of an item that is nothing but an error."""

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Compile items of one pair, in order."""
        try:
            yield from self._items(self._load(items[0].payload[0]), items, ahead)
        except Exception as error:
            yield trouble(items[0].pair, error)
        yield from remarks()

    def _items(self, pair: Pair, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        waiting = iter(items)
        begun: deque[tuple[Item, CompilingItem[Row]]] = deque()
        while True:
            while len(begun) <= ahead and (item := next(waiting, None)) is not None:
                yield Started(key=item.key)
                yield Reached(key=item.key, stage="tracing and lowering its sides")
                begun.append((item, self._begun(pair, item)))
            if not begun:
                return
            item, case = begun.popleft()
            yield Reached(key=item.key, stage=case.stage)
            yield finished(item.key, (self._row(case.end),))
            yield from remarks()

    def _begun(self, pair: Pair, item: Item) -> CompilingItem[Row]:
        try:
            return self.begin(pair, item)
        except SamebitsError as error:
            row = self.failed(CompileError.of(error))
            return CompilingItem(lambda: row)

    def _row(self, end: Callable[[], Row]) -> Row:
        try:
            return end()
        except SamebitsError as error:
            return self.failed(CompileError.of(error))

    def _load(self, locator: Locator) -> Pair:
        """Return the declaration of a pair; what was traced of another one is dropped."""
        from samebits.compile.selftest import check_compiled

        if self._pair is None:
            check_compiled()
        if self._pair is None or self._pair[0] != locator:
            if self._programs is not None:
                self._programs.close()
            self._programs, self._pair = Programs(threads=1), (locator, load(locator))
        return self._pair[1]

    @property
    def compiler(self) -> Compiler:
        """The compiler of this process; its threads end with `close`."""
        from samebits.compile.pair import Compiler

        if self._compiler is None:
            self._compiler = Compiler(CompileCache() if self.cached else None, self.threads)
        return self._compiler

    @property
    def programs(self) -> Programs:
        """What was traced of the pair in hand."""
        assert self._programs is not None, "a pair is loaded first"
        return self._programs

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Row:
        """Return an item without programs."""
        message = f"{item.words}: {lost_words(loss, stage)}; again: {item.replay}"
        return self.failed(CompileError(message=message, exit_code=COULD_NOT_TELL))

    def close(self) -> None:
        """Stop the compiling threads."""
        if self._programs is not None:
            self._programs.close()
        if self._compiler is not None:
            self._compiler.close()
        self._compiler = self._programs = self._pair = None


def compile_replay(locator: Locator, request: CompileRequest, words: Iterable[str]) -> str:
    """Return the command that compiles a part of a request again."""
    if locator.rerun is not None:
        return locator.rerun
    line = ["samebits", "compile", locator.name, *words]
    for side in request.sides:
        line += ["--variant", side]
    for option in request.options:
        line += ["--option", str(option)]
    return shlex.join([*line, *(of_tree(Path(locator.root)) if locator.root else ())])


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPrograms:
    """The programs and comparisons of one production shape on one target in one direction, and what did not compile.

    Args:
        warnings: which known faults of the compiler may concern a program.
    """

    programs: tuple[CompiledSide, ...] = ()
    comparisons: tuple[SideBySide, ...] = ()
    effects: tuple[OptionEffect, ...] = ()
    errors: tuple[CompileError, ...] = ()
    warnings: tuple[str, ...] = ()


def compile_items(pairs: Iterable[tuple[Locator, Pair]], request: CompileRequest) -> list[Item]:
    """Return one per production shape, target and direction that a request selects; no compiler is started."""
    from samebits.compile.pair import selected_cases

    return [
        Item(
            key=f"{pair.name}/{real.case.id}/{target.name}/{direction}/{number}",
            pair=locator.name,
            words=f"{pair.name}: case {real.case.id} for {target.name}, {direction}",
            replay=compile_replay(
                locator,
                request,
                ("--target", target.name, "--case", real.case.id, "--direction", direction),
            ),
            group=(pair.name, real.case.id, target.name),
            payload=(locator, number),
        )
        for locator, pair in pairs
        for number, (real, target, direction) in enumerate(selected_cases(pair, request))
    ]


class CompileWork(CompilingWork[CompiledPrograms]):
    """Compiles the sides of pairs."""

    kind = "compile"
    row = CompiledPrograms

    def begin(self, pair: Pair, item: Item) -> CompilingItem[CompiledPrograms]:
        """Return a case whose programs are being compiled; without any where there is nothing to compile."""
        from samebits.compile.pair import compile_job, finish_case, in_setting, selected_cases, start_case
        from samebits.programs.sides import TracedSides

        locator, number = item.payload
        real, target, direction = list(selected_cases(pair, self.request))[number]
        job = compile_job(pair, real, target, direction, self.request)
        if job is None:
            return CompilingItem(CompiledPrograms)
        sides = TracedSides(in_setting(pair, real), self.programs)
        case = start_case(sides, locator, job, self.request, self.compiler)
        return CompilingItem(lambda: _as_data(finish_case(case, pair)))

    def failed(self, error: CompileError) -> CompiledPrograms:
        """Return a case without programs."""
        return CompiledPrograms(errors=(error,))


def _as_data(case: CompiledCase) -> CompiledPrograms:
    return CompiledPrograms(
        programs=tuple(case.programs),
        comparisons=tuple(case.comparisons),
        effects=tuple(case.effects),
        errors=tuple(CompileError.of(error) for error in case.errors),
        warnings=tuple(case.warnings),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedValues:
    """What an item gives: compiled values, or what values give at the small size; and what could not be decided.

    Args:
        trials: compiled, without what they give.
        small: at the small size of the shape.
    """

    trials: tuple[TuningTrial, ...] = ()
    small: tuple[SmallValue, ...] = ()
    errors: tuple[CompileError, ...] = ()


def tune_items(pairs: Iterable[tuple[Locator, Pair]], request: CompileRequest) -> list[Item]:
    """Return for each production shape one at the small size, and one per target and direction; none compiles."""
    from samebits.compile.pair import selected_cases
    from samebits.compile.tune import tuned_shapes

    items: list[Item] = []
    for locator, pair in pairs:
        shapes: set[str] = set()
        for number, (real, target, direction) in enumerate(selected_cases(tuned_shapes(pair), request)):
            if real.case.id not in shapes:
                shapes.add(real.case.id)
                items.append(_small_item(locator, pair, real, request))
            words = ("--tune", "--target", target.name, "--case", real.case.id, "--direction", direction)
            items.append(
                Item(
                    key=f"{pair.name}/{real.case.id}/{target.name}/{direction}/{number}",
                    pair=locator.name,
                    words=f"{pair.name}: values of case {real.case.id} for {target.name}, {direction}",
                    replay=compile_replay(locator, request, words),
                    group=(pair.name, real.case.id, target.name),
                    payload=(locator, real.case.id, number),
                )
            )
    return items


def _small_item(locator: Locator, pair: Pair, real: RealSize, request: CompileRequest) -> Item:
    words = ["--tune", *(word for target in request.targets for word in ("--target", target.name))]
    words += ["--case", real.case.id]
    words += [word for direction in request.directions for word in ("--direction", direction)]
    return Item(
        key=f"{pair.name}/{real.case.id}/small",
        pair=locator.name,
        words=f"{pair.name}: values of case {real.case.id} at the small size",
        replay=compile_replay(locator, request, words),
        group=(pair.name, real.case.id, ""),
        payload=(locator, real.case.id, None),
    )


class TuneWork(CompilingWork[TunedValues]):
    """Compiles the values of one static argument, and runs them at a small size."""

    kind = "tune"
    row = TunedValues

    def begin(self, pair: Pair, item: Item) -> CompilingItem[TunedValues]:
        """Return values that are being compiled; at the small size they are traced as they run."""
        from samebits.compile.pair import compile_job, in_setting, selected_cases
        from samebits.compile.tune import check_arguments, finish_values, start_values, tuned_shapes

        check_arguments(pair)
        locator, case, number = item.payload
        if number is None:
            return CompilingItem(lambda: self._small(pair, locator, case), "running values at the small size")
        real, target, direction = list(selected_cases(tuned_shapes(pair), self.request))[number]
        job = compile_job(pair, real, target, direction, self.request)
        if job is None:
            return CompilingItem(TunedValues)
        waiting = start_values(in_setting(pair, real), job, self.programs, self.compiler)
        return CompilingItem(lambda: TunedValues(trials=tuple(finish_values(job, pair.name, waiting))))

    def _small(self, pair: Pair, locator: Locator, case: str) -> TunedValues:
        from samebits.compile.tune import small_values, tuned_shapes

        (real,) = (real for real in tuned_shapes(pair).compiled if real.case.id == case)
        return TunedValues(small=tuple(small_values(pair, locator, real, self.request, self.programs)))

    def failed(self, error: CompileError) -> TunedValues:
        """Return values of which nothing is known."""
        return TunedValues(errors=(error,))
