"""Confirms a proof over finite fields by what the fields do not cover: stored results, other inputs, ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from samebits.errors import NotCovered
from samebits.interpret.field.domain import Field
from samebits.interpret.field_proof.assumptions import assumptions
from samebits.interpret.field_proof.attempts import ProofAttempt, attempt_by_parts
from samebits.interpret.field_proof.result import APART, FieldIdentity
from samebits.interpret.float64_differences import differences
from samebits.interpret.overflow import reach_of
from samebits.interpret.probes import permuted, stored, stretched
from samebits.interpret.problem import Question


def confirmed(
    question: Question, proofs: Mapping[str, FieldIdentity], by: Mapping[str, ProofAttempt]
) -> dict[str, FieldIdentity]:
    """The proofs that further attempts confirm, each with its assumptions.

    Args:
        question: the programs and their inputs.
        proofs: the combined results, by output; of those with NaN, the ones whose other elements are equal.
        by: by output, the attempt that shows it, or the last one with the constants as they are.
    """
    result = _without_stored(question, [shown.domain for shown in by.values()], dict(proofs))
    elsewhere: dict[str, bool] = {}
    beyond: dict[str, str] = {}
    for shown in {id(shown): shown for shown in by.values()}.values():
        own = [name for name, other in by.items() if other is shown]
        tried, decided = _elsewhere(question, shown, {name: result[name] for name in own})
        result.update(tried)
        elsewhere.update({name: name in decided for name in own})
        result.update(_at_other_magnitudes(question, shown, {name: result[name] for name in own}, beyond))
    for name, proof in result.items():
        if proof.undecided and proof.unsure and not elsewhere[name]:
            # Numbers that were stored for these inputs are constants too, and off by no more than their rounding.
            result[name] = replace(proof, undecided=False)
    if not any(proof.equal or proof.undecided for proof in result.values()):
        return result
    try:
        reach = reach_of(question)
    except NotCovered:
        reach = None
    for name, words in (reach.different if reach is not None else {}).items():
        if result[name].equal or (result[name].undecided and result[name].not_covered is None):
            result[name] = result[name].refuted(words, math.inf)
    for name, proof in result.items():
        if proof.equal:
            taken = assumptions(question, by[name].domain, reach, elsewhere[name], beyond.get(name))
            result[name] = replace(proof, assumptions=taken)
    return result


def _without_stored(
    question: Question, domains: Sequence[Field], proofs: dict[str, FieldIdentity]
) -> dict[str, FieldIdentity]:
    """The same, where an output that depends on no input is not the same as one that does.

    Only where the numbers of the case decided something, integers are given or constants may have been rounded: else
    the formulas say it.
    """
    suspect = {name for name, proof in proofs.items() if proof.undecided or (proof.equal and proof.constant)}
    rounded = any(proof.unsure for proof in proofs.values())
    by_numbers = any(domain.decisions or domain.whole for domain in domains)
    if not suspect or not (by_numbers or question.fixed or rounded):
        return proofs
    result = dict(proofs)
    for name, words in stored(question).items():
        if name in suspect:
            result[name] = proofs[name].refuted(words, math.inf)
    return result


def _elsewhere(
    question: Question, shown: ProofAttempt, proofs: Mapping[str, FieldIdentity]
) -> tuple[dict[str, FieldIdentity], list[str]]:
    """The outputs that one attempt showed, where it does not hold with the elements of the inputs permuted.

    Returns:
        What is known then, and the outputs that it holds for; none of these where it was not tried.
    """
    domain = shown.domain
    open_ = [name for name, proof in proofs.items() if proof.undecided or (proof.equal and domain.decisions)]
    other = permuted(question, domain.seed) if open_ else None
    if other is None:
        return {}, []
    try:
        attempts = attempt_by_parts(other, partial(_again, shown), shown.make, open_)
    except NotCovered:  # the other order decides nothing then, and the first result stands
        return {}, []
    result, decided = dict(proofs), [name for name in proofs if name not in open_]
    for name in open_:
        proof = attempts[name].proofs[name]
        if proof.not_covered is not None:
            continue
        decided.append(name)
        is_root = attempts[name].domain.rooted and proof.gap <= APART  # a root has any sign here
        if not proof.equal and not proof.undecided and not is_root:
            words = f"{proof.witness}, with the elements of the inputs permuted"
            result[name] = proofs[name].refuted(words, proof.gap)
    return result, decided


def _again(shown: ProofAttempt) -> Field:
    """A domain like that of an attempt, with one random point."""
    return shown.make(1, shown.domain.ring.extended, shown.domain.vanishing)


def _at_other_magnitudes(
    question: Question, shown: ProofAttempt, proofs: Mapping[str, FieldIdentity], beyond: dict[str, str]
) -> dict[str, FieldIdentity]:
    """The outputs that one attempt showed, where it does not hold at larger or smaller inputs.

    What rounding hides there is as good as equal, such as `log(1 + exp(x))` and `x` where `x` is above 20.

    Args:
        question: the programs and their inputs.
        shown: the attempt.
        proofs: its results, by output.
        beyond: gets what differs only beyond the magnitudes of a given array, which refutes nothing.
    """
    domain, result = shown.domain, dict(proofs)
    if not domain.decisions:
        return result
    for other in stretched(question):
        open_ = list(differences(other.question, [name for name, proof in result.items() if proof.is_open]))
        if not open_:
            continue
        try:
            others = attempt_by_parts(other.question, partial(_again, shown), shown.make, open_)
        except NotCovered:  # such as an overflow: these magnitudes decide nothing
            continue
        for name in open_:
            proof = others[name].proofs[name]
            root = APART if others[name].domain.rooted else 0.0  # a root has any sign there
            if not proof.equal and not proof.undecided and proof.gap > root:
                witness = f"{proof.witness}, {other.words}"
                if not other.beyond_given:
                    witness += " (their values are not stated)"
                    result[name] = result[name].refuted(witness, proof.gap)
                else:
                    beyond.setdefault(name, witness)
    return result
