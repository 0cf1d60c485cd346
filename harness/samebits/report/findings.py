"""Reads the findings of a document of any command, which comparisons, JUnit and annotations read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, get_args

from samebits.errors import RequestError
from samebits.report.words import typed
from samebits.schema.contract import COMPUTES, MOVES
from samebits.schema.document_claim import Holds
from samebits.schema.finding import Finding, Place, Ruling
from samebits.schema.result import VERDICTS, Problem

PARTS = tuple(part.name for part in fields(Place))

_ORDERS: tuple[Iterable[str], ...] = (
    VERDICTS,
    ("compiled",),
    ("proved", "bitwise", "refused", "same program", "another program"),
    ("same", "inside"),
    get_args(Holds),
    ("caught", "caught by its snapshot"),
    ("compute-bound",),
)
"""Words of each command, the best first; what is in none of them comes last."""

_RANKS = {word: rank for order in _ORDERS for rank, word in enumerate(order)}


def findings(document: Any) -> list[Finding]:
    """Return what a document says about each thing that its command judged.

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
    return [*read(document)]


def problem_findings(problems: Iterable[Problem]) -> list[Finding]:
    """Return what could not be judged at all."""
    listed: list[Finding] = []
    for problem in problems:
        name = "declaration" if problem.exit_code == 2 else "run"
        repeated = sum(each.place.pair == problem.pair and each.place.item.startswith(name) for each in listed)
        place = Place(pair=problem.pair, item=f"{name} {repeated + 1}" if repeated else name)
        verdict = "not as declared" if problem.exit_code == 1 else "not checked"
        listed.append(judged("", place, verdict, ok=False, evidence=" ".join(problem.message.split())))
    return listed


def rank(finding: Finding) -> int:
    """Return how good a verdict is, by which two of one thing are compared; lower is better."""
    return _RANKS.get(finding.ruling.verdict, len(VERDICTS))


def promise(finding: Finding) -> str:
    """Return what is required, and the declared reason; a difference of either is a decision of a person."""
    ruling = finding.ruling
    known = " (a known difference)" if ruling.exempt else ""
    # The reason of an error is what happened, and not part of the declaration.
    why = f": {ruling.reason}" if ruling.reason and ruling.verdict != "error" else ""
    return f"{ruling.required}{known}{why}"


def declared_otherwise(finding: Finding, before: Finding) -> bool:
    """Return whether the declaration requires something else than before; a default follows what was proved.

    Args:
        finding: of a document.
        before: the same thing in an older document.
    """
    return promise(finding) != promise(before) and not (_is_default(finding.ruling) and _is_default(before.ruling))


def _is_default(ruling: Ruling) -> bool:
    """Return whether no contract was declared; of an older document, whether the row is as if there were none."""
    if ruling.undeclared is not None or ruling.exempt:
        return bool(ruling.undeclared)
    return (ruling.required, ruling.reason) in [(usual.lowest, usual.reason) for usual in (MOVES, COMPUTES)]


def what_was_found(finding: Finding) -> str | None:
    """Return the witness of what does not suffice, else why the contract accepts it."""
    if finding.tool not in ("check", "prove"):
        return finding.ruling.evidence
    seen = finding.comparison.witness
    witness = finding.proof.refutation or (None if seen is None else seen.said(finding.place.variant))
    return finding.ruling.reason if witness is None or finding.ruling.verdict == "error" else witness


