"""Results of points, remembered under all sources of the tree: an untouched tree is not even traced.

An entry is found by its key, and counts only while everything that was read for it beside its sources has the content
that it had. Where a source has changed, or something was read that cannot be compared, points are traced and looked up
by their programs (`check.point_memory`). What fails is never remembered: it is run again, and what it shows is fresh.
An entry of an earlier run is removed when its point has run again and its new results are not remembered.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from samebits.check.contract_audit import DeclarationAudit
from samebits.check.point_memory import NEVER, executed_now, rememberable
from samebits.engine.check_work import CALLS, MemoryPlace
from samebits.engine.drive import Done
from samebits.engine.verdict_keys import VerdictKeys, changed_since
from samebits.engine.work import Item
from samebits.host.cache_folder import limit, verdicts_file
from samebits.host.entry_store import EntryStore
from samebits.host.file_reads import FILE, OUTSIDE, READS, state_of
from samebits.host.isolation import lasting_notes, note
from samebits.host.process_sources import variables_in
from samebits.programs.plan import LoadedPair
from samebits.schema.finding import Finding
from samebits.schema.point import Point
from samebits.schema.result import Problem

VARIABLE = "variable:"
"""How a read of an environment variable begins; `*` are all of them."""

LOOK = 0.5
"""Seconds after which the sources are looked at again while points run."""


class VerdictEntry(msgspec.Struct, frozen=True):
    """What is stored of a point.

    Args:
        executed: when, as ISO text in UTC.
        rows: its results, encoded as JSON each.
        reads: what was read for it beside its sources, with digests.
    """

    executed: str
    rows: tuple[msgspec.Raw, ...]
    reads: tuple[tuple[str, str], ...] = ()


class AuditEntry(msgspec.Struct, frozen=True):
    """What is stored of the audit of a declaration."""

    notes: tuple[str, ...]
    problems: tuple[tuple[str, str, int], ...]
    only_seen: int


class VerdictCache:
    """The memory of `samebits check`: a store of the engine.

    Args:
        keys: of this run's environment, effort and tree.
        loaded: the pairs of this run.
        entries: where they are; None where nothing is remembered.
        fresh: whether nothing is recalled; what runs is remembered all the same.
    """

    def __init__(
        self,
        keys: VerdictKeys,
        loaded: Sequence[LoadedPair],
        entries: EntryStore | None = None,
        *,
        fresh: bool = False,
    ) -> None:
        self.fresh = fresh
        self.entries = entries
        self._keys = keys
        self._known = frozenset(f"{FILE}{path}" for path in keys.files)
        self._loaded = {item.locator: item for item in loaded}
        self._places: dict[str, tuple[str, Point]] = {}
        self._executed: dict[tuple[str, Point], str] = {}
        self._began = time.time_ns()
        self._looked: tuple[float, str | None] = (0.0, None)
        self._variables = dict(os.environ)
        self._states: dict[str, str] = {}
        self._dependencies: dict[str, tuple[tuple[str, str], ...]] = {}
        self._recalled: dict[str, tuple[tuple[str, str], ...]] = {}
        self._why: dict[str, None] = {}
        self._contradicted: dict[str, None] = {}

    @property
    def memory(self) -> MemoryPlace | None:
        """Where points that are not known by their sources are looked up by their programs."""
        if self.entries is None or not self.entries.usable:
            return None
        return MemoryPlace(str(self.entries.path), self._keys.programs, self.fresh)

    def cache_key(self, item: Item) -> str:
        """Return the key of a point."""
        locator, point = item.payload
        loaded = self._loaded[locator]
        key = self._keys.of(loaded, point)
        self._places[key] = loaded.pair.name, point
        return key

    def recall(self, cache_key: str) -> tuple[msgspec.Raw, ...] | None:
        """Return the rows that are remembered under a key, each with `remembered`; None where there are none.

        There are none either where a file that they rest on has changed.
        """
        entry = None if self.fresh else self._entry(cache_key, VerdictEntry)
        if entry is None or not self.holds(entry.reads):
            return None
        self._executed[self._places[cache_key]] = entry.executed
        self._recalled[cache_key] = entry.reads
        return tuple(_dated(row, entry.executed) for row in entry.rows)

    def recalled_dependencies(self, cache_key: str) -> tuple[tuple[str, str], ...]:
        """Return what was read for the rows that were recalled under a key, with digests."""
        return self._recalled.get(cache_key, ())

    def dependencies(self, cache_key: str, done: Done[Finding]) -> tuple[tuple[str, str], ...] | None:
        """What was read for a point beside its sources, with digests; None where its rows hold for this run alone."""
        name, _ = self._places[cache_key]
        reads = [read for read in dict.fromkeys((*done.reads, *READS.all())) if read not in self._known]
        reads += dict.fromkeys(read for path in _modules(reads) for read in _variables(path))
        # First the digests: a file that changed after it was read shows that it changed since this run began.
        states = tuple((read, self._state(read)) for read in reads)
        changed = self._changed() or changed_since(map(_path, reads), self._began)
        if changed is not None:
            self._why.setdefault(f"{name}: its results are not remembered: {changed} changed while it ran")
        calls = next((read for read in reads if read.startswith(CALLS)), None)
        if calls is not None:
            self._why.setdefault(f"{name}: its results are not remembered: it {calls.removeprefix(CALLS)}")
        if changed is not None or any(read.startswith(OUTSIDE) for read in reads):
            return None
        self._dependencies[cache_key] = states
        return states

    def holds(self, dependencies: Iterable[tuple[str, str]]) -> bool:
        """Return whether everything that was read is as it was."""
        return all(self._state(read) == state for read, state in dependencies)

    def remember(self, cache_key: str, done: Done[Finding]) -> None:
        """Store the rows of a point, unless they must be found anew each time."""
        dependencies = self._dependencies.pop(cache_key, None) or self.dependencies(cache_key, done)
        if self.entries is None:
            return
        if dependencies is None or not done.rows or not all(map(rememberable, done.rows)):
            before = self._entry(cache_key, VerdictEntry)
            if before is not None and self.holds(before.reads) and any(map(_fails, done.rows)):
                self._contradicted.setdefault(self._places[cache_key][0])
            self.forget(cache_key)
            return
        earlier = (row.run.remembered for row in done.rows if row.run.remembered is not None)
        entry = VerdictEntry(executed=next(earlier, None) or executed_now(), rows=done.encoded, reads=dependencies)
        self.entries.put(cache_key, msgspec.json.encode(entry))
        self._executed[self._places[cache_key]] = entry.executed

    def forget(self, cache_key: str) -> None:
        """Drop an entry that this run contradicts."""
        if self.entries is not None:
            self.entries.remove(cache_key)

    def recall_audit(self, loaded: LoadedPair, results: Sequence[Finding]) -> DeclarationAudit | None:
        """The audit of a declaration that an earlier run made of the very same results; None where there is none."""
        key = self._audit_key(loaded, results)
        entry = None if key is None else self._entry(key, AuditEntry)
        if entry is None:
            return None
        problems = [Problem(pair=pair, message=text, exit_code=code) for pair, text, code in entry.problems]
        return DeclarationAudit(list(entry.notes), problems, entry.only_seen)

    def remember_audit(self, loaded: LoadedPair, results: Sequence[Finding], audit: DeclarationAudit) -> None:
        """Store the audit of a declaration, if all results that it rests on are remembered themselves."""
        key = self._audit_key(loaded, results)
        if key is not None and self.entries is not None:
            problems = tuple((problem.pair, problem.message, problem.exit_code) for problem in audit.problems)
            content = {"notes": audit.notes, "problems": problems, "only_seen": audit.only_seen}
            self.entries.put(key, msgspec.json.encode(content))

    def remarks(self) -> list[str]:
        """Return what the user should know: why results are not remembered, and what was wrong with the file."""
        if self.entries is None:
            return []
        contradicted = []
        if self._contradicted:
            names = ", ".join(self._contradicted)
            what = "an earlier run remembered results that hold, under the same key as results that fail now"
            contradicted.append(f"{names}: {what}: something that they depend on cannot be seen; they are removed")
        return [*self._why, *contradicted, *dict.fromkeys(self.entries.remarks)]

    def close(self) -> None:
        """Say again what the runs said that are recalled, store what this one said, and close the file.

        What user code changed, or which defaults differ, is said of a pair and not of a point.
        """
        if self.entries is None:
            return
        if self._keys.changed(self._began) is not None:  # after the last look: what ran meanwhile may be of either
            for cache_key in self._places.keys() - self._recalled.keys():
                self.entries.remove(cache_key)
        ran = {name for name, _ in self._executed}
        for item in (item for item in self._loaded.values() if item.pair.name in ran):
            name = item.pair.name
            named = re.compile(rf"\b{re.escape(name)}\b")
            key, said = self._keys.of_all(item, said=True), [text for text in lasting_notes() if named.search(text)]
            before = self._entry(key, list[str]) or []
            for text in before:
                note(text)
            if not set(said) <= set(before):
                self.entries.put(key, msgspec.json.encode([*before, *(text for text in said if text not in before)]))
        self.entries.close()

    def _changed(self) -> str | None:
        """Return a source that has changed since this run began, as of a moment ago."""
        if time.monotonic() - self._looked[0] > LOOK:
            self._looked = time.monotonic(), self._keys.changed(self._began)
        return self._looked[1]

    def _audit_key(self, loaded: LoadedPair, results: Sequence[Finding]) -> str | None:
        """Return a key over the results without their times; None where one of them is not remembered.

        It has the moment of each: an entry with that moment was found to rest on files that are unchanged since.
        """
        executed = [self._executed.get((loaded.pair.name, point)) for point in loaded.plan.points]
        if None in executed:
            return None
        timeless = (replace(result, seconds=0.0, run=replace(result.run, remembered=None)) for result in results)
        rows = [msgspec.to_builtins(result) for result in timeless]
        return self._keys.of_all(loaded, audit=rows, plan=msgspec.to_builtins(loaded.plan), executed=executed)

    def _entry(self, key: str, kind: type[Any]) -> Any:
        content = None if self.entries is None else self.entries.get(key)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError:  # of another version of samebits with the same format: as if there were none
            return None

    def _state(self, read: str) -> str:
        """Return the digest of what was read, as it was when this run first asked for it."""
        if read not in self._states:
            self._states[read] = self._value_of(read) if read.startswith(VARIABLE) else state_of(read)
        return self._states[read]

    def _value_of(self, read: str) -> str:
        """Return the digest of an environment variable, or of all, as they were when this run began."""
        name = read.removeprefix(VARIABLE)
        value = sorted(self._variables.items()) if name == "*" else self._variables.get(name)
        return hashlib.sha256(repr(value).encode("utf-8", "surrogateescape")).hexdigest()


def shared_entries() -> EntryStore | None:
    """Return the entries of all runs of this user; None where they may take no space.

    Raises:
        RequestError: the limit that is set is not a size.
    """
    size = limit()
    return EntryStore(verdicts_file(), size) if size else None


def _fails(result: Finding) -> bool:
    """Return whether a result contradicts one that holds, and would do so again."""
    return not result.ruling.ok and result.ruling.verdict not in (*NEVER, "skipped")


def _modules(reads: Iterable[str]) -> list[str]:
    """Return the modules among what was read."""
    return [_path(read) for read in reads if read.startswith(FILE) and read.endswith(".py")]


def _path(read: str) -> str:
    return read.removeprefix(FILE) if read.startswith(FILE) else ""


def _variables(path: str) -> list[str]:
    """Return the environment variables that a module reads, as reads; `*` where it may read any."""
    names, whole = variables_in(path)
    return [VARIABLE + name for name in (("*",) if whole else names)]


def _dated(row: msgspec.Raw, executed: str) -> msgspec.Raw:
    return msgspec.Raw(
        msgspec.json.encode({**(known := msgspec.json.decode(row)), "run": {**known["run"], "remembered": executed}})
    )
