"""Two documents of one command: what became better, worse, new, missing or slower, and whether anything is worse.

In: both documents, of any command that has verdicts. Out: new failures, verdicts that fell, what is no longer compared;
and apart from these changed contracts, bits of the reference that moved, times and figures of compiled programs. A
verdict that fell fails in the same environment only, and only under the same contract: a branch that declares less,
with its reason, is a decision for its review. A time never fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.changes.documents import document_rows
from samebits.report.changes.environments import EnvironmentChange, environment_changes
from samebits.report.changes.rows import PARTS, DocumentRows, ResultPlace, VerdictRow
from samebits.report.document import SCHEMA
from samebits.schema.result import Problem

Change = Literal["new failure", "fell", "no longer compared", "still fails", "fixed", "rose", "added"]

CHANGES: tuple[Change, ...] = ("new failure", "fell", "no longer compared", "still fails", "fixed", "rose", "added")
"""In the order of a report."""

FIGURE_RATIO = 1.01
"""By how much a figure of a compiled program must change."""


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
class ChangedResult(ResultPlace):
    """A result that is not as in the old document.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `ResultPlace`.
        change: what changed; `fell` and `rose` are verdicts that satisfy the contract on both sides.
        before, after: the verdicts; None where there is no result.
        ok: whether the new result suffices; False where there is none.
        declared: whether the contract or exemption of the result, or the reason of it, changed too.
        reason: of the new result.
        replay: the command that shows the new result, or the old one where there is no other.
    """

    change: Change
    before: str | None
    after: str | None
    ok: bool
    declared: bool = False
    reason: str | None = None
    replay: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedContract(ResultPlace):
    """A result of which another verdict is required, or for another reason.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `ResultPlace`.
        before, after: what is required, and why.
    """

    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedReference(ResultPlace):
    """A leaf for which the reference itself, or its inputs, have other bits; or a program or run that has.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `ResultPlace`.
        before, after: the digests.
    """

    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedFigure(ResultPlace):
    """A time that became longer, or a figure of a compiled program that changed.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `ResultPlace`.
        figure: `seconds`, or as in `Facts`.
        before, after: the values.
    """

    figure: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentHead:
    """Where one of the documents is from.

    Args:
        file: its path, as it was given.
        written: its time and commit; None where an older samebits wrote it.
    """

    file: str
    written: Written | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSummary:
    """The counts of a comparison of two documents.

    Args:
        compared: results that both documents have.
        changes: how many results changed in each way.
        moved: leaves whose reference moved.
        same_environment: whether a verdict that fell can fail.
        failed: changes that fail.
        contracts: results whose contract changed.
        slower: results, or their points, that became slower.
        figures: changed figures of compiled programs.
        seconds_before, seconds_after: the times of what both documents have, added up.
    """

    compared: int
    changes: dict[str, int]
    moved: int
    same_environment: bool
    failed: int
    contracts: int = 0
    slower: int = 0
    figures: int = 0
    seconds_before: float = 0.0
    seconds_after: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffDocument:
    """What changed from an old document to a new one, as it is written to JSON.

    Args:
        command: `report diff` in documents of samebits 0.2.
        compared: the command whose documents were compared.
        old, new: where they are from; None in documents of samebits 0.2.
        environment: of the new document; None where it has none.
        environments: where the environments differ.
        results: the results that changed, the gravest changes first.
        contracts: the results whose contracts changed.
        moved: where the reference moved.
        slower: what became slower, the largest difference first.
        figures: the figures of compiled programs that changed.
        problems: of the new document, and not of the old one.
        notes: what else limits the comparison.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["diff", "report diff"] = "diff"
    compared: str = "check"
    old: DocumentHead | None = None
    new: DocumentHead | None = None
    environment: Environment | None
    environments: tuple[EnvironmentChange, ...] = ()
    results: tuple[ChangedResult, ...]
    contracts: tuple[ChangedContract, ...] = ()
    moved: tuple[MovedReference, ...]
    slower: tuple[ChangedFigure, ...] = ()
    figures: tuple[ChangedFigure, ...] = ()
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: DiffSummary
    written: Written | None = None

    def fails(self, changed: ChangedResult) -> bool:
        """Whether a change is worse, and neither another environment nor the declaration explains it."""
        fell = changed.change == "fell" and self.summary.same_environment and not changed.declared
        return fell or changed.change == "new failure"


