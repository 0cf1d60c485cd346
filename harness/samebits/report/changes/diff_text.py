"""Shows the comparison of two documents in a terminal, a pull request and continuous integration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console

from samebits.report.changes.diff_records import (
    BETTER,
    CHANGES,
    NOT_BETTER,
    WORSE,
    ChangedResult,
    DiffDocument,
    DocumentHead,
)
from samebits.report.changes.environments import environment_sentence
from samebits.report.changes.groups import (
    ChangeGroup,
    all_groups,
    contract_groups,
    figure_rows,
    kind_of,
    kind_of_loss,
    loss_groups,
    loss_size,
    moved_groups,
    result_groups,
    slower_groups,
)
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.markdown_fit import escaped, markdown_table
from samebits.report.outcomes import OutcomeRow, Outcomes, problem_rows
from samebits.report.tables import line
from samebits.report.words import plural

CAP = 10
"""Groups of each kind of what may be worse that are written out in a terminal; the rest is counted."""

FEW = 5
"""And of everything else."""


def diff_sentence(document: DiffDocument) -> str:
    """One sentence: how many results were compared, what changed, and what it comes to."""
    summary = document.summary
    counts = [f"{change} {summary.changes[change]}" for change in CHANGES if summary.changes.get(change)]
    if summary.losses:
        counts.append(f"loss moved in {plural(summary.losses, 'run')}")
    if summary.contracts:
        counts.append(f"contract changed {summary.contracts}")
    if summary.moved:
        counts.append(f"{_moved_what(document)} moved in {plural(summary.moved, 'place')}")
    if summary.slower:
        counts.append(f"slower {summary.slower}")
    if summary.figures:
        counts.append(plural(summary.figures, "changed figure"))
    if document.problems:
        counts.append(plural(len(document.problems), "new problem"))
    known = summary.still_fail - summary.changes.get("still fails", 0)
    if known > 0:
        counts.append(plural(known, "known problem"))
    state = f"{summary.failed} worse" if summary.failed else "nothing is worse"
    return f"{plural(summary.compared, 'result')} compared: {', '.join(counts) or 'no change'}; {state}"


def _moved_what(document: DiffDocument) -> str:
    programs = {"compile": "programs", "compile model": "programs", "train": "bits of a run"}
    return programs.get(document.compared, "the reference's bits")


def head_words(head: DocumentHead) -> str:
    """A document with its time and commit: `old.json (2026-01-31 23:59, commit 1234567890ab)`."""
    if head.written is None:
        return head.file
    return f"{head.file} ({when(head.written.time, head.written.commit, head.written.dirty)})"


def when(time: str, commit: str | None, dirty: bool) -> str:
    """A time and a commit in words.

    Args:
        time: as in `Written`.
        commit: its full hash, if any.
        dirty: whether the tree had other files.
    """
    at = "" if commit is None else f", commit {commit[:12]}{' with changes' if dirty else ''}"
    return f"{time[:16].replace('T', ' ')}{at}"


def head_lines(document: DiffDocument) -> list[str]:
    """What was compared, and where the environments differ."""
    lines = []
    if document.old is not None and document.new is not None:
        lines.append(f"{document.compared}: {head_words(document.old)} -> {head_words(document.new)}")
    if document.environments:
        lines.append(f"environment: {environment_sentence(document.environments)}")
    return [*lines, *document.notes]


def times_sentence(document: DiffDocument) -> str | None:
    """The times of all that both have; None where a document has none."""
    before, after = document.summary.seconds_before, document.summary.seconds_after
    if not before:
        return None
    return f"time of what both have: {before:.1f} s -> {after:.1f} s ({after / before:.2f}x)"


def show_diff(to: Console, document: DiffDocument) -> None:
    """The comparison in a terminal."""
    for text in head_lines(document):
        line(to, text, "dim")
    _show_groups(to, result_groups(document, (*WORSE, *NOT_BETTER)), details=True)
    _show_groups(to, loss_groups(document), details=True)
    for problem in document.problems:
        line(to, f"NEW PROBLEM  pair '{problem.pair}': {problem.message}", "bold red")
    parts: tuple[Callable[[DiffDocument], list[ChangeGroup]], ...] = (
        contract_groups, moved_groups, slower_groups, figure_rows,
    )  # fmt: skip
    for groups in parts:
        _show_groups(to, groups(document))
    _show_groups(to, result_groups(document, BETTER))
    times = times_sentence(document)
    if times is not None:
        line(to, times)
    colour = "red" if document.summary.failed else "yellow" if document.summary.still_fail else "green"
    line(to, diff_sentence(document), f"bold {colour}")


def _show_groups(to: Console, groups: Sequence[ChangeGroup], *, details: bool = False) -> None:
    shown: dict[str, int] = {}
    for group in groups:
        shown[group.kind] = shown.get(group.kind, 0) + 1
        if shown[group.kind] > (CAP if details else FEW):
            continue
        line(to, f"{group.kind.upper()}  {group_line(group)}", "bold red" if group.fails else "")
        for name, text in (("reason", group.reason), ("replay", group.replay)):
            if details and group.fails and text:
                line(to, f"  {name:<9} {text}")
    for kind, count in shown.items():
        left = count - (CAP if details else FEW)
        if left > 0:
            line(to, f"{kind.upper()}  {plural(left, 'more group')}; --html FILE and --json FILE write all of them")


def group_line(group: ChangeGroup) -> str:
    """A group on one line: whose, which output, what changed, and where."""
    whose = ", ".join(part for part in (group.side, group.what) if part)
    return f"{whose}: {group.change}" + (f"; {group.where}" if group.where else "")


def diff_outcomes(document: DiffDocument, lines: DeclarationLines) -> Outcomes:
    """The changes as continuous integration reads them; those that fail are failures."""
    rows = [
        OutcomeRow(
            pair=changed.pair or changed.item,
            variant=changed.variant,
            case=changed.case,
            name="-".join(_name_parts(changed)),
            status="failed" if document.fails(changed) else "passed",
            verdict=f"verdict {kind_of(document, changed)}" if changed.change == "fell" else changed.change,
            message=_message(changed),
            details=(_message(changed), *([f"  replay    {changed.replay}"] if changed.replay else [])),
        )
        for changed in document.results
        if changed.change != "no longer compared"
    ]
    rows += [
        OutcomeRow(
            pair=loss.pair,
            variant="",
            case="",
            name=loss.item,
            status="failed" if document.loss_fails(loss) else "passed",
            verdict=kind_of_loss(document, loss),
            message=f"{loss.before} before, {loss_size(loss)} now; {loss.reason}",
            details=(loss.reason,),
        )
        for loss in document.losses
    ]
    return Outcomes(command="diff", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _name_parts(changed: ChangedResult) -> Iterable[str]:
    names = ("case", "dtype", "mesh", "mode", "direction", "leaf", "target", "item")
    return [text for text in (getattr(changed, name) for name in names) if text]


def _message(changed: ChangedResult) -> str:
    reason = f"; {changed.reason}" if changed.reason else ""
    where = ", ".join(part for part in (changed.where(), changed.what()) if part)
    return f"{where}: {changed.before or 'not compared'} before, {changed.after} now{reason}"


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
