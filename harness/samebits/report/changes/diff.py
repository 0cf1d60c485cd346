"""Two documents of one command: what became better, worse, new, missing or slower, and whether anything is worse.

In: both documents, of any command that has verdicts. Out: new failures, failures with a lower verdict than before,
verdicts that fell, what is no longer compared, losses that moved further than rounding; and apart from these changed
contracts, bits of the reference that moved, times and figures of compiled programs. A verdict that fell fails in the
same environment only, and only under the same contract: a branch that declares less, with its reason, is a decision for
its review. A default contract, which follows what was proved, decides nothing. A time never fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from samebits.errors import CouldNotRun, RequestError
from samebits.report.changes.diff_document import DiffDocument
from samebits.report.changes.diff_records import (
    CHANGES,
    Change,
    ChangedContract,
    ChangedFigure,
    ChangedResult,
    DiffSummary,
    DocumentHead,
    MovedLoss,
    MovedReference,
    Slower,
)
from samebits.report.changes.environments import environment_changes
from samebits.report.changes.rows import DocumentRows, EnvelopedRun, document_rows
from samebits.report.findings import PARTS, declared_otherwise, promise, rank, what_was_found
from samebits.report.train import nearest
from samebits.report.words import typed
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem
from samebits.train.compare import Pairing, judge_beside, other_request
from samebits.train.distance import SCALARS
from samebits.train.record import StepRecord

FIGURE_RATIO = 1.01
"""By how much a figure of a compiled program must change."""


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
            f"{files[0]} is a document of `{typed(old.command)}` and {files[1]} one of `{typed(new.command)}`; "
            "expected two of one command"
        )
    before, after = document_rows(old), document_rows(new)
    compared = len(before.findings.keys() & after.findings.keys())
    if not compared:
        raise CouldNotRun(
            f"nothing is compared: {files[0]} has {len(before.findings)} results, {files[1]} {len(after.findings)}, "
            "and they have none in common; were both made with the same pairs and filters?"
        )
    here = getattr(new, "environment", None)
    differences = environment_changes(getattr(old, "environment", None), here)
    document = DiffDocument(
        compared=new.command,
        old=DocumentHead(file=files[0], written=old.written),
        new=DocumentHead(file=files[1], written=new.written),
        environment=here,
        environments=differences,
        results=_changes(before.findings, after.findings),
        contracts=_contracts(before.findings, after.findings),
        moved=_moved(before.bits, after.bits),
        losses=tuple(_moved_losses(before.runs, after.runs)),
        slower=_slower(before.seconds, after.seconds, slower or Slower()),
        figures=_figures(before, after),
        problems=_new_problems(old, new),
        notes=(*_limits(files[0], old), *_limits(files[1], new), *not_judged(before.runs, after.runs)),
        summary=DiffSummary(compared=compared, changes={}, moved=0, same_environment=not differences, failed=0),
    )
    known = len(_problems(new)) - len(document.problems)
    return replace(document, summary=_summary(document, before.seconds, after.seconds, known))


def _summary(
    document: DiffDocument, before: Mapping[Place, float], after: Mapping[Place, float], known: int
) -> DiffSummary:
    """The counts of a comparison whose documents have some problems in common."""
    common = before.keys() & after.keys()
    return replace(
        document.summary,
        changes=dict(Counter(result.change for result in document.results)),
        moved=len(document.moved),
        failed=sum(map(document.fails, document.results))
        + sum(map(document.loss_fails, document.losses))
        + len(document.problems),
        losses=len(document.losses),
        contracts=len(document.contracts),
        slower=len(document.slower),
        figures=len(document.figures),
        seconds_before=round(sum(before[place] for place in common), 3),
        seconds_after=round(sum(after[place] for place in common), 3),
        still_fail=sum(result.change == "still fails" for result in document.results) + known,
    )


def _problems(document: Any) -> tuple[Problem, ...]:
    problems: tuple[Problem, ...] = getattr(document, "problems", ())
    return problems


def _new_problems(old: Any, new: Any) -> tuple[Problem, ...]:
    """Those of the new document that the old one does not have."""
    known = {(problem.pair, problem.message) for problem in _problems(old)}
    return tuple(problem for problem in _problems(new) if (problem.pair, problem.message) not in known)


def _limits(file: str, document: Any) -> Iterable[str]:
    """Why a document may lack results."""
    shard = getattr(document, "shard", None)
    if shard is not None:
        yield f"{file} is shard {shard}; `samebits merge` joins the shards"
    if getattr(document, "interrupted", False) or getattr(getattr(document, "summary", None), "interrupted", False):
        yield f"{file} is of a run that was interrupted"


def _parts(place: Place) -> dict[str, str]:
    return {name: getattr(place, name) for name in PARTS}


def _changes(before: Mapping[Place, Finding], after: Mapping[Place, Finding]) -> tuple[ChangedResult, ...]:
    # A point that failed as a whole has the leaf `*`; its leaves are then not missing for another reason.
    whole = {place.whole for rows in (before, after) for place in rows if place.leaf == "*"}
    changes = []
    for place, row in after.items():
        change = _change(before.get(place), row, explained=place.whole in whole)
        if change is not None:
            changes.append(_changed(change, before.get(place), row))
    changes += [
        _changed("no longer compared", row, None)
        for place, row in before.items()
        if place not in after and place.whole not in whole and row.status != "skipped"
    ]
    return tuple(sorted(changes, key=lambda changed: CHANGES.index(changed.change)))


def _change(before: Finding | None, after: Finding, *, explained: bool) -> Change | None:
    if before is None:
        return "new failure" if after.failed else None if explained else "added"
    if after.status == "skipped":
        return None if before.status == "skipped" else "no longer compared"
    if after.failed:
        if before.failed:
            return "worse failure" if rank(after) > rank(before) else "still fails"
        return "new failure"
    if before.failed:
        return "fixed"
    if before.status == "skipped":
        return "added"
    return "fell" if rank(after) > rank(before) else "rose" if rank(after) < rank(before) else None


def _changed(change: Change, before: Finding | None, after: Finding | None) -> ChangedResult:
    row = after or before
    assert row is not None
    return ChangedResult(
        **_parts(row.place),
        change=change,
        before=None if before is None else before.ruling.verdict,
        after=None if after is None else after.ruling.verdict,
        ok=after is not None and after.ruling.ok,
        declared=before is not None and after is not None and declared_otherwise(after, before),
        reason=None if after is None else what_was_found(after),
        replay=row.replay,
    )


def _contracts(before: Mapping[Place, Finding], after: Mapping[Place, Finding]) -> tuple[ChangedContract, ...]:
    return tuple(
        ChangedContract(**_parts(place), before=promise(before[place]), after=promise(row))
        for place, row in after.items()
        # An undecided row does not carry the reason of its contract.
        if place in before
        and "error" not in (before[place].ruling.verdict, row.ruling.verdict)
        and declared_otherwise(row, before[place])
    )


def _moved(before: Mapping[Place, str], after: Mapping[Place, str]) -> tuple[MovedReference, ...]:
    return tuple(
        MovedReference(**_parts(place), before=before[place], after=bits)
        for place, bits in after.items()
        if place in before and before[place] != bits
    )


def _slower(before: Mapping[Place, float], after: Mapping[Place, float], slower: Slower) -> tuple[ChangedFigure, ...]:
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


def _moved_losses(before: Mapping[Place, EnvelopedRun], after: Mapping[Place, EnvelopedRun]) -> list[MovedLoss]:
    """The runs whose losses moved, those that moved further than rounding first."""
    both = [(place, before[place], run) for place, run in after.items() if place in before]
    moved = [loss for loss in (_moved_loss(*run) for run in both) if loss is not None]
    return sorted(moved, key=lambda loss: loss.verdict != "different")


def _moved_loss(place: Place, before: EnvelopedRun, after: EnvelopedRun) -> MovedLoss | None:
    """How far the loss of one run moved; None where it did not, or where the two runs cannot be judged."""
    if _why_not_judged(before, after) is not None or after.envelope is None:
        return None
    pairing = judge_beside(before.record, after.record, after.envelope, "the old document")
    if pairing.verdict != "different" and not pairing.max_ulp:
        return None
    old, new = _shown_step(before, after)
    return MovedLoss(
        **_parts(place),
        step=new.step,
        before=_text(old.loss, new.loss),
        after=_text(new.loss, old.loss),
        max_ulp=pairing.max_ulp,
        bound=pairing.envelope,
        verdict=pairing.verdict,
        reason=_reason(pairing),
    )


def _why_not_judged(before: EnvelopedRun, after: EnvelopedRun) -> str | None:
    """Why two runs with other bits cannot be judged; None where they can, or where their bits are equal."""
    if before.record.bits == after.record.bits:
        return None
    other = other_request(after.record, before.record)
    if other is not None:
        return other
    if after.envelope is None or len(after.envelope.loss) < len(after.record.steps):
        return "the new document has no envelope that says how far rounding alone moves it"
    return None


def not_judged(before: Mapping[Place, EnvelopedRun], after: Mapping[Place, EnvelopedRun]) -> Iterable[str]:
    """A line for each run of two documents whose losses are not compared."""
    for place, run in after.items():
        why = _why_not_judged(before[place], run) if place in before else None
        if why is not None:
            yield f"losses of run '{run.record.config}' are not compared: {why}"


def _shown_step(before: EnvelopedRun, after: EnvelopedRun) -> tuple[StepRecord, StepRecord]:
    """The last step whose loss moved, or else the last one, in both runs."""
    steps = list(zip(before.record.steps, after.record.steps, strict=True))
    return next((both for both in reversed(steps) if both[0].loss_hex != both[1].loss_hex), steps[-1])


def _text(loss: float, other: float) -> str:
    """A loss with as many digits as tell it from another."""
    short = f"{loss:.6g}"
    return short if short != f"{other:.6g}" else f"{loss:.9g}"


def _reason(pairing: Pairing) -> str:
    where = f"first at step {pairing.first_step}, {pairing.first_leaf}"
    if pairing.distance is None:
        return where
    if pairing.worst_leaf not in SCALARS:
        return f"{where}: {nearest(pairing).removeprefix(f'{pairing.first_leaf} ')}"
    return f"{where}: {pairing.distance:.0f} ulp, and rounding alone explains {pairing.bound:.0f}"
