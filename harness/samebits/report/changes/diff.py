"""Two documents of one command: what became better, worse, new, missing or slower, and whether anything is worse.

In: both documents, of any command that has verdicts. Out: new failures, failures with a lower verdict than before,
verdicts that fell, what is no longer compared, losses that moved further than rounding; and apart from these changed
contracts, bits of the reference that moved, times and figures of compiled programs. A verdict that fell fails in the
same environment only, and only under the same contract: a branch that declares less, with its reason, is a decision for
its review. A default contract, which follows what was proved, decides nothing. A time never fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.errors import CouldNotRun, RequestError
from samebits.report.changes.diff_document import (
    CHANGES,
    Change,
    Changed,
    DiffDocument,
    DiffSummary,
    DocumentHead,
    Slower,
    environment_changes,
)
from samebits.report.findings import (
    declared_otherwise,
    findings,
    place_of,
    promise,
    rank,
    what_was_found,
    words_of,
)
from samebits.report.train import measured_envelope, nearest
from samebits.report.words import typed
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem
from samebits.train.compare import Pairing, judge_beside, other_request
from samebits.train.distance import FAR, SCALARS
from samebits.train.envelope import Envelope
from samebits.train.record import RunRecord

FIGURE_RATIO = 1.01
"""By how much a figure of a compiled program must change."""

FIGURES = ("temp_bytes", "peak_bytes", "wire_bytes", "bytes_accessed", "flops")
"""Figures of a compiled program of which less is better, and that do not depend on the load of the machine."""


# --- what of a document is compared


@dataclass(kw_only=True, slots=True)
class DocumentRows:
    """Everything of a document that is compared with another.

    Args:
        findings: by their places; of several at one place the last one counts.
        bits: digests of what the reference gave, or of programs and runs.
        seconds: processor or wall time, as the document has it.
        figures: of compiled programs, by the name of the figure.
        runs: of training.
        envelope: how far rounding alone moves their losses; None where none was measured.
    """

    findings: dict[Place, Finding] = field(default_factory=dict)
    bits: dict[Place, str] = field(default_factory=dict)
    seconds: dict[Place, float] = field(default_factory=dict)
    figures: dict[tuple[Place, str], float] = field(default_factory=dict)
    runs: dict[Place, RunRecord] = field(default_factory=dict)
    envelope: Envelope | None = None

    def add_seconds(self, place: Place, seconds: float | None) -> None:
        """Add a time: the largest of those at one place, since leaves share the time of their point."""
        if seconds:
            self.seconds[place] = max(self.seconds.get(place, 0.0), seconds)

    def add_figures(self, place: Place, record: object, names: tuple[str, ...]) -> None:
        """Add the figures that a record has."""
        for name in names:
            value = getattr(record, name)
            if value is not None:
                self.figures[place, name] = float(value)


def document_rows(document: Any) -> DocumentRows:
    """Collect what a document says about each result."""
    rows = DocumentRows()
    for finding in findings(document):
        place = finding.place
        rows.findings[place] = finding
        rows.add_seconds(place if finding.tool == "prove" else place.whole, finding.seconds)
        if finding.comparison.bits is not None:
            # Variants and meshes share the reference's bits on one device.
            rows.bits.setdefault(replace(place, variant="", mesh="", mode=""), finding.comparison.bits)
    measured = _MEASURED.get(document.command)
    if measured is not None:
        measured(document, rows)
    return rows


def _compile(document: Any, rows: DocumentRows) -> None:
    for side in document.results:
        place = place_of(side, variant=side.side)
        rows.bits[place] = side.program
        rows.add_figures(place, side, FIGURES)
        rows.add_seconds(place, None if side.cached else side.compile_seconds)


def _compile_model(document: Any, rows: DocumentRows) -> None:
    for step in document.results:
        place = place_of(step, mode=step.shard_mode, variant=words_of(step.choice), item=step.config)
        rows.bits[place] = step.facts.program
        rows.add_figures(place, step.facts, FIGURES)
        rows.add_seconds(place, None if step.facts.cached else step.facts.compile_seconds)


def _tune(document: Any, rows: DocumentRows) -> None:
    for trial in document.trials:
        place = place_of(trial, variant=trial.side, leaf=f"{trial.argument}={trial.value}")
        rows.add_figures(place, trial, FIGURES[:2])


def _train(document: Any, rows: DocumentRows) -> None:
    rows.envelope = measured_envelope(document.envelope, document.results)
    for ran in document.results:
        place = Place(pair=document.matrix, item=ran.config)
        rows.runs[place] = ran
        rows.bits[place] = ran.bits
        rows.add_seconds(place, ran.compile_seconds + (ran.step_seconds or 0.0) * len(ran.steps))
        rows.add_figures(place, ran, ("temp_bytes",))


_MEASURED: Mapping[str, Callable[[Any, DocumentRows], None]] = {
    "compile": _compile,
    "compile model": _compile_model,
    "tune": _tune,
    "train": _train,
}
"""What stands beside the findings, by the command of the document."""


# --- what changed


def compare_documents(
    old: Any, new: Any, *, files: tuple[str, str] = ("OLD", "NEW"), slower: Slower | None = None
) -> DiffDocument:
    """Find what changed from one document to another."""
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
    changed = [
        *_results(before.findings, after.findings, same=not differences),
        *_losses(before, after, same=not differences),
        *_contracts(before.findings, after.findings),
        *_bits(before.bits, after.bits),
        *_figures(before.figures, after.figures),
        *_slower(before.seconds, after.seconds, slower or Slower()),
    ]
    order = [*CHANGES]
    results = tuple(sorted(changed, key=lambda row: (order.index(row.change), not row.fails)))
    known = {(problem.pair, problem.message) for problem in _problems(old)}
    problems = tuple(each for each in _problems(new) if (each.pair, each.message) not in known)
    common = before.seconds.keys() & after.seconds.keys()
    counts = Counter[str](row.change for row in results)
    return DiffDocument(
        compared=new.command,
        old=DocumentHead(file=files[0], written=old.written),
        new=DocumentHead(file=files[1], written=new.written),
        environment=here,
        environments=differences,
        results=results,
        problems=problems,
        notes=(*_limits(files[0], old), *_limits(files[1], new), *not_judged(before, after)),
        summary=DiffSummary(
            compared=compared,
            changes=dict(counts),
            same_environment=not differences,
            failed=sum(row.fails for row in results) + len(problems),
            seconds_before=round(sum(before.seconds[place] for place in common), 3),
            seconds_after=round(sum(after.seconds[place] for place in common), 3),
            still_fail=counts["still fails"] + len(_problems(new)) - len(problems),
        ),
    )


def _problems(document: Any) -> tuple[Problem, ...]:
    problems: tuple[Problem, ...] = getattr(document, "problems", ())
    return problems


def _limits(file: str, document: Any) -> Iterable[str]:
    """Say why a document may lack results."""
    shard = getattr(document, "shard", None)
    if shard is not None:
        yield f"{file} is shard {shard}; `samebits run merge` joins the shards"
    if getattr(document, "interrupted", False) or getattr(getattr(document, "summary", None), "interrupted", False):
        yield f"{file} is of a run that was interrupted"


def _results(before: Mapping[Place, Finding], after: Mapping[Place, Finding], *, same: bool) -> Iterator[Changed]:
    """Compare the verdicts; `same` says whether the environments are the same, in which a verdict may not fall."""
    # A point that failed as a whole has the leaf `*`; its leaves are then not missing for another reason.
    whole = {place.whole for rows in (before, after) for place in rows if place.leaf == "*"}
    for place, row in after.items():
        change = _change(before.get(place), row, explained=place.whole in whole)
        if change is not None:
            yield _changed(change, before.get(place), row, same=same)
    for place, row in before.items():
        if place not in after and place.whole not in whole and row.status != "skipped":
            yield _changed("no longer compared", row, None, same=same)


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


def _changed(change: Change, before: Finding | None, after: Finding | None, *, same: bool) -> Changed:
    row = after or before
    assert row is not None
    declared = before is not None and after is not None and declared_otherwise(after, before)
    excuse = "as declared" if declared else "" if same else "in another environment"
    return Changed(
        place=row.place,
        change=change,
        before=None if before is None else before.ruling.verdict,
        after=None if after is None else after.ruling.verdict,
        fails=change in ("new failure", "worse failure") or (change == "fell" and not excuse),
        excuse=excuse if change == "fell" else "",
        reason=None if after is None else what_was_found(after),
        replay=row.replay,
    )


def _contracts(before: Mapping[Place, Finding], after: Mapping[Place, Finding]) -> Iterator[Changed]:
    for place, row in after.items():
        # An undecided row does not carry the reason of its contract.
        decided = place in before and "error" not in (before[place].ruling.verdict, row.ruling.verdict)
        if decided and declared_otherwise(row, before[place]):
            yield Changed(place=place, change="contract", before=promise(before[place]), after=promise(row))


def _bits(before: Mapping[Place, str], after: Mapping[Place, str]) -> Iterator[Changed]:
    for place, bits in after.items():
        if place in before and before[place] != bits:
            yield Changed(place=place, change="other bits", before=before[place], after=bits)


def _slower(before: Mapping[Place, float], after: Mapping[Place, float], slower: Slower) -> list[Changed]:
    """Name what became slower, the largest difference first."""
    longer = sorted(
        ((before[place] - seconds, place) for place, seconds in after.items()
         if place in before and slower.holds(before[place], seconds)), key=lambda row: row[0]
    )  # fmt: skip
    return [
        Changed(place=place, change="slower", before=before[place], after=after[place], figure="seconds")
        for _, place in longer
    ]


def _figures(before: Mapping[tuple[Place, str], float], after: Mapping[tuple[Place, str], float]) -> list[Changed]:
    """Name the figures of compiled programs that changed, the largest growth first."""
    ratios = {
        key: value / before[key] if before[key] else float("inf")
        for key, value in after.items()
        if key in before and max(value, before[key]) > FIGURE_RATIO * min(value, before[key])
    }
    return [
        Changed(
            place=place,
            change="larger" if after[place, name] > before[place, name] else "smaller",
            before=before[place, name],
            after=after[place, name],
            figure=name,
        )
        for place, name in sorted(ratios, key=lambda key: -ratios[key])
    ]


def _losses(before: DocumentRows, after: DocumentRows, *, same: bool) -> Iterator[Changed]:
    """Judge the losses of both runs as `samebits train --beside` does; name those that moved."""
    for place, run in after.runs.items():
        earlier, envelope = before.runs.get(place), after.envelope
        if earlier is None or envelope is None or _why_not_judged(earlier, run, envelope) is not None:
            continue
        pairing = judge_beside(earlier, run, envelope, "the old document")
        beyond = pairing.verdict == "different"
        if not beyond and not pairing.max_ulp:
            continue
        # The last step whose loss moved, or else the last one.
        steps = list(zip(earlier.steps, run.steps, strict=True))
        old, new = next((both for both in reversed(steps) if both[0].loss_hex != both[1].loss_hex), steps[-1])
        far = f"up to {pairing.max_ulp} ulp" if pairing.max_ulp < FAR else "not finite"
        yield Changed(
            place=place,
            change="loss moved",
            before=_text(old.loss, new.loss),
            after=f"{_text(new.loss, old.loss)} at step {new.step} ({far})",
            fails=beyond and same,
            excuse="" if beyond and same else "in another environment" if beyond else "by rounding",
            reason=_reason(pairing),
        )


def _why_not_judged(before: RunRecord, after: RunRecord, envelope: Envelope | None) -> str | None:
    """Say why two runs with other bits cannot be judged; None where they can, or where their bits are equal."""
    if before.bits == after.bits:
        return None
    other = other_request(after, before)
    if other is not None:
        return other
    if envelope is None or len(envelope.loss) < len(after.steps):
        return "the new document has no envelope that says how far rounding alone moves it"
    return None


def not_judged(before: DocumentRows, after: DocumentRows) -> Iterable[str]:
    """Write a line for each run of two documents whose losses are not compared."""
    for place, run in after.runs.items():
        earlier = before.runs.get(place)
        why = None if earlier is None else _why_not_judged(earlier, run, after.envelope)
        if why is not None:
            yield f"losses of run '{run.config}' are not compared: {why}"


def _text(loss: float, other: float) -> str:
    """Write a loss with as many digits as tell it from another."""
    short = f"{loss:.6g}"
    return short if short != f"{other:.6g}" else f"{loss:.9g}"


def _reason(pairing: Pairing) -> str:
    where = f"first at step {pairing.first_step}, {pairing.first_leaf}"
    if pairing.distance is None:
        return where
    if pairing.worst_leaf not in SCALARS:
        return f"{where}: {nearest(pairing).removeprefix(f'{pairing.first_leaf} ')}"
    return f"{where}: {pairing.distance:.0f} ulp, and rounding alone explains {pairing.bound:.0f}"
