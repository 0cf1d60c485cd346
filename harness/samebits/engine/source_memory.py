"""Which results of earlier runs still count: those under the same sources and settings, of the same data."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from samebits.engine.drive import Done
from samebits.engine.work import Item
from samebits.host.file_reads import FILE, MEANWHILE, OUTSIDE, READS, path_of, state_of
from samebits.host.process_sources import sources_of_process, variables_in

LOOK = 0.5
"""Seconds after which the sources are looked at again while items run."""

Dependencies = tuple[tuple[str, str], ...]
"""What rows rest on beside their key: what was read for them, with digests."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The rows of an earlier run, and what they rest on."""

    rows: tuple[msgspec.Raw, ...]
    dependencies: Dependencies


class SourceMemory:
    """Has the keys of results, under which a journal holds them; remembers nothing between runs by itself.

    Coarse on purpose: after an edit anywhere in the trees everything runs again, and nothing is ever resumed wrongly.

    Args:
        trees: whose modules count.
        request: what was asked for, and what else results depend on.
        most: as for `sources_of_process`.

    Attributes:
        ingredients: what every key has, by name.
    """

    def __init__(self, trees: Iterable[Path], request: Mapping[str, Any], *, most: int = 2**31) -> None:
        self.sources = sources_of_process(*trees, most=most)
        self.ingredients = {**request, **self.sources.parts}
        self._base = digest(self.ingredients)
        self._looked: tuple[float, str | None] = (0.0, None)
        self._states: dict[str, str] = {}

    def cache_key(self, item: Item) -> str:
        """Return a digest of everything that the rows of an item depend on, but for what is read meanwhile."""
        return digest({"base": self._base, "item": [item.pair, item.key, item.replay]})

    def recall(self, cache_key: str) -> Recalled | None:
        """Return the rows of an earlier run; None where nothing is remembered."""
        return None

    def remember(self, cache_key: str, done: Done[Any]) -> Dependencies | None:
        """Remember the rows of an item that has run, and return what they rest on; None where they are not to be used.

        That another program was started counts for nothing: after a crash there would be nothing to resume.
        """
        states = self.states_of(done)
        if done.lost or self.changed_meanwhile(done) is not None:
            return None
        return tuple((read, state) for read, state in states if not read.startswith(OUTSIDE))

    def holds(self, dependencies: Dependencies) -> bool:
        """Return whether everything that was read is as it was."""
        return all(self._state(read) == state for read, state in dependencies)

    def states_of(self, done: Done[Any]) -> Dependencies:
        """Return what was read for an item beside the sources, with digests as they were when first asked for."""
        reads = dict.fromkeys((*done.reads, *READS.all()))
        return tuple((read, self._state(read)) for read in reads if path_of(read) not in self.sources.files)

    def changed_meanwhile(self, done: Done[Any]) -> str | None:
        """Return what was edited while an item ran, so that its rows may be of either; to be asked after the states."""
        if time.monotonic() - self._looked[0] > LOOK:
            self._looked = time.monotonic(), READS.changed(sorted(self.sources.files))
        removed = (path_of(read) for read in done.reads if read.endswith(MEANWHILE))
        return self._looked[1] or READS.changed(map(path_of, done.reads)) or next(removed, None)

    def _state(self, read: str) -> str:
        if read not in self._states:
            self._states[read] = state_of(read)
        return self._states[read]


def digest(parts: Mapping[str, Any]) -> str:
    """Return a digest of data that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def reads_variables(reads: Iterable[str]) -> bool:
    """Return whether a module among what was read may read environment variables, of which no key has the values."""
    modules = (path_of(read) for read in reads if read.startswith(FILE) and read.endswith(".py"))
    return any(variables_in(path) != ((), False) for path in modules)
