"""The history of documents for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console

from samebits.report.changes.diff_text import when
from samebits.report.changes.environments import environment_sentence
from samebits.report.changes.groups import conditions, outputs
from samebits.report.changes.history import CommandHistory, HistoryDocument, HistoryPoint, HistoryRow, Move
from samebits.report.markdown import escaped, markdown_table
from samebits.report.tables import line
from samebits.report.words import plural

CAP = 20
"""Groups of rows, and documents, that are written out for one command; the rest is counted."""

LINES = 60
"""Lines of the Markdown at most."""

DOCUMENTS = ("", "document", "results", "fail", "other bits", "what changed")
ROWS = ("side", "output", "where", "verdicts", "moved")


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryGroup:
    """Results of one side whose verdicts went the same way.

    Args:
        side, what, where: as in `ChangeGroup`.
        rows: the results.
    """

    side: str
    what: str
    where: str
    rows: tuple[HistoryRow, ...]

    @property
    def first(self) -> HistoryRow:
        """Which stands for all."""
        return self.rows[0]


def history_groups(history: CommandHistory) -> list[HistoryGroup]:
    """The rows of a history in groups: those that changed last first, then what became worse, then the larger ones."""
    groups: dict[tuple[object, ...], list[HistoryRow]] = {}
    for row in history.results:
        groups.setdefault((row.side(), row.direction, row.verdicts, row.failed), []).append(row)
    ordered = sorted(groups.values(), key=_gravity)
    return [
        HistoryGroup(side=rows[0].side(), what=outputs(rows), where=conditions(rows), rows=tuple(rows))
        for rows in ordered
    ]


def _gravity(rows: Sequence[HistoryRow]) -> tuple[int, bool, bool, int]:
    last = rows[0].moves[-1]
    fails = last.at in rows[0].failed
    return (-last.at, not last.worse, not fails, -len(rows))


def runs(row: HistoryRow) -> str:
    """The verdicts through time, equal ones counted: `proved 12, rounding 3`."""
    return ", ".join(f"{verdict or 'absent'} {len(list(same))}" for verdict, same in groupby(row.verdicts))


def move_words(move: Move) -> str:
    """What a result became, when, and what else changed there."""
    return f"{move.before} -> {move.after} at {moved_at(move)}"


def moved_at(move: Move) -> str:
    """When a result moved, and what else changed there."""
    why = ", ".join(move.because) or "nothing else that the documents record"
    since = "" if move.since == move.at - 1 else f" since document {move.since + 1}"
    return f"document {move.at + 1}{since}: {why}"


def point_words(point: HistoryPoint) -> str:
    """A document with its time and commit."""
    written = point.written
    return f"{point.file} ({when(written.time, written.commit, written.dirty)})"


def changed_at(point: HistoryPoint) -> str:
    """What changed at a document besides results."""
    parts = [environment_sentence(point.environments)]
    if point.commit and point.written.commit is not None:
        parts.append(f"commit {point.written.commit[:12]}")
    return ", ".join(part for part in parts if part)


def history_sentence(document: HistoryDocument) -> str:
    """One sentence: how many documents, how many results changed."""
    parts = [
        f"{plural(len(history.documents), 'document')} of {history.command} by {history.order}: "
        f"{plural(len(history.results), 'result')} changed, {history.unchanged} never"
        for history in document.results
    ]
    if document.skipped:
        parts.append(f"{plural(len(document.skipped), 'file')} skipped")
    return "; ".join(parts)


def show_history(to: Console, document: HistoryDocument) -> None:
    """The history in a terminal."""
    for history in document.results:
        if not history.results:
            continue
        line(to, f"{history.command}, by {history.order}", "bold")
        first = max(0, len(history.documents) - CAP)
        if first:
            line(to, f"  {plural(first, 'older document')} not listed")
        for number, point in enumerate(history.documents[first:], first + 1):
            changed = changed_at(point)
            counts = f"{plural(point.results, 'result')}, {point.failed} fail"
            bits = f", other bits in {plural(point.moved, 'place')}" if point.moved else ""
            line(to, f"  {number:>3}  {point_words(point)}: {counts}{bits}" + (f"; {changed}" if changed else ""))
        groups = history_groups(history)
        # What moved together has its reason once.
        for reasons, together in groupby(groups[:CAP], lambda group: [moved_at(move) for move in group.first.moves]):
            for group in together:
                whose = ", ".join(part for part in (group.side, group.what, group.where) if part)
                line(to, f"{whose}: {runs(group.first)}", "bold red" if group.first.moves[-1].worse else "")
            for reason in reasons:
                line(to, f"    moved at {reason}")
        if len(groups) > CAP:
            line(to, f"{len(groups) - CAP} more groups; --html FILE and --json FILE have all of them")
    for text in (*document.notes, *(f"skipped: {text}" for text in document.skipped)):
        line(to, text)
    line(to, history_sentence(document), "bold")


def history_markdown(document: HistoryDocument) -> str:
    """The history as Markdown, of at most 60 lines."""
    lines = ["### samebits history", "", escaped(history_sentence(document))]
    notes = [*document.notes, *(f"skipped: {text}" for text in document.skipped)]
    if notes:
        lines += ["", *(f"- {escaped(text)}" for text in notes[:3])]
        lines += [f"- {plural(len(notes) - 3, 'more line')}"] if len(notes) > 3 else []
    changed = [history for history in document.results if history.results]
    # Of what is left, each command has its share: two heads, two tables, and what each leaves out.
    share = (LINES - len(lines) - 2) // max(1, len(changed)) - 16
    for number, history in enumerate(changed):
        block = _history(history, max(2, share))
        if len(lines) + len(block) > LINES - 2:
            lines += ["", f"{plural(len(changed) - number, 'more command')}; `--html FILE` has all of them."]
            break
        lines += block
    return "\n".join(lines) + "\n"


def _history(history: CommandHistory, room: int) -> list[str]:
    groups = history_groups(history)
    few = min(len(groups), room - min(len(history.documents), room // 2))
    shown = groups[:few]
    lines = ["", f"#### {escaped(history.command)}, by {history.order}", ""]
    if shown:
        cells = [
            (group.side, group.what, group.where, runs(group.first), move_words(group.first.moves[-1]))
            for group in shown
        ]
        lines += markdown_table(ROWS, cells).split("\n")
        lines += _more(len(groups) - len(shown), "group")
        lines.append("")
    points = list(enumerate(history.documents, 1))[-(room - few) :]
    title = "All documents" if len(points) == len(history.documents) else f"The last {len(points)} documents"
    return [*lines, "<details>", f"<summary>{title}</summary>", "", *_documents(points), "", "</details>"]


def _documents(points: Iterable[tuple[int, HistoryPoint]]) -> Sequence[str]:
    cells = [
        (str(number), point_words(point), str(point.results), str(point.failed), str(point.moved), changed_at(point))
        for number, point in points
    ]
    return markdown_table(DOCUMENTS, cells).split("\n")


def _more(count: int, word: str) -> list[str]:
    return ["", f"{plural(count, f'more {word}')}; `--html FILE` and `--json FILE` have all of them."] if count else []
