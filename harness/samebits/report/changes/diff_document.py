"""The document of `samebits diff`, its page, and what continuous integration reads of it.

Changes of one kind, side and direction are one group, so that one cause is one line and not forty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.continuous_integration import Outcomes, outcomes
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.page import (
    Badge,
    Block,
    CommandLine,
    Failing,
    Fold,
    Hypertext,
    Line,
    Lines,
    Medium,
    Page,
    Table,
    ValueList,
)
from samebits.report.words import State, plural, short_meshes
from samebits.schema.finding import Place
from samebits.schema.result import Problem, gravest


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentChange:
    """One difference.

    Args:
        name: of a package or setting, or of a field of the environment.
        before, after: the values as texts; None where there is none.
    """

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.name} {self.before or 'none'} -> {self.after or 'none'}"


def environment_changes(old: Environment | None, new: Environment | None) -> tuple[EnvironmentChange, ...]:
    """List what differs; neither the version of samebits counts nor a document without environment."""
    if old is None or new is None:
        return ()
    changes: list[EnvironmentChange] = []
    for name in (field.name for field in fields(Environment)):
        left, right = getattr(old, name), getattr(new, name)
        if isinstance(left, dict):
            keys = _compared(left, right) if name == "versions" else {**left, **right}
            changes += [_change(key, left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)]
        elif left != right:
            changes.append(_change(name.replace("_", " "), left, right))
    return tuple(changes)


def environment_sentence(changes: Iterable[EnvironmentChange]) -> str:
    """Return all differences in one line; empty without any."""
    return ", ".join(str(change) for change in changes)


def _compared(left: Mapping[str, str | None], right: Mapping[str, str | None]) -> list[str]:
    """Return the packages that both list: an older document does not say that a package was missing."""
    return [key for key in left if key in right and key != "samebits"]


def _change(name: str, before: object, after: object) -> EnvironmentChange:
    return EnvironmentChange(name=name, before=_text(before), after=_text(after))


def _text(value: object) -> str | None:
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or None
    return None if value in (None, "") else str(value)


Change = Literal[
    "new failure",
    "worse failure",
    "fell",
    "loss moved",
    "no longer compared",
    "still fails",
    "contract",
    "other bits",
    "larger",
    "smaller",
    "fixed",
    "rose",
    "added",
    "slower",
]

CHANGES: Mapping[Change, str] = {
    "new failure": "✗",
    "worse failure": "✗",
    "fell": "↓",
    "loss moved": "✗",
    "no longer compared": "?",
    "still fails": "✗",
    "contract": "§",
    "other bits": "≠",
    "larger": "↑",
    "smaller": "↓",
    "fixed": "✓",
    "rose": "↑",
    "added": "+",
    "slower": "◷",
}
"""Each kind of change with its sign, in the order of a report: colour is never the only difference."""

VERDICTS: tuple[Change, ...] = ("new failure", "worse failure", "fell", "still fails", "fixed", "rose", "added")
"""Changes of a verdict, of which continuous integration has a row each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slower:
    """When a result is called slower; both must hold.

    Args:
        ratio: new over old, at least.
        floor: seconds that it takes longer, at least.
    """

    ratio: float = 2.0
    floor: float = 1.0

    def holds(self, before: float, after: float) -> bool:
        """Whether the second time is slower than the first."""
        return after >= self.ratio * before and after - before >= self.floor


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """Something that is not as in the old document.

    Args:
        place: of what.
        change: what changed; `fell` and `rose` are verdicts that satisfy the contract on both sides, and a
            `worse failure` satisfies it on neither, with a lower verdict than before. `loss moved` is of a training
            run, `contract` what is required, `other bits` of the reference, a program or a run; `larger`, `smaller`
            and `slower` are figures.
        before, after: the verdict, requirement, digest, loss or figure; None where there is no result.
        fails: whether it makes the command fail.
        excuse: why it does not, where it is for the worse.
        figure: its name, as in `Facts`, or `seconds`.
        reason: of the new result; of a loss, where it moved first.
        replay: the command that shows the new result, or the old one where there is no other.
    """

    place: Place
    change: Change
    before: str | float | None
    after: str | float | None
    fails: bool = False
    excuse: str = ""
    figure: str = ""
    reason: str | None = None
    replay: str = ""

    @property
    def kind(self) -> str:
        """Return the change in words; one for the worse that does not fail says why."""
        return f"{self.change}, {self.excuse}" if self.excuse else self.change

    @property
    def what(self) -> str:
        """Return which output, or which figure of it."""
        name = "" if self.figure == "seconds" else self.figure.replace("_", " ").removesuffix(" bytes")
        return " ".join(part for part in (self.place.what(), name) if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentHead:
    """Where one of the documents is from.

    Args:
        file: its path, as it was given.
        written: its time and commit; None where an older samebits wrote it.
    """

    file: str
    written: Written | None = None

    def __str__(self) -> str:
        return self.file if self.written is None else f"{self.file} ({_when(self.written)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSummary:
    """The counts of a comparison of two documents.

    Args:
        compared: results that both documents have.
        changes: how many changes there are of each kind.
        same_environment: whether a verdict that fell can fail.
        failed: changes that fail.
        seconds_before, seconds_after: the times of what both documents have, added up.
        still_fail: failures and problems of the new document that the old one has too, and that are not worse.
    """

    compared: int
    changes: dict[str, int]
    same_environment: bool
    failed: int
    seconds_before: float = 0.0
    seconds_after: float = 0.0
    still_fail: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffDocument(CommandDocument):
    """What changed from an old document to a new one, as it is written to JSON.

    Args:
        compared: the command whose documents were compared.
        old, new: where they are from; None in documents of an older samebits.
        environment: of the new document; None where it has none.
        environments: where the environments differ.
        results: everything that changed, the gravest changes first.
        problems: of the new document, and not of the old one.
        notes: what else limits the comparison.
    """

    command: Literal["diff"] = "diff"
    compared: str = "check"
    old: DocumentHead | None = None
    new: DocumentHead | None = None
    environment: Environment | None
    environments: tuple[EnvironmentChange, ...] = ()
    results: tuple[Changed, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: DiffSummary

    @property
    def exit_code(self) -> int:
        """Return 1 where a change fails, else the exit code of a new problem, else 0."""
        return 1 if any(row.fails for row in self.results) else gravest(self.problems)

    def page(self) -> Page:
        """Return what is worse, then all other changes, one line for those of one kind, side and direction."""
        groups = grouped(self.results)
        worse = [group for group in groups if group.first.fails]
        rest = [group for group in groups if not group.first.fails]
        facts = ValueList(
            rows=[
                (self.compared, " -> ".join(str(head) for head in (self.old, self.new) if head is not None)),
                ("environment", environment_sentence(self.environments)),
                ("time of what both have", times_words(self)),
            ]
        )
        blocks: list[Block] = [facts, _problems(self)]
        if groups:
            blocks += [
                Hypertext(draw=_search),
                *_table("Worse", worse, ("html",)),  # elsewhere they are what fails
                *_changes("All other changes" if worse else "All changes", rest),
            ]
        return Page(
            command="diff",
            state=_state(self),
            word=_word(self),
            closing=diff_sentence(self),
            blocks=blocks,
            failing=[_failing(group) for group in worse],
            problems=self.problems,
            notes=self.notes,
            environment=self.environment,
            title=f"diff of {self.compared}",
            hint="--html FILE and --json FILE write all of them",
            scripts=("changes.js",),
            styles=("changes.css",),
        )


FEW = 5
"""Groups of each kind that a terminal writes out where not all fit on a screen."""

GROUPS = 300
"""Groups of a table at most: a page is for reading, and JSON has all."""

MEMBERS = 200
"""Results of a group that are listed."""


def _problems(document: DiffDocument) -> Lines:
    """Return the new problems, which a terminal has not shown yet."""
    said = [Line(f"new problem: {problem.pair}: {problem.message}", "bad") for problem in document.problems]
    lines = Lines(lines=said, media=("terminal",))
    more = Line(plural(len(said) - FEW, "more new problem"), "bad")
    return replace(lines, short=replace(lines, lines=[*said[:FEW], more])) if len(said) > FEW else lines


def _search() -> str:
    from samebits.report.html.sections import render

    return render("search.html.j2", words="pair, mesh, verdict, package")


def _state(document: DiffDocument) -> State:
    if document.summary.failed:
        return "failed"
    return "incomplete" if document.notes or document.summary.still_fail else "passed"


def _word(document: DiffDocument) -> str:
    """Return what it comes to; `held` where the new document has no failure at all."""
    if document.summary.failed:
        return "worse"
    still = document.summary.still_fail
    return f"no worse; {still} still {'fails' if still == 1 else 'fail'}" if still else "held"


def _failing(group: ChangeGroup) -> Failing:
    return Failing(
        title=f"{group.kind}: {group.whose}: {group.change}",
        where=group.where,
        example=group.first.reason or "",
        next_command=group.first.replay or None,
    )


def _changes(name: str, groups: Sequence[ChangeGroup]) -> list[Block]:
    """Return a table of changes; in a terminal lines, where not all fit the first ones of each kind, or counts."""
    kinds: dict[str, list[ChangeGroup]] = {}
    for group in groups:
        kinds.setdefault(group.kind, []).append(group)
    few = []
    for kind, own in kinds.items():
        few += [group.line for group in own[:FEW]]
        few += [f"{kind}  {plural(len(own) - FEW, 'more group')}"] if len(own) > FEW else []
    counts = [", ".join(f"{kind} {len(own)}" for kind, own in kinds.items())]
    title = f"{name}: {plural(len(groups), 'group')}"
    lines = Lines(lines=[group.line for group in groups], title=title, indent=2)
    short = replace(lines, lines=few, short=replace(lines, lines=counts))
    blocks = _table(name, groups, ("markdown", "html"))
    if groups:  # of a table in a terminal the columns would not fit
        blocks.append(replace(lines, short=short, media=("terminal",)))
    return blocks


def _table(name: str, groups: Sequence[ChangeGroup], media: tuple[Medium, ...]) -> list[Block]:
    more = f"{plural(len(groups) - GROUPS, 'more group')}; --json FILE has all of them."
    shown = groups[:GROUPS]
    table = Table(
        heads=("change", "side", "output", "old -> new", "where"),
        rows=[
            [
                Badge(text=group.kind, sign=CHANGES[group.first.change], tone="bad" if group.first.fails else ""),
                group.side,
                group.what,
                group.change,
                group.where,
            ]
            for group in shown
        ],
        title=f"{name}: {plural(len(groups), 'group')}",
        bad=[number for number, group in enumerate(shown) if group.first.fails],
        wide=("old -> new", "where"),
        details={
            number: _results(group)
            for number, group in enumerate(shown)
            if group.first.reason or group.first.replay or len(group.rows) > 1
        },
        media=media,
    )
    return [table, *([Lines(lines=[more], listed=False, media=media)] if len(groups) > GROUPS else [])]


def _results(group: ChangeGroup) -> Fold:
    first, members = group.first, group.members
    blocks: list[Block] = [Lines(lines=[first.reason], listed=False)] if first.reason else []
    blocks += [CommandLine(text=first.replay)] if first.replay else []
    more = len(members) - MEMBERS
    listed = [*members[:MEMBERS], *([f"{more} more; --json FILE has all of them"] if more > 0 else [])]
    return Fold(title=plural(len(group.rows), "result"), blocks=[*blocks, Lines(lines=listed)])


def diff_sentence(document: DiffDocument) -> str:
    """Say how many results were compared, what changed, and what it comes to."""
    summary = document.summary
    counts = [f"{change} {summary.changes[change]}" for change in CHANGES if summary.changes.get(change)]
    if document.problems:
        counts.append(plural(len(document.problems), "new problem"))
    known = summary.still_fail - summary.changes.get("still fails", 0)
    if known > 0:
        counts.append(plural(known, "known problem"))
    state = f"{summary.failed} worse" if summary.failed else "nothing is worse"
    return f"{plural(summary.compared, 'result')} compared: {', '.join(counts) or 'no change'}; {state}"


def _when(written: Written) -> str:
    """Write a time and a commit in words: `2026-01-31 23:59, commit 1234567890ab`."""
    dirty = " with changes" if written.dirty else ""
    commit = "" if written.commit is None else f", commit {written.commit[:12]}{dirty}"
    return f"{written.time[:16].replace('T', ' ')}{commit}"


def times_words(document: DiffDocument) -> str | None:
    """Return the times of all that both have; None where a document has none."""
    before, after = document.summary.seconds_before, document.summary.seconds_after
    if not before:
        return None
    return f"{before:.1f} s -> {after:.1f} s ({after / before:.2f}x)"


def diff_outcomes(document: DiffDocument, lines: DeclarationLines) -> Outcomes:
    """Return the changes as continuous integration reads them; those that fail are failures."""
    changes = [
        judged(
            "diff",
            row.place,
            f"verdict {row.kind}" if row.change == "fell" else row.kind,
            ok=not row.fails,
            evidence=_message(row),
            replay=row.replay,
        )
        for row in document.results
        if row.change in (*VERDICTS, "loss moved")
    ]
    return outcomes(document, lines, changes)


def _message(row: Changed) -> str:
    reason = f"; {row.reason}" if row.reason else ""
    where = ", ".join(part for part in (row.place.where(), row.what) if part)
    return f"{where}{': ' if where else ''}{row.before or 'not compared'} before, {row.after} now{reason}"


# --- changes as groups

NAMED = 3
"""Outputs or cases of a group that are named; more are counted."""

BYTES = ("temp_bytes", "peak_bytes", "wire_bytes", "bytes_accessed")


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Results that changed in one way.

    Args:
        rows: one at least.
    """

    rows: Sequence[Changed]

    @property
    def first(self) -> Changed:
        """Return the result that stands for the others."""
        return self.rows[0]

    @property
    def kind(self) -> str:
        """Return what changed."""
        return self.first.kind

    @property
    def side(self) -> str:
        """Return whose results they are."""
        return self.first.place.side()

    @property
    def what(self) -> str:
        """Return the outputs, named where they are few."""
        names = list(dict.fromkeys(row.what for row in self.rows))
        return ", ".join(filter(None, names)) if len(names) <= NAMED else plural(len(names), "output")

    @property
    def whose(self) -> str:
        """Return the side with the outputs."""
        return ", ".join(part for part in (self.side, self.what) if part)

    @property
    def where(self) -> str:
        """Return the conditions."""
        return conditions([row.place for row in self.rows])

    @property
    def change(self) -> str:
        """Return the numbers before and after: of times their sums, of bits the first."""
        first, count = self.first, len(self.rows)
        before, after = first.before, first.after
        if first.change == "other bits":
            more = f", and {count - 1} more" if count > 1 else ""
            return f"{str(before)[:8]} -> {str(after)[:8]}{more}"
        if isinstance(before, float) and isinstance(after, float):
            if first.change == "slower":
                before, after = (
                    sum(float(getattr(row, name) or 0) for row in self.rows) for name in ("before", "after")
                )
            ratio = f" ({after / before:.3g}x)" if before else ""
            return f"{amount(first.figure, before)} -> {amount(first.figure, after)}{ratio}"
        return f"{before or 'none'} -> {after or 'none'}"

    @property
    def line(self) -> str:
        """Return the group on one line: whose, which output, what changed, and where."""
        return f"{self.kind}  {self.whose}: {self.change}" + (f"; {self.where}" if self.where else "")

    @property
    def members(self) -> list[str]:
        """Return the results, one text each; none where it is one."""
        parts = [(row.place.where(), row.what) for row in self.rows] if len(self.rows) > 1 else []
        return [", ".join(part for part in both if part) for both in parts]


def grouped(results: Sequence[Changed]) -> list[ChangeGroup]:
    """Return the changes in groups, those that fail first, then in the order of kinds, large groups before small."""
    groups: dict[tuple[object, ...], list[Changed]] = {}
    for row in results:
        key: tuple[object, ...] = (row.kind, row.place.side())
        if row.change not in ("other bits", "slower"):  # digests and times of one side differ anyhow
            key = (*key, row.fails, "" if row.change == "contract" else row.place.direction, row.before, row.after)
        groups.setdefault(key, []).append(row)
    order, listed = [*CHANGES], [ChangeGroup(rows) for rows in groups.values()]
    return sorted(listed, key=lambda group: (not group.first.fails, order.index(group.first.change), _small(group)))


def _small(group: ChangeGroup) -> int:
    """Return the order among groups of one kind of verdict; figures, times and losses come in theirs."""
    return -len(group.rows) if group.first.change in (*VERDICTS, "no longer compared") else 0


def amount(figure: str, value: float) -> str:
    """Write a figure so that a person can read it."""
    if figure == "seconds":
        return f"{value:.1f} s"
    return f"{value / 1e6:,.1f} MB" if figure in BYTES else f"{value:.4g}"


def conditions(places: Sequence[Place]) -> str:
    """Write the conditions of a group: `6 results: 2 cases, bfloat16 float32, context2/4 expert4_fsdp2`."""
    if len(places) == 1:
        return places[0].where()
    cases = _distinct(place.case for place in places)
    case = f"{'case' if len(cases) == 1 else 'cases'} {' '.join(cases)}" if cases else ""
    parts = (
        case if len(cases) <= NAMED else plural(len(cases), "case"),
        " ".join(_distinct(place.dtype for place in places)),
        short_meshes(_distinct(place.mesh for place in places)),
        " ".join(_distinct(place.target for place in places)),
    )
    words = ", ".join(part for part in parts if part)
    return f"{len(places)} results: {words}" if words else f"{len(places)} results"


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]
