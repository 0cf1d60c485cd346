"""Proof over finite fields: both programs compute the same formulas, whatever the order of their sums and roundings."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.errors import BrokenPromise, NotCovered
from samebits.interpret.field.domain import Field
from samebits.interpret.field.folded_constants import FoldedField
from samebits.interpret.field_proof.attempts import ProofAttempt, plainest
from samebits.interpret.field_proof.confirm import confirmed
from samebits.interpret.field_proof.constants import match_constants
from samebits.interpret.field_proof.parts import MOST_PARTS, by_parts
from samebits.interpret.field_proof.result import FieldIdentity
from samebits.interpret.inner_equations import exponentials
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.problem import Question

__all__ = ("FieldIdentity", "identity")


def identity(question: Question, seed: str = "") -> dict[str, FieldIdentity]:
    """Interpret both programs over finite fields and compare their outputs.

    Raises:
        BrokenPromise: a program breaks a promise about its indices, the variant perhaps alone.
        NotCovered: the fields say nothing of any output: they have no rule for an equation, a comparison is too close
            to call, or the outputs are NaN. Where that is so of some outputs, their results say so.
    """
    proofs = by_parts(question, lambda part: _each(part, seed), FieldIdentity.uncovered)
    uncovered = [proof.not_covered for proof in proofs.values() if proof.not_covered is not None]
    if uncovered and len(uncovered) == len(proofs):
        raise NotCovered(uncovered[0])
    return proofs


def _each(question: Question, seed: str) -> dict[str, FieldIdentity]:
    """The proofs of all outputs; of what is not covered beside others, by itself: their infinities say nothing of it.

    Raises:
        NotCovered: the fields have no rule for an equation, or a comparison is too close to call.
    """
    proofs = _together(question, seed)
    lost = [name for name, proof in proofs.items() if proof.not_covered is not None and not proof.others_equal]
    for name in lost[:MOST_PARTS] if len(proofs) > 1 else ():
        try:
            proofs |= _together(question.only([name]), seed)
        except BrokenPromise:
            raise
        except NotCovered:  # which is so beside the others, too
            continue
    return proofs


def _together(question: Question, seed: str) -> dict[str, FieldIdentity]:
    """The proofs of all outputs in one interpretation.

    Raises:
        NotCovered: the fields have no rule for an equation, or a comparison is too close to call.
    """
    levels = 1 + min(2, max(exponentials(program) for program in (question.reference, question.variant)))
    folded_shown: dict[str, ProofAttempt] = {}

    def plain(repetitions: int, extended: bool, vanishing: bool) -> Field:
        return Field(repetitions, levels, extended, seed, vanishing=vanishing)

    def attempt(stands: Mapping[float, SurdLiteral]) -> tuple[dict[str, FieldIdentity], list[FoldedField]]:
        domains: list[FoldedField] = []

        def folded(repetitions: int, extended: bool, vanishing: bool) -> FoldedField:
            domains.append(FoldedField(repetitions, levels, extended, seed, vanishing=vanishing, stands=stands))
            return domains[-1]

        # What is equal with the constants as they are is not asked again: that may take many random points.
        again = plainest(question, folded, [name for name, proof in covered.items() if not proof.equal])
        for name, shown in again.items():
            if shown.proofs[name].is_open:
                folded_shown.setdefault(name, shown)
        return {name: shown.proofs[name] for name, shown in again.items()}, domains

    plain_shown = plainest(question, plain, question.outputs)
    proofs = {name: plain_shown[name].proofs[name] for name in question.outputs}
    covered = _covered(proofs)
    if not all(proof.equal for proof in covered.values()):
        proofs |= match_constants(question, covered, attempt)
        covered = _covered(proofs)
    by = {
        name: folded_shown.get(name, shown) if proofs[name].is_open and not shown.proofs[name].is_open else shown
        for name, shown in plain_shown.items()
        if name in covered or proofs[name].others_equal
    }
    return proofs | confirmed(question, {name: proofs[name] for name in by}, by)


def _covered(proofs: Mapping[str, FieldIdentity]) -> dict[str, FieldIdentity]:
    return {name: proof for name, proof in proofs.items() if proof.not_covered is None}
