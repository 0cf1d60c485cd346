"""Proof over finite fields: both programs compute the same formulas, whatever the order of their sums and roundings."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.interpret.field.domain import Field
from samebits.interpret.field.folded_constants import FoldedField
from samebits.interpret.field_proof.attempts import ProofAttempt, plainest
from samebits.interpret.field_proof.confirm import confirmed
from samebits.interpret.field_proof.constants import match_constants
from samebits.interpret.field_proof.result import FieldIdentity
from samebits.interpret.inner_equations import exponentials
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.problem import Question

__all__ = ("FieldIdentity", "identity")


def identity(question: Question, seed: str = "") -> dict[str, FieldIdentity]:
    """Interpret both programs over finite fields and compare their outputs.

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
        again = plainest(question, folded, [name for name, proof in proofs.items() if not proof.equal])
        for name, shown in again.items():
            if shown.proofs[name].equal:
                folded_shown.setdefault(name, shown)
        return {name: shown.proofs[name] for name, shown in again.items()}, domains

    plain_shown = plainest(question, plain, question.outputs)
    proofs = {name: plain_shown[name].proofs[name] for name in question.outputs}
    if not all(proof.equal for proof in proofs.values()):
        proofs = match_constants(question, proofs, attempt)
    by = {
        name: folded_shown.get(name, shown) if proofs[name].equal and not shown.proofs[name].equal else shown
        for name, shown in plain_shown.items()
    }
    return confirmed(question, proofs, by)
