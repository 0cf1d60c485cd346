"""The comparison of two documents for a pull request: at most 60 lines, what is not the worst folded."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.report.changes.diff_records import DiffDocument
from samebits.report.changes.diff_text import diff_sentence, head_lines, times_sentence
from samebits.report.changes.groups import ChangeGroup, all_groups
from samebits.report.markdown import escaped, markdown_table
from samebits.report.words import plural

LINES = 60
"""Lines of the whole text at most."""

WORST = 5
"""Groups of what is worse that are not folded."""

NOTES = 6
"""Lines about the documents and new problems at most; the rest is counted."""

COLUMNS = ("change", "side", "output", "where", "old -> new")


def diff_markdown(document: DiffDocument) -> str:
    """The comparison for a pull request."""
    groups = all_groups(document)
    worst = [group for group in groups if group.fails][:WORST]
    problems = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    lines = [
        f"### samebits diff: {_title(document)}",
        "",
        escaped(diff_sentence(document)),
        "",
        *_bullets([*head_lines(document), *filter(None, [times_sentence(document)]), *problems]),
    ]
    if worst:
        lines += ["", *_table(worst)]
        replay = next((group.replay for group in worst if group.replay), None)
        if replay is not None:
            lines += ["", "```", replay, "```"]
    rest = [group for group in groups if group not in worst]
    if rest:
        lines += ["", *_folded(rest, LINES - len(lines) - 1, whole=not worst)]
    return "\n".join(lines).strip("\n") + "\n"


def _title(document: DiffDocument) -> str:
    """What it comes to; `held` where the new document has no failure at all."""
    if document.summary.failed:
        return "worse"
    still = document.summary.still_fail
    return f"no worse; {still} still {'fails' if still == 1 else 'fail'}" if still else "held"


def _bullets(lines: Sequence[str]) -> list[str]:
    shown = [f"- {escaped(line)}" for line in lines[:NOTES]]
    return shown + ([f"- {plural(len(lines) - NOTES, 'more line')}"] if len(lines) > NOTES else [])


def _folded(groups: Sequence[ChangeGroup], lines: int, *, whole: bool) -> list[str]:
    """The groups in a fold of so many lines."""
    # The fold, its blank lines, the head of the table, and the line that counts what is left out.
    room = lines - 9
    shown = groups[:room]
    left = len(groups) - len(shown)
    title = f"All changes: {plural(len(groups), 'group')}" if whole else f"All other changes: {len(groups)} groups"
    more = ["", f"{plural(left, 'more group')}; `--html FILE` and `--json FILE` write all of them."] if left else []
    return ["<details>", f"<summary>{title}</summary>", "", *_table(shown), *more, "", "</details>"]


def _table(groups: Sequence[ChangeGroup]) -> list[str]:
    cells = [(group.kind, group.side, group.what, group.where, group.change) for group in groups]
    return markdown_table(COLUMNS, cells).split("\n")
