"""Signs of items for `--resume`: they change with any source, package or setting that a result could depend on.

Coarse on purpose: after an edit anywhere in the tree everything runs again, and nothing is ever resumed wrongly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from samebits.engine.drive import Done
from samebits.engine.run_work import Unremembered
from samebits.engine.work import Item
from samebits.host.file_reads import CHANGED, FILE, OUTSIDE, state_of
from samebits.host.process_sources import sources_of_process


class SourceSigns(Unremembered):
    """A store that has keys of items, and remembers nothing between runs.

    Args:
        tree: the tree of pairs, whose Python files count.
        request: what was asked for.
    """

    def __init__(self, tree: Path, request: Mapping[str, Any]) -> None:
        process = sources_of_process(tree)
        self._written = process.written
        self._states: dict[str, str] = {}
        self._base = json.dumps({"request": request, **process.parts}, sort_keys=True, default=str)

    def cache_key(self, item: Item) -> str:
        """Return a digest of everything that the rows of an item depend on."""
        return hashlib.sha256(f"{self._base} {item.key}".encode()).hexdigest()

    def dependencies(self, cache_key: str, done: Done[Any]) -> tuple[tuple[str, str], ...] | None:
        """Return what was read in the item's process beside the sources, with digests; None where it has changed since.

        That another program was started counts for nothing: after a crash there would be nothing to resume.
        """
        if any(read.endswith(CHANGED) for read in done.reads):
            return None
        beside = [read for read in done.reads if read.removeprefix(FILE) not in self._written]
        return tuple((read, self._state(read)) for read in beside if not read.startswith(OUTSIDE))

    def holds(self, dependencies: Iterable[tuple[str, str]]) -> bool:
        """Return whether everything that was read is as it was."""
        return all(self._state(read) == state for read, state in dependencies)

    def _state(self, read: str) -> str:
        if read not in self._states:
            self._states[read] = state_of(read)
        return self._states[read]
