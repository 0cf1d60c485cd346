"""Results of points, remembered under everything that they depend on.

An entry is found by its key, and counts only while every file that was read for it, beside its sources, still has the
content that it had. What fails is never remembered: it is run again, and what it shows is fresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from samebits.check.contract_audit import DeclarationAudit
from samebits.engine.verdict_keys import NotRememberable, PairKeys, VerdictKeys, outside
from samebits.errors import SamebitsError
from samebits.host.cache_folder import cache_folder, limit
from samebits.host.entry_store import EntryStore
from samebits.host.file_reads import READS, state_of
from samebits.programs.plan import LoadedPair
from samebits.schema.point import Point
from samebits.schema.result import Problem, Result

NEVER = ("error", "unstable")
"""Verdicts that may depend on what else the machine did, even where an exemption accepts them."""

FILE_NAME = "verdicts.sqlite"


class Entry(msgspec.Struct, frozen=True):
    """What is stored of a point.

    Args:
        executed: when, as ISO text in UTC.
        rows: its results, encoded as JSON each.
        reads: what was read for it beside its sources, with digests.
        remarks: what the user was told meanwhile.
    """

    executed: str
    rows: tuple[msgspec.Raw, ...]
    reads: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


class AuditEntry(msgspec.Struct, frozen=True):
    """What is stored of the audit of a declaration."""

    notes: tuple[str, ...]
    problems: tuple[tuple[str, str, Literal[1, 2, 3]], ...]
    only_seen: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Remembered:
    """Results of a point that were found by an earlier run.

    Args:
        rows: as a fresh run would encode them, with `remembered`.
        executed: when, as ISO text in UTC.
        remarks: what the user was told by that run.
    """

    rows: tuple[msgspec.Raw, ...]
    executed: str
    remarks: tuple[str, ...]

    def results(self) -> list[Result]:
        """The rows as records."""
        return [msgspec.json.decode(row, type=Result) for row in self.rows]


class VerdictCache:
    """The memory of `samebits check`.

    Args:
        keys: of this run's environment and effort.
        store: where entries are; by default the file that all runs of this user share.
    """

    def __init__(self, keys: VerdictKeys, store: EntryStore | None = None) -> None:
        self.keys = keys
        self.store = store or EntryStore(cache_folder("verdicts") / FILE_NAME, limit())
        self._pairs: dict[str, PairKeys | None] = {}
        self._places: dict[str, tuple[str, Point]] = {}
        self._executed: dict[tuple[str, Point], str] = {}
        self._states: dict[str, str] = {}
        self._why: dict[str, None] = {}

    def key(self, loaded: LoadedPair, point: Point) -> str | None:
        """The key of a point; None where its results cannot be remembered."""
        keys = self._keys_of(loaded)
        if keys is None:
            return None
        key = keys.of(point)
        self._places[key] = loaded.pair.name, point
        return key

    def recall(self, key: str) -> Remembered | None:
        """What is remembered under a key; None where it is nothing, or where a file that it rests on has changed.

        Args:
            key: of a point, from this object.
        """
        entry = self._entry(key, Entry)
        if entry is None or any(self._state(read) != state for read, state in entry.reads):
            return None
        self._executed[self._places[key]] = entry.executed
        rows = tuple(_dated(row, entry.executed) for row in entry.rows)
        return Remembered(rows=rows, executed=entry.executed, remarks=entry.remarks)

    def remember(
        self, key: str, rows: Sequence[msgspec.Raw], reads: Iterable[str] = (), remarks: Iterable[str] = ()
    ) -> bool:
        """Store the results of a point, unless they must be found anew each time.

        Args:
            key: of the point, from this object.
            rows: all results of the point, encoded as JSON each.
            reads: what was read for it in another process.
            remarks: what the user was told meanwhile.

        Returns:
            Whether they are stored.
        """
        pair, _ = self._places[key]
        keys = self._pairs[pair]
        assert keys is not None
        if not rows or not all(map(rememberable, rows)):
            return False
        changed, reads = keys.changed(), (*reads, *keys.reads())
        why = f"{changed} changed while it ran" if changed else outside(reads)
        if why is not None:
            self._why.setdefault(f"{pair}: its results are not remembered: {why}")
            return False
        # Their state is that of now: a file that changed after it was read is reported as such, and came above.
        states = tuple((read, state_of(read)) for read in dict.fromkeys(reads))
        entry = Entry(executed=_now(), rows=tuple(rows), reads=states, remarks=tuple(dict.fromkeys(remarks)))
        self.store.put(key, msgspec.json.encode(entry))
        self._executed[self._places[key]] = entry.executed
        return True

    def recall_audit(self, loaded: LoadedPair, results: Sequence[Result]) -> DeclarationAudit | None:
        """The audit of a declaration that an earlier run made of the very same results; None where there is none."""
        key = self._audit_key(loaded, results)
        entry = None if key is None else self._entry(key, AuditEntry)
        if entry is None:
            return None
        problems = [Problem(pair=pair, message=text, exit_code=code) for pair, text, code in entry.problems]
        return DeclarationAudit(list(entry.notes), problems, entry.only_seen)

    def remember_audit(self, loaded: LoadedPair, results: Sequence[Result], audit: DeclarationAudit) -> None:
        """Store the audit of a declaration, if all results that it rests on are remembered themselves."""
        key = self._audit_key(loaded, results)
        if key is not None:
            problems = tuple((problem.pair, problem.message, problem.exit_code) for problem in audit.problems)
            content = {"notes": audit.notes, "problems": problems, "only_seen": audit.only_seen}
            self.store.put(key, msgspec.json.encode(content))

    def remarks(self) -> list[str]:
        """What the user should know: why results are not remembered, and what was wrong with the file."""
        return [*self._why, *dict.fromkeys(self.store.remarks)]

    def close(self) -> None:
        """Close the file, and remove what was used longest ago where it is too large."""
        self.store.close()

    def _keys_of(self, loaded: LoadedPair) -> PairKeys | None:
        name = loaded.pair.name
        if name not in self._pairs:
            try:
                self._pairs[name] = self.keys.of(loaded)
            except NotRememberable as error:
                self._pairs[name] = None
                self._why.setdefault(f"{name}: its results are not remembered: {error}")
            except SamebitsError:  # the declaration is wrong, and the run says so
                self._pairs[name] = None
        return self._pairs[name]

    def _audit_key(self, loaded: LoadedPair, results: Sequence[Result]) -> str | None:
        """A key over the results without their times; None where one of them is not remembered.

        It has the moment of each: an entry with that moment was found to rest on files that are unchanged since.
        """
        keys = self._keys_of(loaded)
        executed = [self._executed.get((loaded.pair.name, point)) for point in loaded.plan.points]
        if keys is None or None in executed:
            return None
        rows = [{**msgspec.to_builtins(result), "seconds": 0, "remembered": None} for result in results]
        return keys.of_all(audit=rows, plan=msgspec.to_builtins(loaded.plan), executed=executed)

    def _entry(self, key: str, kind: type[Any]) -> Any:
        content = self.store.get(key)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError:  # of another version of samebits with the same format: as if there were none
            return None

    def _state(self, read: str) -> str:
        """The digest of a file as it is now; files do not change while entries are looked up, or the run is not whole."""
        if read not in self._states:
            self._states[read] = state_of(read)
        return self._states[read]


def rememberable(row: msgspec.Raw) -> bool:
    """Whether a result may be remembered: it holds, and it would be found again."""
    result = msgspec.json.decode(row)
    if result["verdict"] == "skipped":
        return True
    return bool(result["ok"]) and result["verdict"] not in NEVER


def reads_of(keys: VerdictKeys, loaded: LoadedPair) -> tuple[str, ...]:
    """What was read in this process for a pair, for a process that remembers its results."""
    try:
        return keys.of(loaded).reads()
    except SamebitsError:  # then nothing is remembered, and the process that remembers says why
        return ()


def watch_reads() -> None:
    """Note what is read in this process from now on; to be called before the first declaration is loaded."""
    READS.look()


def _dated(row: msgspec.Raw, executed: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({**msgspec.json.decode(row), "remembered": executed}))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
