"""The document of `samebits diff`, its page, and what continuous integration reads of it.

Changes of one kind, side and direction are one group, so that one cause is one line and not forty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.changes.diff_records import (
    BETTER,
    CHANGES,
    NOT_BETTER,
    WORSE,
    ChangedContract,
    ChangedFigure,
    ChangedResult,
    DiffSummary,
    DocumentHead,
    MovedLoss,
    MovedReference,
)
from samebits.report.changes.environments import EnvironmentChange, environment_sentence
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import SCHEMA
from samebits.report.failing import Failing
from samebits.report.findings import PARTS, judged
from samebits.report.outcomes import Outcomes, outcomes
from samebits.report.page import (
    Badge,
    Block,
    CommandLine,
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
from samebits.train.distance import FAR


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffDocument:
    """What changed from an old document to a new one, as it is written to JSON.

    Args:
        command: `report diff` in documents of an older samebits.
        compared: the command whose documents were compared.
        old, new: where they are from; None in documents of an older samebits.
        environment: of the new document; None where it has none.
        environments: where the environments differ.
        results: the results that changed, the gravest changes first.
        contracts: the results whose contracts changed.
        moved: where the reference moved.
        losses: the training runs whose losses moved.
        slower: what became slower, the largest difference first.
        figures: the figures of compiled programs that changed.
        problems: of the new document, and not of the old one.
        notes: what else limits the comparison.
    """

    schema: Literal["samebits/2"] = SCHEMA
    command: Literal["diff", "report diff"] = "diff"
    compared: str = "check"
    old: DocumentHead | None = None
    new: DocumentHead | None = None
    environment: Environment | None
    environments: tuple[EnvironmentChange, ...] = ()
    results: tuple[ChangedResult, ...]
    contracts: tuple[ChangedContract, ...] = ()
    moved: tuple[MovedReference, ...]
    losses: tuple[MovedLoss, ...] = ()
    slower: tuple[ChangedFigure, ...] = ()
    figures: tuple[ChangedFigure, ...] = ()
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: DiffSummary
    written: Written | None = None

    @property
    def exit_code(self) -> int:
        """1 where a change fails, else the exit code of a new problem, else 0."""
        failed = any(map(self.fails, self.results)) or any(map(self.loss_fails, self.losses))
        return 1 if failed else gravest(self.problems)

    def page(self) -> Page:
        """Return what is shown."""
        return diff_page(self)

    def fails(self, changed: ChangedResult) -> bool:
        """Whether a change is worse, and neither another environment nor the declaration explains it."""
        fell = changed.change == "fell" and self.summary.same_environment and not changed.declared
        return fell or changed.change in ("new failure", "worse failure")

    def loss_fails(self, loss: MovedLoss) -> bool:
        """Whether a loss moved further than rounding moves it, in the same environment."""
        return loss.verdict == "different" and self.summary.same_environment


FEW = 5
"""Groups of each kind that a terminal writes out where not all fit on a screen."""

GROUPS = 300
"""Groups of a table at most: a page is for reading, and JSON has all."""

MEMBERS = 200
"""Results of a group that are listed."""

_SIGNS: Mapping[str, str] = {
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


def diff_page(document: DiffDocument) -> Page:
    """Return what is worse, then all other changes, one line for those of one kind, side and direction."""
    groups = all_groups(document)
    worse = [group for group in groups if group.fails]
    rest = [group for group in groups if not group.fails]
    both = document.old, document.new
    facts = ValueList(
        rows=[
            (document.compared, " -> ".join(head_words(head) for head in both if head is not None)),
            ("environment", environment_sentence(document.environments)),
            ("time of what both have", times_words(document)),
        ]
    )
    blocks: list[Block] = [facts, _problems(document), _moves(document)]
    if groups:
        blocks += [
            Hypertext(draw=_search),
            *_table("Worse", worse, ("html",)),  # elsewhere they are what fails
            *_changes("All other changes" if worse else "All changes", rest),
        ]
    return Page(
        command="diff",
        state=_state(document),
        word=_word(document),
        closing=diff_sentence(document),
        headline=_headline(worse) if worse else "",
        blocks=blocks,
        failing=[_failing(group) for group in worse],
        problems=document.problems,
        notes=document.notes,
        environment=document.environment,
        title=f"diff of {document.compared}",
        hint="--html FILE and --json FILE write all of them",
        scripts=("changes.js",),
        styles=("changes.css",),
    )


def _problems(document: DiffDocument) -> Lines:
    """Return the new problems, which a terminal has not shown yet."""
    said = [Line(f"new problem: {problem.pair}: {problem.message}", "bad") for problem in document.problems]
    lines = Lines(lines=said, media=("terminal",))
    more = Line(plural(len(said) - FEW, "more new problem"), "bad")
    return replace(lines, short=replace(lines, lines=[*said[:FEW], more])) if len(said) > FEW else lines


def _search() -> str:
    from samebits.report.html.section import render

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


def _headline(worse: Sequence[ChangeGroup]) -> str:
    """Say what became worse, and where."""
    results = sum(group.count for group in worse)
    more = f", and {plural(len(worse) - 1, 'more group')}" if len(worse) > 1 else ""
    first = worse[0]
    where = f" ({first.where})" if first.where else ""
    are = "is" if results == 1 else "are"
    return f"{plural(results, 'result')} {are} worse: {_whose(first)}: {first.change}{where}{more}"


def _whose(group: ChangeGroup) -> str:
    return ", ".join(part for part in (group.side, group.what) if part)


def _failing(group: ChangeGroup) -> Failing:
    return Failing(
        title=f"{group.kind}: {_whose(group)}: {group.change}",
        where=group.where,
        example=group.reason or "",
        next_command=group.replay or None,
    )


def _moves(document: DiffDocument) -> Table:
    """Return how often each verdict became which other one, the most frequent first."""
    pairs = Counter(
        (row.before, row.after) for row in document.results if row.before and row.after and row.before != row.after
    )
    return Table(
        heads=("old", "new", "results"),
        rows=[[before, after, str(count)] for (before, after), count in pairs.most_common()],
        caption="Verdicts that changed",
        right=("results",),
        media=("html",),  # the lines of the changes have them too
    )


def _changes(name: str, groups: Sequence[ChangeGroup]) -> list[Block]:
    """Return a table of changes; in a terminal lines, where not all fit the first ones of each kind, or counts."""
    kinds: dict[str, list[ChangeGroup]] = {}
    for group in groups:
        kinds.setdefault(group.kind, []).append(group)
    few = [line for kind, own in kinds.items() for line in _few(kind, own)]
    counts = [", ".join(f"{kind} {len(own)}" for kind, own in kinds.items())]
    lines = Lines(lines=[_line(group) for group in groups], title=f"{name}: {plural(len(groups), 'group')}", indent=2)
    short = replace(lines, lines=few, short=replace(lines, lines=counts))
    blocks = _table(name, groups, ("markdown", "html"))
    if groups:  # of a table in a terminal the columns would not fit
        blocks.append(replace(lines, short=short, media=("terminal",)))
    return blocks


def _few(kind: str, groups: Sequence[ChangeGroup]) -> list[str]:
    more = [f"{kind}  {plural(len(groups) - FEW, 'more group')}"] if len(groups) > FEW else []
    return [*(_line(group) for group in groups[:FEW]), *more]


def _line(group: ChangeGroup) -> str:
    """Return a group on one line: whose, which output, what changed, and where."""
    return f"{group.kind}  {_whose(group)}: {group.change}" + (f"; {group.where}" if group.where else "")


def _table(name: str, groups: Sequence[ChangeGroup], media: tuple[Medium, ...]) -> list[Block]:
    more = f"{plural(len(groups) - GROUPS, 'more group')}; --json FILE has all of them."
    table = Table(
        heads=("change", "side", "output", "old -> new", "where"),
        rows=[
            [
                Badge(text=group.kind, sign=_SIGNS[group.kind.split(",")[0]], tone="bad" if group.fails else ""),
                group.side,
                group.what,
                group.change,
                group.where,
            ]
            for group in groups[:GROUPS]
        ],
        title=f"{name}: {plural(len(groups), 'group')}",
        bad=[number for number, group in enumerate(groups[:GROUPS]) if group.fails],
        wide=("old -> new", "where"),
        details={
            number: _results(group)
            for number, group in enumerate(groups[:GROUPS])
            if group.reason or group.replay or group.members
        },
        media=media,
    )
    return [table, *([Lines(lines=[more], listed=False, media=media)] if len(groups) > GROUPS else [])]


def _results(group: ChangeGroup) -> Fold:
    blocks: list[Block] = [Lines(lines=[group.reason], listed=False)] if group.reason else []
    blocks += [CommandLine(text=group.replay)] if group.replay else []
    more = len(group.members) - MEMBERS
    listed = [*group.members[:MEMBERS], *([f"{more} more; --json FILE has all of them"] if more > 0 else [])]
    return Fold(title=plural(group.count, "result"), blocks=[*blocks, Lines(lines=listed)])


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
            Place(**{name: getattr(changed, name) for name in PARTS}),
            f"verdict {kind_of(document, changed)}" if changed.change == "fell" else changed.change,
            ok=not document.fails(changed),
            evidence=_message(changed),
            replay=changed.replay,
        )
        for changed in document.results
        if changed.change != "no longer compared"
    ]
    for loss in document.losses:
        words = f"{loss.before} before, {loss_size(loss)} now; {loss.reason}"
        place, holds = Place(pair=loss.pair, item=loss.item), not document.loss_fails(loss)
        changes.append(judged("diff", place, kind_of_loss(document, loss), ok=holds, evidence=words))
    return outcomes(document, lines, changes)


def _message(changed: ChangedResult) -> str:
    reason = f"; {changed.reason}" if changed.reason else ""
    where = ", ".join(part for part in (changed.where(), changed.what()) if part)
    return f"{where}: {changed.before or 'not compared'} before, {changed.after} now{reason}"


# --- changes as groups

P = TypeVar("P", bound=Place)

NAMED = 3
"""Outputs or cases of a group that are named; more are counted."""

BYTES = ("temp_bytes", "peak_bytes", "wire_bytes", "bytes_accessed")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeGroup:
    """What changed in one way.

    Args:
        kind: such as `new failure`, `contract` or `slower`.
        fails: whether it makes the command fail.
        side: whose results.
        what: which outputs.
        where: under which conditions.
        before, after: what was found, or what is required, in words.
        count: how many results.
        members: every result of several, in words.
        reason: of the first.
        replay: of the first; empty where there is none.
    """

    kind: str
    fails: bool
    side: str
    what: str
    where: str
    before: str
    after: str
    count: int
    members: tuple[str, ...] = ()
    reason: str | None = None
    replay: str = ""

    @property
    def change(self) -> str:
        """From what to what."""
        return f"{self.before} -> {self.after}"


def all_groups(document: DiffDocument) -> list[ChangeGroup]:
    """Every change of a comparison, the gravest first."""
    return [
        *result_groups(document, WORSE),
        *loss_groups(document),
        *result_groups(document, NOT_BETTER),
        *contract_groups(document),
        *moved_groups(document),
        *figure_rows(document),
        *result_groups(document, BETTER),
        *slower_groups(document),
    ]


def result_groups(document: DiffDocument, changes: Sequence[str] = CHANGES) -> list[ChangeGroup]:
    """The results that changed in some ways; those that fail first, then large groups before small ones.

    Args:
        document: the comparison.
        changes: the ways.
    """
    groups: dict[tuple[str, ...], list[ChangedResult]] = {}
    for row in document.results:
        if row.change in changes:
            key = (kind_of(document, row), row.side(), row.direction, row.before or "", row.after or "")
            groups.setdefault(key, []).append(row)
    listed = [_of_results(document, rows) for rows in groups.values()]
    order: list[str] = [*CHANGES]
    return sorted(listed, key=lambda group: (not group.fails, order.index(_change(group.kind)), -group.count))


def kind_of(document: DiffDocument, row: ChangedResult) -> str:
    """The change in words; a verdict that fell without failing says why it does not."""
    if row.change != "fell" or document.fails(row):
        return row.change
    return "fell, as declared" if row.declared else "fell, in another environment"


def _change(kind: str) -> str:
    return kind.split(",")[0]


def _of_results(document: DiffDocument, rows: Sequence[ChangedResult]) -> ChangeGroup:
    first = rows[0]
    return ChangeGroup(
        kind=kind_of(document, first),
        fails=document.fails(first),
        side=first.side(),
        what=outputs(rows),
        where=conditions(rows),
        before=first.before or "none",
        after=first.after or "none",
        count=len(rows),
        members=members(rows),
        reason=first.reason,
        replay=first.replay,
    )


def loss_groups(document: DiffDocument) -> list[ChangeGroup]:
    """The training runs whose losses moved, each on its own."""
    return [
        ChangeGroup(
            kind=kind_of_loss(document, loss), fails=document.loss_fails(loss), side=loss.side(), what="", where="",
            before=loss.before, after=loss_size(loss), count=1, reason=loss.reason,
        )
        for loss in document.losses
    ]  # fmt: skip


def kind_of_loss(document: DiffDocument, loss: MovedLoss) -> str:
    """That a loss moved, and why that does not fail where it does not."""
    if document.loss_fails(loss):
        return "loss moved"
    return "loss moved, in another environment" if loss.verdict == "different" else "loss moved, by rounding"


def loss_size(loss: MovedLoss) -> str:
    """What a loss became, at which step, and how far it moved."""
    far = f"up to {loss.max_ulp} ulp" if loss.max_ulp < FAR else "not finite"
    return f"{loss.after} at step {loss.step} ({far})"


def contract_groups(document: DiffDocument) -> list[ChangeGroup]:
    """The contracts that changed."""
    return _plain("contract", document.contracts, [(row.before, row.after) for row in document.contracts])


def moved_groups(document: DiffDocument) -> list[ChangeGroup]:
    """Where the reference moved: by pair, since the digests of all leaves differ anyhow."""
    words = [_digests(row.before, row.after) for row in document.moved]
    groups = _plain("other bits", document.moved, [("", "")] * len(words))
    first = {row.side(): pair for row, pair in zip(reversed(document.moved), reversed(words), strict=True)}
    return [
        replace(group, before=first[group.side][0], after=_and_more(first[group.side][1], group.count))
        for group in groups
    ]


def _and_more(digest: str, count: int) -> str:
    return digest if count == 1 else f"{digest}, and {count - 1} more"


def _digests(before: str, after: str) -> tuple[str, str]:
    return before[:8], after[:8]


def slower_groups(document: DiffDocument) -> list[ChangeGroup]:
    """What became slower, the times of one side added up, the largest difference first."""
    sides: dict[str, list[ChangedFigure]] = {}
    for row in document.slower:
        sides.setdefault(row.side(), []).append(row)
    groups = []
    for rows in sides.values():
        total = replace(rows[0], before=sum(row.before for row in rows), after=sum(row.after for row in rows))
        group = _of_figure("slower", total)
        what = outputs(rows)
        groups.append(replace(group, what=what, where=conditions(rows), count=len(rows), members=members(rows)))
    longest = {group.side: sum(row.before - row.after for row in sides[group.side]) for group in groups}
    return sorted(groups, key=lambda group: longest[group.side])


def figure_rows(document: DiffDocument) -> list[ChangeGroup]:
    """The figures of compiled programs, what became larger first."""
    rows = sorted(document.figures, key=lambda row: row.before / row.after if row.after else float("inf"))
    return [_of_figure("larger" if row.after > row.before else "smaller", row) for row in rows]


def _of_figure(kind: str, row: ChangedFigure) -> ChangeGroup:
    name = "" if row.figure == "seconds" else row.figure.replace("_", " ").removesuffix(" bytes")
    ratio = f" ({row.after / row.before:.3g}x)" if row.before else ""
    return ChangeGroup(
        kind=kind,
        fails=False,
        side=row.side(),
        what=" ".join(part for part in (row.what(), name) if part),
        where=row.where(),
        before=amount(row.figure, row.before),
        after=amount(row.figure, row.after) + ratio,
        count=1,
    )


def amount(figure: str, value: float) -> str:
    """A figure that a person can read.

    Args:
        figure: its name.
        value: in seconds, bytes or operations.
    """
    if figure == "seconds":
        return f"{value:.1f} s"
    return f"{value / 1e6:,.1f} MB" if figure in BYTES else f"{value:.4g}"


def _plain(kind: str, places: Sequence[P], words: Sequence[tuple[str, str]]) -> list[ChangeGroup]:
    groups: dict[tuple[str, ...], list[P]] = {}
    for place, (before, after) in zip(places, words, strict=True):
        groups.setdefault((place.side(), before, after), []).append(place)
    return [
        ChangeGroup(
            kind=kind, fails=False, side=side, what=outputs(rows), where=conditions(rows), before=before, after=after,
            count=len(rows), members=members(rows),
        )
        for (side, before, after), rows in groups.items()
    ]  # fmt: skip


def members(rows: Sequence[Place]) -> tuple[str, ...]:
    """The results of a group, one text each; none where it is one result."""
    if len(rows) == 1:
        return ()
    return tuple(", ".join(part for part in (row.where(), row.what()) if part) for row in rows)


def outputs(rows: Sequence[Place]) -> str:
    """The outputs of a group, named where they are few."""
    names = list(dict.fromkeys(row.what() for row in rows))
    return ", ".join(filter(None, names)) if len(names) <= NAMED else plural(len(names), "output")


def conditions(rows: Sequence[Place]) -> str:
    """The conditions of a group: `6 results: 2 cases, bfloat16 float32, context2/4 expert4_fsdp2`."""
    if len(rows) == 1:
        return rows[0].where()
    cases = _distinct(row.case for row in rows)
    case = f"{'case' if len(cases) == 1 else 'cases'} {' '.join(cases)}" if cases else ""
    parts = (
        case if len(cases) <= NAMED else plural(len(cases), "case"),
        " ".join(_distinct(row.dtype for row in rows)),
        short_meshes(_distinct(row.mesh for row in rows)),
        " ".join(_distinct(row.target for row in rows)),
    )
    words = ", ".join(part for part in parts if part)
    return f"{len(rows)} results: {words}" if words else f"{len(rows)} results"


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]
