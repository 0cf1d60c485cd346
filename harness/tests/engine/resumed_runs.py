"""A script: a run with a journal is killed at random moments until it is complete. Its first argument is the journal.

Processes are forked: this one has no threads and no jax. What it prints is how often it was killed, and the rows.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from samebits.engine.drive import Done
from samebits.engine.journal import Journal, JournalHead
from samebits.engine.run_work import Dependencies, EngineSettings, SourceMemory, run_work
from samebits.engine.work import Item
from samebits.host.file_reads import READS
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyWork, toy_items

HEAD = JournalHead(command="check", request={"pairs": ["toy"]})
ITEMS = toy_items(*["good"] * 300)
SECONDS = 0.004


class Unchanging(SourceMemory):
    """Has one key: the sources never change here."""

    def __init__(self) -> None:
        pass

    def cache_key(self, item: Item) -> str:
        """The same for all."""
        return "cache_key"

    def remember(self, cache_key: str, done: Done[Any]) -> Dependencies:
        """Nothing is read."""
        return ()


def rows(journal: Journal | None) -> list[tuple[str, int]]:
    """All rows of a run, in the order of the document."""
    settings = EngineSettings(in_process=True)
    ran = run_work(
        ToyWork(ahead=3, seconds=SECONDS if journal else 0),
        ITEMS,
        settings,
        on_problem=_no_problem,
        journal=journal,
        store=Unchanging(),
    )
    with contextlib.closing(ran):
        given = {done.item.key: row.value for done in ran for row in done.rows}
    assert len(given) == len(ITEMS)
    return [(item.key, given[item.key]) for item in ITEMS]


def main(path: Path, kills: int) -> None:
    """Kill runs, let the last one end, and compare."""
    rng, killed, entries = random.Random(0), 0, []
    READS.look()
    READS.all()  # finds what modules are of users once, and not in each process: it takes as long as some items
    for _ in range(kills):
        size = path.stat().st_size if path.exists() else 0
        process = os.fork()
        if process == 0:
            rows(Journal(path, HEAD, resume=True))
            os._exit(0)
        if rng.random() < 0.5:  # some are killed before they have written anything, and more of them where all is busy
            wait_for_more(path, size)
        time.sleep(rng.uniform(0.002, 0.05))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        killed += os.WIFSIGNALED(status)
        with contextlib.suppress(OSError):
            entries.append(path.read_bytes().count(b"\n"))
    last = Journal(path, HEAD, resume=True)
    resumed = len(last.before.entries)
    same = rows(last) == rows(None)
    print(json.dumps({"killed": killed, "resumed": resumed, "same": same, "grew": entries == sorted(entries)}))


def wait_for_more(path: Path, size: int) -> None:
    """Wait until a file has grown."""
    until = time.monotonic() + 10
    while (not path.exists() or path.stat().st_size <= size) and time.monotonic() < until:
        time.sleep(0.001)


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