def compare_documents(
    old: Any, new: Any, *, files: tuple[str, str] = ("OLD", "NEW"), slower: Slower | None = None
) -> DiffDocument:
    """What changed from one document to another.

    Args:
        old, new: the documents.
        files: their names, for messages.
        slower: when a result is called slower.

    Raises:
        RequestError: they are of different commands, or of one without verdicts.
        CouldNotRun: they have no result in common, so that nothing is compared.
    """
    if old.command != new.command:
        raise RequestError(
            f"{files[0]} is a document of `samebits {old.command}` and {files[1]} one of `samebits {new.command}`; "
            "expected two of one command"
        )
    before, after = document_rows(old), document_rows(new)
    compared = len(before.verdicts.keys() & after.verdicts.keys())
    if not compared:
        raise CouldNotRun(
            f"nothing is compared: {files[0]} has {len(before.verdicts)} results, {files[1]} {len(after.verdicts)}, and "
            "they have none in common; were both made with the same pairs and filters?"
        )
    differences = environment_changes(environment_of(old), environment_of(new))
    known = {(problem.pair, problem.message) for problem in _problems(old)}
    document = DiffDocument(
        compared=new.command,
        old=DocumentHead(file=files[0], written=old.written),
        new=DocumentHead(file=files[1], written=new.written),
        environment=environment_of(new),
        environments=differences,
        results=_changes(before.verdicts, after.verdicts),
        contracts=_contracts(before.verdicts, after.verdicts),
        moved=_moved(before.bits, after.bits),
        slower=_slower(before.seconds, after.seconds, slower or Slower()),
        figures=_figures(before, after),
        problems=tuple(p for p in _problems(new) if (p.pair, p.message) not in known),
        notes=(*_limits(files[0], old), *_limits(files[1], new)),
        summary=DiffSummary(compared=compared, changes={}, moved=0, same_environment=not differences, failed=0),
    )
    return replace(document, summary=_summary(document, before.seconds, after.seconds))


def exit_code(document: DiffDocument) -> int:
    """1 where a change fails, else the exit code of a new problem, else 0."""
    if any(document.fails(result) for result in document.results):
        return 1
    codes = {problem.exit_code for problem in document.problems}
    return next((code for code in (1, 2, 3) if code in codes), 0)


def _summary(
    document: DiffDocument, before: Mapping[ResultPlace, float], after: Mapping[ResultPlace, float]
) -> DiffSummary:
    common = before.keys() & after.keys()
    return replace(
        document.summary,
        changes=dict(Counter(result.change for result in document.results)),
        moved=len(document.moved),
        failed=sum(document.fails(result) for result in document.results) + len(document.problems),
        contracts=len(document.contracts),
        slower=len(document.slower),
        figures=len(document.figures),
        seconds_before=round(sum(before[place] for place in common), 3),
        seconds_after=round(sum(after[place] for place in common), 3),
    )


def environment_of(document: Any) -> Environment | None:
    """Of a document; that of goldens has another type and the same values."""
    here = getattr(document, "environment", None)
    names = Environment.__dataclass_fields__
    return None if here is None else Environment(**{name: getattr(here, name) for name in names})


def _problems(document: Any) -> tuple[Problem, ...]:
    problems: tuple[Problem, ...] = getattr(document, "problems", ())
    return problems


