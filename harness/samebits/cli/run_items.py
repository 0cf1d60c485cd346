"""Has the engine run the items of a command, with its journal; and puts them back into the order of the document.

The journal is opened where the user says or in the cache folder, and removed when the run is complete.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Generic, TypeVar

from samebits.cli.common import say
from samebits.cli.pipeline import CommandRun
from samebits.cli.supervision import journal_opened
from samebits.engine.drive import Done
from samebits.engine.journal import Journal, JournalHead, default_name, read_journal
from samebits.engine.run_work import EngineSettings, SourceMemory, run_work
from samebits.engine.work import Item, Work
from samebits.errors import RequestError
from samebits.host.cache_folder import cache_folder
from samebits.host.environment import Environment
from samebits.schema.result import Problem

Row = TypeVar("Row")

RETAINED_DAYS = 14
"""For how long the journals of interrupted runs are retained."""


@contextlib.contextmanager
def journaled(run: CommandRun, settings: EngineSettings, head: JournalHead) -> Iterator[Journal | None]:
    """Open the journal of a run, for the duration of a `with` block."""
    # Processes that run every item together cannot skip what only one of them remembers.
    journal = None if settings.group is not None else _opened(settings, head)
    if journal is None:
        yield None
        return
    journal_opened()
    complete = False
    try:
        yield journal
        complete = not run.stop.asked
    finally:
        if settings.resume:
            run.notes += _resumed(journal)
        journal.close(remove=complete and settings.journal is None)
        if journal.failed is not None:
            run.notes.append(f"journal {journal.path} is incomplete: {journal.failed}")
        if not complete:
            usual = settings.journal is not None or journal.path.name == default_name(head)
            again = "--resume" if usual else f"--resume --journal {journal.path}"
            what = "every result so far is" if journal.failed is None else "the first results are"
            say(f"{what} in {journal.path}; the same command with {again} goes on from there")


def _opened(settings: EngineSettings, head: JournalHead) -> Journal | None:
    if settings.journal is not None:
        return Journal(settings.journal, head, resume=settings.resume)
    folder = cache_folder("journals")
    path = folder / default_name(head)
    if settings.resume:
        _remove_torn(path)
        return Journal(path, head, resume=True)
    _remove_damaged(path)
    try:
        _remove_old(folder)
        return Journal(path, head, resume=False)
    except RequestError:  # the same command runs in another terminal, or the folder cannot be written
        with contextlib.suppress(RequestError):
            return Journal(path.with_suffix(f".{os.getpid()}"), head, resume=False)
    return None


def _remove_torn(path: Path) -> None:
    """Remove a journal of which not even the first line was written whole: there is nothing to go on with."""
    with contextlib.suppress(OSError):  # there is none, or reading it says why not
        text = path.read_bytes()
        if text and b"\n" not in text:  # an empty one may be of a run that begins just now
            path.unlink()


def _remove_damaged(path: Path) -> None:
    """Remove a journal that cannot be read, such as one of another version of samebits: this run begins anew."""
    if os.path.exists(path):  # False, too, where the folder may not be entered
        try:
            read_journal(path)
        except RequestError:  # also where it cannot be read at all
            with contextlib.suppress(OSError):
                path.unlink()


def _resumed(journal: Journal) -> list[str]:
    """Say what the journal of an earlier run holds."""
    before = journal.before
    if before.head is None:
        return ["--resume: no run of this request was interrupted; it began anew"]
    damaged = f"; {before.damaged} damaged lines were dropped" if before.damaged else ""
    count = len(before.entries)
    what = f"{count} items are in the journal of the interrupted run"
    if journal.taken < count:
        what = (
            f"{journal.taken} of the {count} items in the journal of the interrupted run count; the others run again: "
            "their process ended, or what they depend on has changed or cannot be compared"
        )
    return [f"resumed: {what}{damaged}"]


def _remove_old(folder: Path) -> None:
    """Remove the old journals of runs that were not resumed."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime > RETAINED_DAYS * 86400:
                path.unlink()


def journal_head(
    command: str, settings: EngineSettings, here: Environment | None, root: Path | None, **request: object
) -> JournalHead:
    """Return what a journal is of."""
    return JournalHead(
        command=command,
        request={"root": str((root or Path()).resolve()), **request},
        shard=None if settings.shard is None else str(settings.shard),
        environment={} if here is None else asdict(here),
    )


def run_items(
    run: CommandRun,
    work: Work[Row],
    items: Sequence[Item],
    settings: EngineSettings,
    head: JournalHead,
    on_problem: Callable[[Problem], None] | None = None,
) -> Generator[Done[Row]]:
    """Yield every item with its rows, in the order in which they are known; closing the iterator ends all processes."""
    with journaled(run, settings, head) as journal:
        store = SourceMemory([Path(head.request["root"])], {"request": head.request})
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
    """Name what costs about as much: the items of a pair, or of a configuration."""
    return str(item.group[0] if isinstance(item.group, tuple) else item.group)


class InOrder(Generic[Row]):
    """Sorts what is done into blocks of the document, each of which is complete before it is shown.

    Args:
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
        """Add an item that is done, and show what is complete now."""
        self._done[done.item.key] = done
        self._show_complete()

    def drop(self, pair: str) -> None:
        """Show in their turn what is done of the blocks of a pair, which will not be complete."""
        self._dropped.update(self._block(item) for item in self.items if item.pair == pair)
        self._show_complete()

    def close(self) -> None:
        """Show what is left, complete or not: nothing more comes."""
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
    run: CommandRun, work: Work[Row], blocks: InOrder[Row], settings: EngineSettings, head: JournalHead
) -> None:
    """Have the items of blocks run as by `run_items`, and show each block in its turn.

    A pair that cannot run at all is a problem of the run, and holds up no other.
    """

    def dropped(problem: Problem) -> None:
        run.problem(problem)
        blocks.drop(problem.pair)

    ran = run_items(run, work, blocks.items, settings, head, dropped)
    with contextlib.closing(ran), contextlib.closing(blocks):
        for done in ran:
            blocks.add(done)
