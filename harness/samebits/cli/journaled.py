"""The journal of a command: opened where the user says or in the cache folder, and removed when the run is complete."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from samebits.cli.common import say
from samebits.cli.pipeline import CommandRun
from samebits.cli.supervision import journal_opened
from samebits.engine.journal import Journal, JournalHead, default_name, read_journal
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.host.cache_folder import cache_folder

RETAINED_DAYS = 14
"""For how long the journals of interrupted runs are retained."""


@contextlib.contextmanager
def journaled(run: CommandRun, settings: EngineSettings, head: JournalHead) -> Iterator[Journal | None]:
    """The journal of a run, for the duration of a `with` block.

    Args:
        run: where notes go.
        settings: which journal, and whether the run goes on with what it holds.
        head: what the run is.

    Raises:
        RequestError: the journal that was asked for cannot be used.
    """
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
    """What is said of the journal of an earlier run."""
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
