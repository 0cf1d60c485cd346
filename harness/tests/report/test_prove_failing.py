"""Proofs below their contracts by cause: one wrong line is one group, whatever sides and leaves it reaches."""

from __future__ import annotations

from samebits.report.prove import failing_proofs
from tests.support.evidence_documents import proof, proofs, refuted


def test_one_line_is_one_group() -> None:
    wrong = [refuted(variant=side, leaf=leaf) for side in ("einsum", "fast") for leaf in ("out", "aux")]
    unnamed = refuted(variant="einsum", leaf="late", lines=())
    (group,) = failing_proofs(proofs(proof(), *wrong, unnamed))
    assert group.title == "norm (einsum, fast): 5 of 5 leaves refuted"
    assert group.likely.startswith("another computation: optimized_impls/norm.py:4 has `x[::-1]`")
    assert group.where.startswith("out, aux, late; small; float32; data2")


def test_what_is_refuted_comes_first() -> None:
    undecided = [proof(leaf=f"l{n}", verdict="error", ok=False, reason=f"sort has no rule at {n}") for n in range(3)]
    first, second = failing_proofs(proofs(*undecided, refuted(variant="einsum")))
    assert first.title == "norm/einsum: 1 of 1 leaf refuted"
    assert second.title == "norm/multiply: 3 of 3 leaves not proved"
    assert second.likely == "sort has no rule at 0"


def test_what_proof_cannot_tell_is_to_be_checked() -> None:
    undecided = proof(verdict="error", ok=False, reason="why", replay="samebits prove norm --case small")
    (group,) = failing_proofs(proofs(undecided))
    assert group.next_command == "samebits check norm --case small"
    alone = proof(verdict="error", ok=False, reason="why", replay="samebits prove norm --no-assumptions")
    (group,) = failing_proofs(proofs(alone))
    assert group.next_command == "samebits prove norm --no-assumptions", "a check has no such option"


def test_equal_formulas_are_not_equal_bits() -> None:
    (group,) = failing_proofs(proofs(proof(required="bitwise", ok=False)))
    assert group.title == "norm/multiply: 1 of 1 leaf below the contract"
    assert "does not make the bits equal" in group.likely


def test_proofs_that_hold_are_no_failures() -> None:
    assert failing_proofs(proofs(proof(), proof(verdict="proved", method="labels"))) == []
