"""Many documents through time on a page: a grid of verdicts, and what moved each result."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.report.changes.history import CommandHistory, HistoryDocument, HistoryRow
from samebits.report.changes.history_text import (
    HistoryGroup,
    changed_at,
    history_groups,
    history_sentence,
    move_words,
    point_words,
)
from samebits.report.html.render import SIGNS, render
from samebits.report.html.section import Section, State
from samebits.report.words import plural

GROUPS = 300
"""Groups of rows that are shown for one command."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One verdict of a row.

    Args:
        verdict: None where the document has no such result.
        sign: what is shown.
        failed: whether it fails.
        moved: whether it is another one than before.
    """

    verdict: str | None
    sign: str
    failed: bool
    moved: bool


def history_section(document: HistoryDocument) -> Section:
    """The section of a history.

    Args:
        document: of `samebits history`.
    """
    return Section(
        id="history",
        title=f"history of {document.folder}",
        command="history",
        state=_state(document),
        headline=_headline(document),
        next_command=None,
        body=render(
            "history.html.j2",
            document=document,
            closing=history_sentence(document),
            histories=[_values(history) for history in document.results],
        ),
        scripts=("changes.js",),
        styles=("changes.css",),
    )


def _state(document: HistoryDocument) -> State:
    """Failed where a newest document has results that fail."""
    if _failing_now(document):
        return "failed"
    return "incomplete" if document.skipped else "passed"


def _headline(document: HistoryDocument) -> str:
    """Which results became worse last, and by what."""
    now = _failing_now(document)
    worse = [group for history in document.results for group in history_groups(history) if group.first.moves[-1].worse]
    failed = [group for group in worse if group.first.moves[-1].at in group.first.failed]
    if not worse:
        fail = f"; {plural(now, 'result')} of the newest {'fails' if now == 1 else 'fail'}" if now else ""
        return history_sentence(document) + fail
    first = (failed or worse)[0]
    whose = ", ".join(part for part in (first.side, first.what) if part)
    others = len(failed or worse) - 1
    more = f", and {plural(others, 'more group')}" if others else ""
    what = "lower now, and its contract holds"
    if failed:
        what = "fails now" if now else "failed in the last document that has it"
    return f"{what}: {whose}: {move_words(first.first.moves[-1])}{more}"


def _failing_now(document: HistoryDocument) -> int:
    """How many results of the newest documents fail."""
    return sum(history.documents[-1].failed for history in document.results)


def _values(history: CommandHistory) -> dict[str, object]:
    groups = history_groups(history)
    return {
        "history": history,
        "count": len(groups),
        "points": [(point_words(point), changed_at(point), point) for point in history.documents],
        "groups": [(group, cells(group.first), _moves(group)) for group in groups[:GROUPS]],
    }


def _moves(group: HistoryGroup) -> list[str]:
    return [move_words(move) for move in group.first.moves]


def cells(row: HistoryRow) -> list[Cell]:
    """The verdicts of a row as they are shown, one per document."""
    moved = {move.at for move in row.moves}
    return [
        Cell(verdict, SIGNS.get(verdict or "", (verdict or "")[:3]), number in row.failed, number in moved)
        for number, verdict in enumerate(row.verdicts)
    ]
