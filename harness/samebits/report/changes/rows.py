"""What a document says about each result, in one form for all commands, so that documents can be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from samebits.audit.claims.row import Holds
from samebits.errors import RequestError
from samebits.report.train import measured_envelope
from samebits.report.words import typed
from samebits.schema.contract import COMPUTES, MOVES
from samebits.schema.finding import Finding, Place, Ruling
from samebits.schema.result import VERDICTS
from samebits.train.envelope import Envelope
from samebits.train.record import RunRecord

State = Literal["ok", "failed", "skipped"]


PARTS = tuple(part.name for part in fields(Place))


def place_of(record: object, **more: str) -> Place:
    """The place of a record that has some of the parts as attributes.

    Args:
        record: of any command.
        more: parts that it has under another name, or not at all.
    """
    parts = {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
    return Place(**{**parts, **more})


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRow:
    """One result.

    Args:
        place: of what.
        verdict: in the command's own words.
        rank: lower is better; two results that hold are compared by it.
        state: whether it holds, fails, or was not made.
        contract: what is required, in words; empty where the command has no contracts.
        why: the declared reason of the contract; a difference of either is a decision of a person.
        undeclared: no contract was declared, and what is required follows from what was proved.
        reason: why the verdict is not better.
        replay: the command that shows the result again.
    """

    place: Place
    verdict: str
    rank: int
    state: State
    contract: str = ""
    why: str = ""
    undeclared: bool = False
    reason: str | None = None
    replay: str = ""

    @property
    def promise(self) -> str:
        """What is required and why."""
        return f"{self.contract}: {self.why}" if self.why else self.contract

    def declared_otherwise(self, before: VerdictRow) -> bool:
        """Whether the declaration requires something else than before; a default follows what was proved.

        Args:
            before: the same result in an older document.
        """
        return self.promise != before.promise and not (self.undeclared and before.undeclared)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvelopedRun:
    """A training run of a document.

    Args:
        record: its steps.
        envelope: of the document, how far rounding alone moves losses; None where none was measured.
    """

    record: RunRecord
    envelope: Envelope | None


@dataclass(kw_only=True, slots=True)
class DocumentRows:
    """Everything of a document that is compared with another.

    Args:
        verdicts: every result by its place.
        bits: digests of what the reference gave, or of programs and runs.
        seconds: processor or wall time, as the document has it.
        figures: of compiled programs, by the name of the figure.
        runs: of training.
    """

    verdicts: dict[Place, VerdictRow] = field(default_factory=dict)
    bits: dict[Place, str] = field(default_factory=dict)
    seconds: dict[Place, float] = field(default_factory=dict)
    figures: dict[tuple[Place, str], float] = field(default_factory=dict)
    runs: dict[Place, EnvelopedRun] = field(default_factory=dict)

    def add(self, row: VerdictRow) -> None:
        """Add a result; of several at one place the last one counts."""
        self.verdicts[row.place] = row

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


def without(place: Place, *parts: str) -> Place:
    """The place without some of its parts."""
    return replace(place, **dict.fromkeys(parts, ""))


FIGURES = ("temp_bytes", "peak_bytes", "wire_bytes", "bytes_accessed", "flops")
"""Figures of a compiled program of which less is better, and that do not depend on the load of the machine."""

_GOLDEN = ("same", "inside")
_HOLDS: tuple[str, ...] = get_args(Holds)


def document_rows(document: Any) -> DocumentRows:
    """What a document says about each result.

    Args:
        document: the record of any command.

    Raises:
        RequestError: the documents of this command have no verdicts.
    """
    read = READERS.get(document.command)
    if read is None:
        raise RequestError(
            f"documents of `{typed(document.command)}` have no verdicts to compare; expected one of "
            f"{', '.join(typed(command).removeprefix('samebits ') for command in READERS)}"
        )
    rows = DocumentRows()
    read(document, rows)
    return rows


def _check(document: Any, rows: DocumentRows) -> None:
    for result in document.results:
        rows.add(_of_contract(result))
        rows.add_seconds(without(result.place, "leaf"), result.seconds)
        if result.comparison.bits is not None:
            # Variants and meshes share the reference's bits on one device.
            rows.bits.setdefault(without(result.place, "variant", "mesh", "mode"), result.comparison.bits)


def _prove(document: Any, rows: DocumentRows) -> None:
    for result in document.results:
        rows.add(_of_contract(result))
        rows.add_seconds(result.place, result.seconds)


def _of_contract(result: Finding) -> VerdictRow:
    """The row of a result that is held against a contract."""
    ruling = result.ruling
    known = " (a known difference)" if ruling.exempt else ""
    return VerdictRow(
        place=result.place,
        verdict=ruling.verdict,
        rank=VERDICTS.index(ruling.verdict),
        state="ok" if ruling.ok else "skipped" if ruling.verdict == "skipped" else "failed",
        contract=f"{ruling.required}{known}",
        # The reason of an error is what happened, and not part of the declaration.
        why=(ruling.verdict != "error" and ruling.reason) or "",
        undeclared=_undeclared(ruling),
        reason=_found(result),
        replay=result.replay,
    )


def _undeclared(ruling: Ruling) -> bool:
    """Whether no contract was declared; of an older document, whether the row is as if there were none."""
    if ruling.undeclared is not None or ruling.exempt:
        return bool(ruling.undeclared)
    return (ruling.required, ruling.reason) in [(usual.lowest, usual.reason) for usual in (MOVES, COMPUTES)]


def _found(result: Finding) -> str | None:
    """What was found, where the result does not suffice; else why the contract accepts it."""
    witness = result.proof.refutation or result.comparison.witness
    return result.ruling.reason if witness is None or result.ruling.verdict == "error" else str(witness)


def _prove_model(document: Any, rows: DocumentRows) -> None:
    for leaf in document.results:
        place = place_of(leaf, mode=leaf.shard_mode, pair=document.model, variant=_words(leaf.choice), item=_item(leaf))
        state = "ok" if leaf.verdict == "rounding" else "failed"
        rows.add(_row(place, leaf.verdict, VERDICTS.index(leaf.verdict), state, reason=leaf.reason or leaf.witness))
        rows.add_seconds(without(place, "leaf"), leaf.seconds)


def _item(leaf: Any) -> str:
    return f"{leaf.config} with {leaf.defect}" if leaf.defect else str(leaf.config)


_PROGRAMS = ("proved", "refused", "same program", "another program")


def _compile(document: Any, rows: DocumentRows) -> None:
    replays = {}
    for side in document.results:
        place = place_of(side, variant=side.side)
        replays[without(place, "mode")] = side.replay
        rows.bits[place] = side.program
        rows.add_figures(place, side, FIGURES)
        rows.add_seconds(place, None if side.cached else side.compile_seconds)
    for both in document.comparisons:
        place = place_of(both)
        verdict = both.verdict or ("same program" if both.same_program else "another program")
        rank = _PROGRAMS.index(verdict) if verdict in _PROGRAMS else len(_PROGRAMS)
        rows.add(_row(place, verdict, rank, "ok", reason=both.reason, replay=replays.get(place, "")))
        for claim in both.expectations:
            rows.add(
                VerdictRow(
                    place=place_of(both, leaf=claim.shows),
                    verdict="no figure" if claim.holds is None else "holds" if claim.holds else "does not hold",
                    rank=0 if claim.holds else 1,
                    state="ok" if claim.ok else "failed",
                    contract="a finding: does not hold" if claim.finding else "holds",
                    why=claim.finding or claim.source,
                    reason=claim.got,
                    replay=replays.get(place, ""),
                )
            )


def _compile_model(document: Any, rows: DocumentRows) -> None:
    for step in document.results:
        place = place_of(step, mode=step.shard_mode, variant=_words(step.choice), item=step.config)
        rows.add(_row(place, "compiled", 0, "ok"))
        rows.bits[place] = step.facts.program
        rows.add_figures(place, step.facts, FIGURES)
        rows.add_seconds(place, None if step.facts.cached else step.facts.compile_seconds)


def _tune(document: Any, rows: DocumentRows) -> None:
    for trial in document.trials:
        place = place_of(trial, variant=trial.side, leaf=f"{trial.argument}={trial.value}")
        verdict = "refused" if trial.refused else trial.verdict or "compiled"
        rank = VERDICTS.index(verdict) if verdict in VERDICTS else 0
        state = "failed" if trial.equal is False else "ok"
        rows.add(_row(place, verdict, rank, state, reason=trial.refused or trial.small or None))
        rows.add_figures(place, trial, FIGURES[:2])
    for best in document.best:
        place = place_of(best, variant=best.side, leaf=f"best {best.argument}")
        rows.add(_row(place, best.value or "none", 0, "ok", reason=best.reason))


def _train(document: Any, rows: DocumentRows) -> None:
    envelope = measured_envelope(document.envelope, document.results)
    for ran in document.results:
        place = Place(pair=document.matrix, item=ran.config)
        rows.runs[place] = EnvelopedRun(record=ran, envelope=envelope)
        rows.bits[place] = ran.bits
        rows.add_seconds(place, ran.compile_seconds + (ran.step_seconds or 0.0) * len(ran.steps))
        rows.add_figures(place, ran, ("temp_bytes",))
    for both in document.comparisons:
        place = Place(pair=document.matrix, item=f"{both.b} against {both.a}")
        rows.add(
            VerdictRow(
                place=place,
                verdict=both.verdict,
                rank=VERDICTS.index(both.verdict),
                state="ok" if both.ok else "failed",
                contract=both.expected,
                why=both.reason,
                reason=None
                if both.first_step is None
                else f"first differs in step {both.first_step}, {both.first_leaf}",
            )
        )


def _golden(document: Any, rows: DocumentRows) -> None:
    for golden in document.results:
        state = "ok" if golden.status in _GOLDEN else "failed"
        rank = (*_GOLDEN, golden.status).index(golden.status)
        rows.add(_row(Place(item=golden.name), golden.status, rank, state, reason=golden.message))


def _claims(document: Any, rows: DocumentRows) -> None:
    for claim in document.results:
        place = Place(pair=claim.subject, item=claim.id)
        row = VerdictRow(
            place=place,
            verdict=claim.holds,
            rank=_HOLDS.index(claim.holds),
            state="ok" if claim.ok else "failed",
            contract=claim.says,
            why="; ".join(claim.findings),
            reason=claim.witness,
            replay=next(iter(claim.commands), ""),
        )
        rows.add(row)


def _faults(document: Any, rows: DocumentRows) -> None:
    for fault in document.results:
        verdict = "no answer" if fault.error else "caught" if fault.caught else "not caught"
        if fault.caught and not fault.honest:
            verdict = "caught, and the honest form fails too"
        row = VerdictRow(
            place=Place(pair=fault.pair, variant=fault.side, item=fault.fault),
            verdict=verdict,
            rank=0 if fault.by != "snapshot" else 1,
            state="ok" if fault.caught and fault.honest and not fault.error else "failed",
            contract=fault.expected,
            reason=fault.error or fault.said,
        )
        rows.add(row)


def _bisect(document: Any, rows: DocumentRows) -> None:
    finding = document.finding
    causes = "; ".join(" + ".join(names) for names in finding.culprits)
    verdict = (causes or "cause found") if finding.found else "no cause"
    state = "failed" if finding.found else "ok"
    place = Place(item=f"{finding.what} {document.asked}".strip())
    rows.add(_row(place, verdict, 0, state, reason=finding.sentence, replay=finding.replay))
    rows.add_seconds(place, finding.seconds)


def _defaults(document: Any, rows: DocumentRows) -> None:
    disagree = document.results.disagreements
    sources = f"{document.first} and {document.second}"
    rows.add(_row(Place(item=sources), "disagree" if disagree else "agree", 0, "failed" if disagree else "ok"))
    for key in disagree:
        place = Place(item=sources, leaf=key.key)
        rows.add(_row(place, f"another {key.kind}", 0, "failed", reason=f"{key.first} and {key.second}"))


def _advise(document: Any, rows: DocumentRows) -> None:
    for advice in document.results:
        place = Place(pair=document.model, mesh=document.mesh, target=document.target, item=advice.axis)
        bound = advice.verdict == "compute-bound"
        needs = "" if advice.needed is None or math.isinf(advice.needed) else f", needs {advice.needed:g}"
        reason = f"intensity {advice.intensity:g}{needs}"
        rows.add(_row(place, advice.verdict, 0 if bound else 1, "ok" if bound else "failed", reason=reason))


def _row(
    place: Place, verdict: str, rank: int, state: Any, *, reason: str | None = None, replay: str = ""
) -> VerdictRow:
    """A row without a contract."""
    return VerdictRow(place=place, verdict=verdict, rank=rank, state=state, reason=reason, replay=replay)


def _words(choice: Mapping[str, str]) -> str:
    chosen: Iterable[str] = (f"{name}={variant}" for name, variant in choice.items())
    return " ".join(chosen)


READERS: Mapping[str, Callable[[Any, DocumentRows], None]] = {
    "check": _check,
    "prove": _prove,
    "prove model": _prove_model,
    "compile": _compile,
    "compile model": _compile_model,
    "tune": _tune,
    "train": _train,
    "golden check": _golden,
    "claims": _claims,
    "faults": _faults,
    "bisect": _bisect,
    "defaults": _defaults,
    "advise": _advise,
}
"""By the command of the document."""