def _limits(file: str, document: Any) -> Iterable[str]:
    """Why a document may lack results."""
    shard = getattr(document, "shard", None)
    if shard is not None:
        yield f"{file} is shard {shard}; `samebits merge` joins the shards"
    if getattr(document, "interrupted", False) or getattr(getattr(document, "summary", None), "interrupted", False):
        yield f"{file} is of a run that was interrupted"


def _parts(place: ResultPlace) -> dict[str, str]:
    return {name: getattr(place, name) for name in PARTS}


def _changes(
    before: Mapping[ResultPlace, VerdictRow], after: Mapping[ResultPlace, VerdictRow]
) -> tuple[ChangedResult, ...]:
    # A point that failed as a whole has the leaf `*`; its leaves are then not missing for another reason.
    whole = {replace(place, leaf="") for rows in (before, after) for place in rows if place.leaf == "*"}
    changes = []
    for place, row in after.items():
        change = _change(before.get(place), row, explained=replace(place, leaf="") in whole)
        if change is not None:
            changes.append(_changed(change, before.get(place), row))
    changes += [
        _changed("no longer compared", row, None)
        for place, row in before.items()
        if place not in after and replace(place, leaf="") not in whole and row.state != "skipped"
    ]
    return tuple(sorted(changes, key=lambda changed: CHANGES.index(changed.change)))


def _change(before: VerdictRow | None, after: VerdictRow, *, explained: bool) -> Change | None:
    if before is None:
        return "new failure" if after.state == "failed" else None if explained else "added"
    if after.state == "skipped":
        return None if before.state == "skipped" else "no longer compared"
    if after.state == "failed":
        return "still fails" if before.state == "failed" else "new failure"
    if before.state == "failed":
        return "fixed"
    if before.state == "skipped":
        return "added"
    return "fell" if after.rank > before.rank else "rose" if after.rank < before.rank else None


def _changed(change: Change, before: VerdictRow | None, after: VerdictRow | None) -> ChangedResult:
    row = after or before
    assert row is not None
    return ChangedResult(
        **_parts(row.place),
        change=change,
        before=None if before is None else before.verdict,
        after=None if after is None else after.verdict,
        ok=after is not None and after.state == "ok",
        declared=before is not None and after is not None and before.promise != after.promise,
        reason=None if after is None else after.reason,
        replay=row.replay,
    )


def _contracts(
    before: Mapping[ResultPlace, VerdictRow], after: Mapping[ResultPlace, VerdictRow]
) -> tuple[ChangedContract, ...]:
    return tuple(
        ChangedContract(**_parts(place), before=before[place].promise, after=row.promise)
        for place, row in after.items()
        # What is not decided says no reason of its contract.
        if place in before
        and "error" not in (before[place].verdict, row.verdict)
        and before[place].promise != row.promise
    )


def _moved(before: Mapping[ResultPlace, str], after: Mapping[ResultPlace, str]) -> tuple[MovedReference, ...]:
    return tuple(
        MovedReference(**_parts(place), before=before[place], after=bits)
        for place, bits in after.items()
        if place in before and before[place] != bits
    )


def _slower(
    before: Mapping[ResultPlace, float], after: Mapping[ResultPlace, float], slower: Slower
) -> tuple[ChangedFigure, ...]:
    longer = [
        ChangedFigure(**_parts(place), figure="seconds", before=before[place], after=seconds)
        for place, seconds in after.items()
        if place in before and slower.holds(before[place], seconds)
    ]
    return tuple(sorted(longer, key=lambda row: row.before - row.after))


def _figures(before: DocumentRows, after: DocumentRows) -> tuple[ChangedFigure, ...]:
    return tuple(
        ChangedFigure(**_parts(place), figure=name, before=before.figures[place, name], after=value)
        for (place, name), value in after.figures.items()
        if (place, name) in before.figures
        and max(value, before.figures[place, name]) > FIGURE_RATIO * min(value, before.figures[place, name])
    )
