"""Results of points, remembered under all sources of the tree: an untouched tree is not even traced.

Where a source has changed, or something was read that has no digest, points are traced and looked up by their programs
(`check.point_memory`). What fails is never remembered: it is run again, and what it shows is fresh. An entry of an
earlier run is removed when its point has run again and its new results are not remembered.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from samebits.check.contract_audit import DeclarationAudit
from samebits.check.point_memory import NEVER, executed_now, rememberable
from samebits.engine.check_work import CALLS, CheckWork, MemoryPlace, check_items
from samebits.engine.drive import Done
from samebits.engine.journal import Journal
from samebits.engine.run_work import (
    Dependencies,
    EngineSettings,
    Recalled,
    SourceMemory,
    digest,
    reads_variables,
    run_work,
)
from samebits.engine.work import Item
from samebits.host.cache_folder import cache_folder, limit
from samebits.host.entry_store import EntryStore
from samebits.host.environment import Environment
from samebits.host.file_reads import OUTSIDE, READS
from samebits.host.isolation import lasting_notes, note
from samebits.programs.catalogue import Locator
from samebits.programs.plan import LoadedPair
from samebits.schema.finding import Finding
from samebits.schema.point import USUAL, Effort, Point
from samebits.schema.result import Problem

FORMAT = 3
"""The version of the keys and of what is stored under them."""

MOST = 100_000
"""In a tree with more files than these, points are looked up by their programs alone."""


class VerdictEntry(msgspec.Struct, frozen=True):
    """What is stored of a point.

    Args:
        executed: when, as ISO text in UTC.
        rows: its results, encoded as JSON each, with that moment.
        reads: what was read for it beside its sources, with digests.
    """

    executed: str
    rows: tuple[msgspec.Raw, ...]
    reads: Dependencies = ()


class VerdictCache(SourceMemory):
    """The memory of `samebits check`.

    Args:
        trees: whose modules count.
        entries: where they are; None where nothing is remembered.
        fresh: whether nothing is recalled; what runs is remembered all the same.

    Attributes:
        by_programs: a digest of everything but sources, for keys that have the programs instead.
    """

    def __init__(
        self,
        trees: Iterable[Path],
        environment: Environment,
        effort: Effort,
        loaded: Sequence[LoadedPair],
        entries: EntryStore | None = None,
        *,
        fresh: bool = False,
    ) -> None:
        request = {"format": FORMAT, "environment": asdict(environment), "effort": asdict(effort)}
        # Code may look for a program on the path, which no event tells.
        super().__init__(trees, {**request, "search path": os.environ.get("PATH")}, most=MOST)
        self.by_programs = digest({**request, **self.sources.settings})
        self.fresh = fresh
        self.entries = entries
        self._pairs = {item.locator: item.pair.name for item in loaded}
        self._executed: dict[tuple[str, Point], str] = {}
        self._stored: set[str] = set()
        self._why: dict[str, None] = {}
        self._contradicted: dict[str, None] = {}

    @property
    def memory(self) -> MemoryPlace | None:
        """Where points that are not known by their sources are looked up by their programs."""
        return None if self.entries is None else MemoryPlace(str(self.entries.folder), self.by_programs, self.fresh)

    def _place(self, item: Item) -> tuple[str, Point]:
        locator, point = item.payload
        return self._pairs[locator], point

    def recall(self, item: Item, cache_key: str) -> Recalled | None:
        """Return the rows that are remembered under a key; None where there are none, or what they rest on has changed.

        Each has the moment at which it was executed.
        """
        entry = None if self.fresh else self._entry(cache_key, VerdictEntry)
        if entry is None or not self.holds(entry.reads):
            return None
        self._executed[self._place(item)] = entry.executed
        return Recalled(entry.rows, entry.reads)

    def remember(self, cache_key: str, done: Done[Finding]) -> Dependencies | None:
        """Store the rows of a point, unless they must be found anew each time, and return what they rest on."""
        reads = super().remember(cache_key, done)
        if done.lost or not self._is_comparable(done):
            reads = None
        if self.entries is None:
            return reads
        if reads is None or not done.rows or not all(map(rememberable, done.rows)):
            before = self._entry(cache_key, VerdictEntry)
            if reads is not None and before is not None and self.holds(before.reads) and any(map(_fails, done.rows)):
                self._contradicted.setdefault(self._place(done.item)[0])
            self.entries.remove(cache_key)
            return reads
        earlier = (row.run.remembered for row in done.rows if row.run.remembered is not None)
        executed = next(earlier, None) or executed_now()
        rows = [replace(row, run=replace(row.run, remembered=executed)) for row in done.rows]
        entry = VerdictEntry(executed, tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows), reads)
        self.entries.put(cache_key, msgspec.json.encode(entry))
        self._stored.add(cache_key)
        self._executed[self._place(done.item)] = executed
        return reads

    def _is_comparable(self, done: Done[Finding]) -> bool:
        """Return whether the rows of a point can be held against a later run; if not, a remark may say why."""
        name, _ = self._place(done.item)
        changed = self.changed_meanwhile(done)
        if changed is not None:
            self._why.setdefault(f"{name}: its results are not remembered: {changed} changed while it ran")
        calls = next((read for read in done.reads if read.startswith(CALLS)), None)
        if calls is not None:
            self._why.setdefault(f"{name}: its results are not remembered: it {calls.removeprefix(CALLS)}")
        reads = [read for read, _ in self.states_of(done)]
        return not any(read.startswith(OUTSIDE) for read in reads) and not reads_variables(reads)

    def recall_audit(self, loaded: LoadedPair, results: Sequence[Finding]) -> DeclarationAudit | None:
        """Return the audit of a declaration that an earlier run made of the very same results; None without one."""
        key = self._audit_key(loaded, results)
        audit: DeclarationAudit | None = None if key is None else self._entry(key, DeclarationAudit)
        return audit

    def remember_audit(self, loaded: LoadedPair, results: Sequence[Finding], audit: DeclarationAudit) -> None:
        """Store the audit of a declaration, if all results that it rests on are remembered themselves."""
        key = self._audit_key(loaded, results)
        if key is not None and self.entries is not None:
            self.entries.put(key, msgspec.json.encode(audit))

    def remarks(self) -> list[str]:
        """Return what the user should know: why results are not remembered, and what was wrong with the store."""
        if self.entries is None:
            return []
        contradicted = []
        if self._contradicted:
            names = ", ".join(self._contradicted)
            what = "an earlier run remembered results that hold, under the same key as results that fail now"
            contradicted.append(f"{names}: {what}: something that they depend on cannot be seen; they are removed")
        return [*self._why, *contradicted, *filter(None, [self.entries.failed])]

    def close(self) -> None:
        """Say again what the runs said that are recalled, store what this one said, and close the file.

        What user code changed, or which defaults differ, is said of a pair and not of a point.
        """
        if self.entries is None:
            return
        if READS.changed(self.sources.files) is not None:  # after the last look: what ran meanwhile may be of either
            for cache_key in self._stored:
                self.entries.remove(cache_key)
        ran = {name for name, _ in self._executed}
        for locator, name in ((locator, name) for locator, name in self._pairs.items() if name in ran):
            named = re.compile(rf"\b{re.escape(name)}\b")
            key, said = self._key_of_all(locator, said=True), [text for text in lasting_notes() if named.search(text)]
            before = self._entry(key, list[str]) or []
            for text in before:
                note(text)
            if not set(said) <= set(before):
                self.entries.put(key, msgspec.json.encode([*before, *(text for text in said if text not in before)]))
        self.entries.close()

    def _audit_key(self, loaded: LoadedPair, results: Sequence[Finding]) -> str | None:
        """Return a key over the results without their times; None where one of them is not remembered.

        It has the moment of each: an entry with that moment was found to rest on files that are unchanged since.
        """
        executed = [self._executed.get((loaded.pair.name, point)) for point in loaded.plan.points]
        if None in executed:
            return None
        timeless = (replace(result, seconds=0.0, run=replace(result.run, remembered=None)) for result in results)
        rows = [msgspec.to_builtins(result) for result in timeless]
        plan = msgspec.to_builtins(loaded.plan)
        return self._key_of_all(loaded.locator, audit=rows, plan=plan, executed=executed)

    def _key_of_all(self, locator: Locator, **more: Any) -> str:
        """Return a key of something about a pair."""
        return digest({"base": self._base, "pair": [*asdict(locator).values(), self._pairs[locator]], **more})

    def _entry(self, key: str, kind: type[Any]) -> Any:
        content = None if self.entries is None else self.entries.get(key)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError:  # of another version of samebits with the same format: as if there were none
            return None


def shared_entries() -> EntryStore | None:
    """Return the entries of all runs of this user; None where they may take no space."""
    size = limit()
    return EntryStore(cache_folder("verdicts"), size) if size else None


def _fails(result: Finding) -> bool:
    """Return whether a result contradicts one that holds, and would do so again."""
    return not result.ruling.ok and result.ruling.verdict not in (*NEVER, "skipped")


IN_PROCESS = EngineSettings(in_process=True)


def sweep(
    loaded: Sequence[LoadedPair],
    *,
    on_problem: Callable[[Problem], None],
    settings: EngineSettings = IN_PROCESS,
    effort: Effort = USUAL,
    journal: Journal | None = None,
    store: VerdictCache | None = None,
) -> Generator[Finding]:
    """Yield all results of a sweep in the order in which they are known; closing the iterator ends all processes."""
    ran = run_work(
        CheckWork(
            effort,
            group=settings.group,
            pairs={item.locator: item.pair for item in loaded},
            memory=None if store is None else store.memory,
        ),
        check_items(loaded),
        settings,
        on_problem=on_problem,
        journal=journal,
        store=store,
    )
    with contextlib.closing(ran):
        for done in ran:
            yield from done.rows