def place_of(record: object, **more: str) -> Place:
    """Return the place of a record that has some of the parts as attributes.

    Args:
        record: of any command.
        more: parts that it has under another name, or not at all.
    """
    parts = {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
    return Place(**{**parts, **more})


def judged(
    tool: str,
    place: Place,
    verdict: Any,
    *,
    ok: bool = True,
    evidence: str | None = None,
    required: str = "",
    why: str = "",
    **more: Any,
) -> Finding:
    """Return a finding in a command's own words.

    Args:
        tool, place: whose, and of what.
        verdict, ok: what it is, and whether it is as required.
        evidence: why it is not better.
        required, why: what is required, and the declared reason.
        more: seconds and replay.
    """
    ruling = Ruling(verdict=verdict, required=required, ok=ok, reason=why or None, evidence=evidence)
    return Finding(tool=tool, place=place, ruling=ruling, **more)


def _own(document: Any) -> Iterable[Finding]:
    results: tuple[Finding, ...] = document.results
    return results


def _prove_model(document: Any) -> Iterator[Finding]:
    for leaf in document.results:
        item = f"{leaf.config} with {leaf.defect}" if leaf.defect else str(leaf.config)
        place = place_of(leaf, mode=leaf.shard_mode, pair=document.model, variant=words_of(leaf.choice), item=item)
        evidence, holds = leaf.reason or leaf.witness, leaf.verdict == "rounding"
        yield judged("prove model", place, leaf.verdict, ok=holds, evidence=evidence, seconds=leaf.seconds)


def _compile(document: Any) -> Iterator[Finding]:
    replays = {replace(place_of(side, variant=side.side), mode=""): side.replay for side in document.results}
    for both in document.comparisons:
        place = place_of(both)
        verdict = both.verdict or ("same program" if both.same_program else "another program")
        replay = replays.get(place, "")
        yield judged("compile", place, verdict, evidence=both.reason, replay=replay)
        for claim in both.expectations:
            yield judged(
                "compile",
                replace(place, leaf=claim.shows),
                "no figure" if claim.holds is None else "holds" if claim.holds else "does not hold",
                ok=claim.ok,
                evidence=f"got {claim.got}",
                required="a finding: does not hold" if claim.finding else "holds",
                why=claim.finding or claim.source,
                replay=replay,
            )


def _compile_model(document: Any) -> Iterator[Finding]:
    for step in document.results:
        place = place_of(step, mode=step.shard_mode, variant=words_of(step.choice), item=step.config)
        yield judged("compile model", place, "compiled")


def _tune(document: Any) -> Iterator[Finding]:
    for trial in document.trials:
        place = place_of(trial, variant=trial.side, leaf=f"{trial.argument}={trial.value}")
        verdict = "refused" if trial.refused else trial.verdict or "compiled"
        evidence = trial.refused or trial.small or None
        yield judged("tune", place, verdict, ok=trial.equal is not False, evidence=evidence)
    for best in document.best:
        place = place_of(best, variant=best.side, leaf=f"best {best.argument}")
        yield judged("tune", place, best.value or "none", evidence=best.reason)


def _train(document: Any) -> Iterator[Finding]:
    for both in document.comparisons:
        place = Place(pair=document.matrix, item=f"{both.b} against {both.a}")
        first = None if both.first_step is None else f"first differs in step {both.first_step}, {both.first_leaf}"
        declared = {"required": both.expected, "why": both.reason}
        yield judged("train", place, both.verdict, ok=both.ok, evidence=first, **declared)


def _golden(document: Any) -> Iterator[Finding]:
    for golden in document.results:
        holds = golden.status in ("same", "inside")
        yield judged("golden check", Place(item=golden.name), golden.status, ok=holds, evidence=golden.message)


def _claims(document: Any) -> Iterator[Finding]:
    for claim in document.results:
        yield judged(
            "claims",
            Place(pair=claim.subject, item=claim.id),
            claim.holds,
            ok=claim.ok,
            evidence=claim.witness,
            required=claim.says,
            why="; ".join(claim.findings),
            replay=next(iter(claim.commands), ""),
        )


def _faults(document: Any) -> Iterator[Finding]:
    for fault in document.results:
        verdict = "no answer" if fault.error else "caught" if fault.caught else "not caught"
        if fault.caught:
            verdict += " by its snapshot" if fault.by == "snapshot" else ""
            verdict += "" if fault.honest else ", and the honest form fails too"
        place, holds = Place(pair=fault.pair, variant=fault.side, item=fault.fault), fault.caught and fault.honest
        evidence, required = fault.error or fault.said, fault.expected
        yield judged("faults", place, verdict, ok=holds and not fault.error, evidence=evidence, required=required)


def _bisect(document: Any) -> Iterator[Finding]:
    search = document.finding
    causes = "; ".join(" + ".join(names) for names in search.culprits)
    verdict, place = causes or "cause found", Place(item=f"{search.what} {document.asked}".strip())
    more = {"evidence": search.sentence, "replay": search.replay, "seconds": search.seconds}
    yield judged("bisect", place, verdict if search.found else "no cause", ok=not search.found, **more)


def _defaults(document: Any) -> Iterator[Finding]:
    disagree = document.results.disagreements
    sources = f"{document.first} and {document.second}"
    yield judged("defaults", Place(item=sources), "disagree" if disagree else "agree", ok=not disagree)
    for key in disagree:
        place, evidence = Place(item=sources, leaf=key.key), f"{key.first} and {key.second}"
        yield judged("defaults", place, f"another {key.kind}", ok=False, evidence=evidence)


def _advise(document: Any) -> Iterator[Finding]:
    for advice in document.results:
        place = Place(pair=document.model, mesh=document.mesh, target=document.target, item=advice.axis)
        needs = "" if advice.needed is None or math.isinf(advice.needed) else f", needs {advice.needed:g}"
        evidence, bound = f"intensity {advice.intensity:g}{needs}", advice.verdict == "compute-bound"
        yield judged("advise", place, advice.verdict, ok=bound, evidence=evidence)


def words_of(choice: Mapping[str, str]) -> str:
    """Return the parts of a model with their variants, on one line."""
    return " ".join(f"{name}={variant}" for name, variant in choice.items())


READERS: Mapping[str, Callable[[Any], Iterable[Finding]]] = {
    "check": _own,
    "prove": _own,
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
