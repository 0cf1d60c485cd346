"""Has the engine run the items of a command, with its journal; and puts them back into the order of the document."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from samebits.cli.journaled import journaled
from samebits.cli.pipeline import CommandRun
from samebits.engine.drive import Done
from samebits.engine.journal import JournalHead
from samebits.engine.run_work import EngineSettings, run_work
from samebits.engine.source_memory import SourceMemory
from samebits.engine.work import Item, Work
from samebits.schema.result import Problem

Row = TypeVar("Row")


def run_items(
    run: CommandRun,
    work: Work[Row],
    items: Sequence[Item],
    settings: EngineSettings,
    head: JournalHead,
    tree: Path,
    on_problem: Callable[[Problem], None] | None = None,
) -> Generator[Done[Row]]:
    """Every item with its rows, in the order in which they are known; closing the iterator ends all processes.

    Args:
        run: where notes and problems go.
        work: what is done.
        items: all of them.
        settings: where and how.
        head: what was asked for, for the journal.
        tree: whose sources the results depend on.
        on_problem: called with each pair that cannot run at all; by default it is a problem of the run.
    """
    with journaled(run, settings, head) as journal:
        store = SourceMemory([tree], {"request": head.request})
        ran = run_work(work, items, settings, on_problem=on_problem or run.problem, journal=journal, store=store)
        own = settings.shard.of(items) if settings.shard is not None else items
        totals = Counter(_class_of(item) for item in own)
        with contextlib.closing(ran), run.progress(work.kind, totals) as bar:
            for done in ran:
                bar.add_next(_class_of(done.item), words=done.item.words, recalled=done.recalled)
                yield done
                if run.stop.asked:
                    return


def _class_of(item: Item) -> str:
    """What costs about as much: the items of a pair, or of a configuration."""
    return str(item.group[0] if isinstance(item.group, tuple) else item.group)


class InOrder(Generic[Row]):
    """Sorts what is done into blocks of the document, each of which is complete before it is shown.

    Args:
        items: in the order of the document.
        block: the name of the block that an item is in, such as its pair; items of one block are neighbours.
        show: called with the items of a block once all of them, and all blocks before, are done.
    """

    def __init__(
        self, items: Iterable[Item], block: Callable[[Item], str], show: Callable[[list[Done[Row]]], None]
    ) -> None:
        self._block, self._show = block, show
        self._keys: dict[str, list[str]] = {}
        self._done: dict[str, Done[Row]] = {}
        self._dropped: set[str] = set()
        self.items = tuple(items)
        for item in self.items:
            self._keys.setdefault(block(item), []).append(item.key)

    def add(self, done: Done[Row]) -> None:
        """An item is done; what is complete now is shown."""
        self._done[done.item.key] = done
        self._show_complete()

    def drop(self, pair: str) -> None:
        """The blocks of a pair will not be complete: what is done of them is shown in their turn."""
        self._dropped.update(self._block(item) for item in self.items if item.pair == pair)
        self._show_complete()

    def close(self) -> None:
        """Nothing more comes: what is left is shown, complete or not."""
        self._dropped.update(self._keys)
        self._show_complete()

    def _show_complete(self) -> None:
        for name in list(self._keys):
            if name not in self._dropped and not all(key in self._done for key in self._keys[name]):
                return
            own = [self._done.pop(key) for key in self._keys.pop(name) if key in self._done]
            if own:
                self._show(own)


def run_in_order(
    run: CommandRun, work: Work[Row], blocks: InOrder[Row], settings: EngineSettings, head: JournalHead, tree: Path
) -> None:
    """Have the items of blocks run as by `run_items`, and show each block in its turn.

    A pair that cannot run at all is a problem of the run, and holds up no other.
    """

    def dropped(problem: Problem) -> None:
        run.problem(problem)
        blocks.drop(problem.pair)

    ran = run_items(run, work, blocks.items, settings, head, tree, dropped)
    with contextlib.closing(ran), contextlib.closing(blocks):
        for done in ran:
            blocks.add(done)
