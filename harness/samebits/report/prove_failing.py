"""The proofs below their contracts, grouped by cause: what is refuted by the line, what is not proved by the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samebits.report.causes.groups import without_numbers
from samebits.report.failing import Failing
from samebits.report.prove import ProofDocument, leaf_words
from samebits.report.words import plural, short_meshes
from samebits.schema.proof import ProofResult

_LISTED = 4
"""Names that are listed; more are counted."""


def failing_proofs(document: ProofDocument) -> list[Failing]:
    """The groups, refuted proofs before others and large groups before small ones."""
    groups: dict[tuple[str, ...], list[ProofResult]] = {}
    for proof in document.results:
        if not proof.ok:
            groups.setdefault(_key(proof), []).append(proof)
    ordered = sorted(_joined(groups).values(), key=lambda group: (not group[0].refutes, -len(group)))
    return [_failing(group, document.results) for group in ordered]


def leaves(count: int) -> str:
    """How many leaves, in words."""
    return plural(count, "leaf").replace("leafs", "leaves")


def _key(proof: ProofResult) -> tuple[str, ...]:
    if not proof.refutes:
        return ("not proved", proof.pair, proof.verdict, without_numbers(proof.reason or ""))
    if proof.lines:  # sides, and pairs, may call one function: the line alone is the cause
        return ("refuted", str(proof.lines[0].variant or proof.lines[0].reference))
    return ("refuted", proof.pair, proof.variant, without_numbers(proof.reason or ""))


def _joined(groups: dict[tuple[str, ...], list[ProofResult]]) -> dict[tuple[str, ...], list[ProofResult]]:
    """The same groups, where refuted proofs without a named line join the only line that is named of their side."""
    named: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for key, group in groups.items():
        for proof in group:
            if proof.refutes and proof.lines:
                named.setdefault((proof.pair, proof.variant), set()).add(key)
    joined: dict[tuple[str, ...], list[ProofResult]] = {key: [] for key in groups}
    for key, group in groups.items():
        for proof in group:
            of_side = named.get((proof.pair, proof.variant), set()) if proof.refutes and not proof.lines else set()
            joined[next(iter(of_side)) if len(of_side) == 1 else key].append(proof)
    return {key: group for key, group in joined.items() if group}


def _failing(group: Sequence[ProofResult], every: Iterable[ProofResult]) -> Failing:
    first = group[0]
    sides = dict.fromkeys((proof.pair, proof.variant) for proof in group)
    beside = sum((proof.pair, proof.variant) in sides for proof in every)
    pairs = list(dict.fromkeys(pair for pair, _ in sides))
    whose = f"{pairs[0]} ({', '.join(side for _, side in sides)})" if len(pairs) == 1 else _listed(pairs, "pair")
    if len(sides) == 1:
        whose = f"{first.pair}/{first.variant}"
    words = "refuted" if first.refutes else "not proved" if first.verdict == "error" else "below the contract"
    place = f"{leaf_words(first)}, case {first.case}, {first.dtype}, mesh {first.mesh} ({first.mode})"
    return Failing(
        title=f"{whose}: {len(group)} of {leaves(beside)} {words}",
        likely=_likely(first),
        where=_where(group),
        example=f"{place}: {first.witness}" if first.witness else place,
        next_command=_next(first),
    )


def _likely(proof: ProofResult) -> str:
    if proof.refutes:
        if proof.lines:
            return f"another computation: {proof.lines[0]}"
        return proof.reason or "another computation, and no line is named"
    if proof.reason is None and proof.verdict == "rounding":
        return "the formulas are equal, which does not make the bits equal; a check runs both sides"
    return proof.reason or "proof alone does not decide; a check runs both sides"


def _where(group: Sequence[ProofResult]) -> str:
    cases, dtypes, named = (
        list(dict.fromkeys(values))
        for values in (
            (proof.case for proof in group),
            (proof.dtype for proof in group),
            (leaf_words(proof) for proof in group),
        )
    )
    meshes = short_meshes(dict.fromkeys(proof.mesh for proof in group))
    return "; ".join((_listed(named, "leaf").replace("leafs", "leaves"), _listed(cases, "case"), *dtypes, meshes))


def _listed(names: Sequence[str], noun: str) -> str:
    return ", ".join(names) if len(names) <= _LISTED else plural(len(names), noun)


def _next(proof: ProofResult) -> str | None:
    """The refuted proof again; of what is not proved, the check that runs both sides."""
    if proof.refutes or "--no-assumptions" in proof.replay:
        return proof.replay or None
    return run_of(proof.replay) or None


def run_of(replay: str) -> str:
    """The command that runs what a command proves: both sides of a pair, or of two functions.

    Args:
        replay: of a proof.
    """
    if " --arg " in replay:
        return replay.replace("samebits prove ", "samebits compare ", 1).removesuffix(" --all-sizes")
    return replay.replace("samebits prove ", "samebits check ", 1)
