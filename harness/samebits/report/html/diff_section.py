"""Two documents on a page: what is worse, what else changed, and where the environments differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from samebits.report.changes.diff_records import BETTER, NOT_BETTER, WORSE, DiffDocument
from samebits.report.changes.diff_text import diff_sentence, head_words, times_sentence
from samebits.report.changes.groups import (
    ChangeGroup,
    contract_groups,
    figure_rows,
    loss_groups,
    moved_groups,
    result_groups,
    slower_groups,
)
from samebits.report.html.section import Section, render
from samebits.report.words import State, plural

SIGNS: Mapping[str, str] = {
    "new failure": "✗",
    "worse failure": "✗",
    "fell": "↓",
    "no longer compared": "?",
    "still fails": "✗",
    "loss moved": "✗",
    "contract": "§",
    "other bits": "≠",
    "slower": "◷",
    "larger": "↑",
    "smaller": "↓",
    "fixed": "✓",
    "rose": "↑",
    "added": "+",
}
"""The sign of each kind of change: colour is never the only one."""

GROUPS = 300
"""Groups of a part that are shown; a page is for reading, and JSON has all."""


def diff_section(document: DiffDocument) -> Section:
    """The section of a comparison of two documents.

    Args:
        document: of `samebits diff`.
    """
    worse = [group for group in (*result_groups(document), *loss_groups(document)) if group.fails]
    return Section(
        title=f"diff of {document.compared}",
        command="diff",
        state=_state(document),
        headline=_headline(document, worse),
        next_command=next((group.replay for group in worse if group.replay), None),
        body=render(
            "diff.html.j2",
            document=document,
            closing=[line for line in (diff_sentence(document) if worse else None, times_sentence(document)) if line],
            heads=[(name, head_words(head)) for name, head in (("old", document.old), ("new", document.new)) if head],
            parts=[(title, groups[:GROUPS], len(groups)) for title, groups in _parts(document, worse) if groups],
            environments=[(row.name, row.before or "none", row.after or "none") for row in document.environments],
            moves=_moves(document),
            change_signs=SIGNS,
        ),
        scripts=("changes.js",),
        styles=("changes.css",),
    )


def _state(document: DiffDocument) -> State:
    if document.summary.failed:
        return "failed"
    return "incomplete" if document.notes or document.summary.still_fail else "passed"


def _headline(document: DiffDocument, worse: Sequence[ChangeGroup]) -> str:
    """What became worse, and where."""
    if not worse:
        return diff_sentence(document)
    results = sum(group.count for group in worse)
    more = f", and {plural(len(worse) - 1, 'more group')}" if len(worse) > 1 else ""
    first = worse[0]
    whose = ", ".join(part for part in (first.side, first.what) if part)
    where = f" ({first.where})" if first.where else ""
    are = "is" if results == 1 else "are"
    return f"{plural(results, 'result')} {are} worse: {whose}: {first.change}{where}{more}"


def _parts(document: DiffDocument, worse: list[ChangeGroup]) -> list[tuple[str, list[ChangeGroup]]]:
    rest = [group for group in result_groups(document, (*WORSE, *NOT_BETTER)) if not group.fails]
    return [
        ("Worse", worse),
        ("Lower, missing or still failing", rest),
        ("Losses", [group for group in loss_groups(document) if not group.fails]),
        ("Contracts", contract_groups(document)),
        ("Other bits of the reference, of a program or a run", moved_groups(document)),
        ("Slower", slower_groups(document)),
        ("Figures of compiled programs", figure_rows(document)),
        ("Better and new", result_groups(document, BETTER)),
    ]


def _moves(document: DiffDocument) -> list[tuple[str, str, int]]:
    """How often each verdict became which other one, the most frequent first."""
    pairs = Counter(
        (row.before, row.after) for row in document.results if row.before and row.after and row.before != row.after
    )
    return [(before, after, count) for (before, after), count in pairs.most_common()]
