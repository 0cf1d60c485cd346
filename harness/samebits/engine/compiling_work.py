"""Work whose items have programs of a pair compiled: tracing runs ahead of the compiler."""

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
from samebits.engine.check_work import finished, lost_words, remarks, trouble
from samebits.engine.work import Event, Item, ProcessExit, Reached, Row, Started, Work
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.programs.catalogue import Locator, load
from samebits.programs.program_cache import Programs
from samebits.programs.replay import of_tree
from samebits.schema.pair import Pair

if TYPE_CHECKING:
    from samebits.compile.pair import Compiler

AHEAD = 3
"""How many items are traced while the compiler works on the one before them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileError:
    """Why a program, or all programs of a case, could not be compiled.

    Args:
        message: one line.
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
        request: what is compiled.
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
        """Trace the programs of an item, and have them compiled.

        Raises:
            SamebitsError: there is nothing to compile, and why.
        """

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
