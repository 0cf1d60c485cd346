"""Many documents through time: a row of verdicts for each result that ever changed, and what moved it.

In: what each document says, by command. Out: per command the documents in order, and the rows that changed; rows that
never did are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.changes.environments import EnvironmentChange, environment_changes
from samebits.report.changes.losses import last_loss, moved_loss
from samebits.report.changes.rows import PARTS, DocumentRows, ResultPlace
from samebits.report.document import SCHEMA

Order = Literal["commit", "time"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dated:
    """A document that was read.

    Args:
        file: its path, relative to the folder.
        command: that wrote it.
        written: its time and commit.
        environment: where it ran, if it says so.
        rows: its results.
    """

    file: str
    command: str
    written: Written
    environment: Environment | None
    rows: DocumentRows


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryPoint:
    """One document.

    Args:
        file: its path, relative to the folder.
        written: its time and commit; the time is that of the file where an older samebits wrote it.
        results, failed: how many results it has, and how many of them fail.
        moved: for how many places the reference, a program or a run has other bits than in the document before.
        environments: where its environment differs from that of the document before.
        commit: whether its commit is another one than that of the document before.
    """

    file: str
    written: Written
    results: int
    failed: int
    moved: int = 0
    environments: tuple[EnvironmentChange, ...] = ()
    commit: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A change of one result from one document to a later one.

    Args:
        at: the place of the later document in the order, from 0.
        since: the place of the last document before it that has the result.
        before, after: the verdicts.
        worse: whether it holds no longer, or holds at a lower verdict; of a loss, always.
        because: what else changed between the two documents: packages, processor, settings, commit.
    """

    at: int
    since: int
    before: str
    after: str
    worse: bool
    because: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryRow(ResultPlace):
    """A result whose verdict changed, or a training run whose loss moved further than rounding.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `ResultPlace`.
        verdicts: one per document, of a training run its last loss; None where it has no such result.
        failed: the documents in which it fails, by their place in the order.
        moves: where it changed.
    """

    verdicts: tuple[str | None, ...]
    failed: tuple[int, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandHistory:
    """The documents of one command.

    Args:
        command: whose documents.
        order: whether commits or times put them into order.
        documents: the oldest first.
        results: the results that changed, the latest change first.
        unchanged: how many results never changed.
    """

    command: str
    order: Order
    documents: tuple[HistoryPoint, ...]
    results: tuple[HistoryRow, ...]
    unchanged: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryDocument:
    """Many documents through time, as `samebits history --json` writes it.

    Args:
        folder: where the documents are.
        results: one history per command, those in which something changed first.
        skipped: files that could not be read, and why.
        notes: what limits the history.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["history"] = "history"
    folder: str
    results: tuple[CommandHistory, ...]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    written: Written | None = None


def history_of(
    folder: str, documents: Iterable[Dated], commits: Sequence[str] = (), skipped: Sequence[str] = ()
) -> HistoryDocument:
    """The history of documents.

    Args:
        folder: where they are.
        documents: in any order.
        commits: of the repository, parents before children; documents that all name one of these are ordered by them.
        skipped: files that could not be read, and why.

    Raises:
        CouldNotRun: no command has two documents.
        RequestError: there are files, and none of them could be read.
    """
    by_command: dict[str, list[Dated]] = {}
    for document in documents:
        by_command.setdefault(document.command, []).append(document)
    alone = [f"{few[0].file} ({name})" for name, few in by_command.items() if len(few) < 2]
    several = {name: many for name, many in by_command.items() if len(many) > 1}
    if not several:
        there = f"it has {', '.join(alone)}" if alone else "no document could be read"
        if not alone and skipped:
            raise RequestError(f"'{folder}': no document could be read; the first: {skipped[0]}")
        raise CouldNotRun(f"'{folder}': nothing to compare: {there}; a history needs two documents of one command")
    histories = [_of_command(name, many, commits) for name, many in several.items()]
    return HistoryDocument(
        folder=folder,
        results=tuple(sorted(histories, key=lambda history: not history.results)),
        skipped=tuple(skipped),
        notes=(f"alone of their command, and not compared: {', '.join(alone)}",) if alone else (),
    )


def _of_command(command: str, documents: Sequence[Dated], commits: Sequence[str]) -> CommandHistory:
    order, ordered = _ordered(documents, {commit: number for number, commit in enumerate(commits)})
    places = dict.fromkeys(place for document in ordered for place in document.rows.verdicts)
    rows = [_row(place, ordered) for place in places]
    runs = dict.fromkeys(place for document in ordered for place in document.rows.runs)
    losses = [row for row in (_loss_row(place, ordered) for place in runs) if row.moves]
    changed = [*losses, *(row for row in rows if row.moves)]
    return CommandHistory(
        command=command,
        order=order,
        documents=tuple(_point(number, ordered) for number in range(len(ordered))),
        results=tuple(sorted(changed, key=lambda row: -row.moves[-1].at)),
        unchanged=len(rows) + len(losses) - len(changed),
    )


def _ordered(documents: Sequence[Dated], numbers: Mapping[str, int]) -> tuple[Order, list[Dated]]:
    by_commit = all(document.written.commit in numbers for document in documents)
    distinct = len({document.written.commit for document in documents}) > 1

    def key(document: Dated) -> tuple[int, str, str]:
        number = numbers[document.written.commit or ""] if by_commit else 0
        return (number, document.written.time, document.file)

    return ("commit" if by_commit and distinct else "time"), sorted(documents, key=key)


def _point(number: int, ordered: Sequence[Dated]) -> HistoryPoint:
    document = ordered[number]
    verdicts = document.rows.verdicts.values()
    point = HistoryPoint(
        file=document.file,
        written=document.written,
        results=len(verdicts),
        failed=sum(row.state == "failed" for row in verdicts),
    )
    if not number:
        return point
    before = ordered[number - 1]
    bits = before.rows.bits
    return replace(
        point,
        moved=sum(bits.get(place, value) != value for place, value in document.rows.bits.items()),
        environments=environment_changes(before.environment, document.environment),
        commit=before.written.commit != document.written.commit,
    )


def _row(place: ResultPlace, ordered: Sequence[Dated]) -> HistoryRow:
    rows = [document.rows.verdicts.get(place) for document in ordered]
    moves, last = [], None
    for number, row in enumerate(rows):
        # A result that was not made says nothing about when it changed.
        if row is None or row.state == "skipped":
            continue
        if last is not None and (before := rows[last]) is not None and _unlike(before, row):
            worse = (row.state == "failed", row.rank) > (before.state == "failed", before.rank)
            because = _because(ordered[last], ordered[number])
            moves.append(
                Move(at=number, since=last, before=before.verdict, after=row.verdict, worse=worse, because=because)
            )
        last = number
    return HistoryRow(
        **{name: getattr(place, name) for name in PARTS},
        verdicts=tuple(None if row is None else row.verdict for row in rows),
        failed=tuple(number for number, row in enumerate(rows) if row is not None and row.state == "failed"),
        moves=tuple(moves),
    )


def _loss_row(place: ResultPlace, ordered: Sequence[Dated]) -> HistoryRow:
    """A training run, whose verdicts are its losses; it moved where its loss moved further than rounding moves it."""
    moves: list[Move] = []
    last: int | None = None
    for number, document in enumerate(ordered):
        run = document.rows.runs.get(place)
        if run is None:
            continue
        moved = None if last is None else moved_loss(place, ordered[last].rows.runs[place], run)
        if last is not None and moved is not None and moved.verdict == "different":
            because = _because(ordered[last], document)
            moves.append(
                Move(at=number, since=last, before=moved.before, after=moved.after, worse=True, because=because)
            )
        last = number
    texts = [None if (run := document.rows.runs.get(place)) is None else last_loss(run) for document in ordered]
    return HistoryRow(
        **{name: getattr(place, name) for name in PARTS}, verdicts=tuple(texts), failed=(), moves=tuple(moves)
    )


def _unlike(before: object, after: object) -> bool:
    names = ("verdict", "state")
    return any(getattr(before, name) != getattr(after, name) for name in names)


def _because(before: Dated, after: Dated) -> tuple[str, ...]:
    """What changed between two documents besides the result."""
    changes = [str(change) for change in environment_changes(before.environment, after.environment)]
    old, new = before.written, after.written
    if old.commit != new.commit:
        changes.append(f"commit {(old.commit or 'none')[:12]} -> {(new.commit or 'none')[:12]}")
    elif new.dirty or old.dirty:
        changes.append("uncommitted changes of the tree")
    versions = [None if d.environment is None else d.environment.versions.get("samebits") for d in (before, after)]
    if versions[0] != versions[1]:
        changes.append(f"samebits {versions[0] or 'none'} -> {versions[1] or 'none'}")
    return tuple(changes)
