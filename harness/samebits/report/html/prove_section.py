"""Proofs on a page: what is refuted or not proved comes first, each kind of proof with its argument and assumptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from samebits.report.html.section import Section, render
from samebits.report.prove import (
    ProofDocument,
    closing,
    leaf_words,
    paragraphs,
    proof_groups,
    run_of,
    title,
    where,
)
from samebits.report.words import first_problem, plural, state_of
from samebits.schema.assumption import Assumption
from samebits.schema.finding import Finding, exit_code
from samebits.schema.result import VERDICTS

LEAVES = 60
"""Of the proofs of one kind in a table; JSON has all of them."""


def prove_section(document: ProofDocument) -> Section:
    """The section of a run of proofs.

    Args:
        document: of `samebits prove`.
    """
    groups = sorted(proof_groups(document.results), key=_gravity)
    counts = Counter(proof.ruling.verdict for proof in document.results)
    headline = _headline(document, groups)
    return Section(
        title=f"prove {_pairs(document)}".strip(),
        command="prove",
        state=state_of(exit_code(document.results, document.problems, interrupted=document.interrupted)),
        headline=headline,
        next_command=_next(groups),
        body=render(
            "prove.html.j2",
            document=document,
            headline=headline,
            closing=closing(document),
            counts=[(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]],
            groups=[_group(group) for group in groups],
            unfolded=groups[0] if groups and _gravity(groups[0]) == 0 else None,
        ),
        styles=("evidence.css",),
    )


def _gravity(group: Sequence[Finding]) -> int:
    """What is refuted first, then what does not reach its contract, then the rest."""
    return 0 if any(proof.refutes for proof in group) else 1 if any(not proof.ruling.ok for proof in group) else 2


def _pairs(document: ProofDocument) -> str:
    pairs = list(dict.fromkeys(proof.place.pair for proof in document.results))
    return ", ".join(pairs) if len(pairs) <= 3 else f"{len(pairs)} pairs"


def _headline(document: ProofDocument, groups: Sequence[Sequence[Finding]]) -> str:
    """What is refuted or not proved, and where."""
    short = [proof for proof in document.results if not proof.ruling.ok]
    if not short and document.problems:
        return first_problem(document.problems)
    if not short:
        return f"interrupted; {closing(document)}" if document.interrupted else closing(document)
    group = groups[0]
    first = next((proof for proof in group if proof.refutes), None) or next(
        proof for proof in group if not proof.ruling.ok
    )
    side = f"{first.place.pair}/{first.place.variant}, {leaf_words(first)}"
    place = f"{side} (case {first.place.case}, {first.place.dtype}, mesh {first.place.mesh})"
    count = sum(proof.refutes for proof in document.results)
    if not count:
        reason = first.ruling.reason or "the proof does not reach the contract"
        return f"{len(short)} of {plural(len(document.results), 'leaf')} not proved; first {place}: {reason}"
    cause = (
        f": {first.named.lines[0]}"
        if first.named.lines
        else f": {first.proof.refutation}"
        if first.proof.refutation
        else ""
    )
    return f"{count} of {plural(len(document.results), 'leaf')} refuted; first {place}{cause}"


def _next(groups: Sequence[Sequence[Finding]]) -> str | None:
    """The refuted proof again; of what is not proved, the check that runs both sides."""
    refuted = next((proof for group in groups for proof in group if proof.refutes), None)
    if refuted is not None:
        return refuted.replay or None
    short = next((proof for group in groups for proof in group if not proof.ruling.ok), None)
    if short is None or not short.replay:
        return None
    return run_of(short.replay)


def _group(group: Sequence[Finding]) -> dict[str, Any]:
    """The proofs of one kind, as the template shows them."""
    first = group[0]
    short = [proof for proof in group if not proof.ruling.ok]
    return {
        "first": first,
        "side": f"{first.place.pair}/{first.place.variant}",
        "leaf": leaf_words(first),
        "title": title(first),
        "where": where(group),
        "short": len(short),
        "count": len(group),
        "proofs": group,
        # Assumptions are a table of their own, each with how it could be false.
        "facts": [(name, text) for name, text in paragraphs(group) if name not in ("where", "assumes", "replay")],
        "assumptions": _assumptions(group),
        "replay": (next(iter(short), None) or first).replay,
        "leaves": [*short, *(proof for proof in group if proof.ruling.ok)][:LEAVES],
        "hidden": max(0, len(group) - LEAVES),
    }


def _assumptions(group: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """Each assumption of the proofs once: its kind, what is assumed, and how it could be false."""
    distinct: dict[tuple[str, str], Assumption] = {}
    for proof in group:
        for assumption in proof.proof.assumptions:
            distinct.setdefault((assumption.word, assumption.text), assumption)
    return [(assumption.word, assumption.text, assumption.false_where) for assumption in distinct.values()]
