"""The section of proofs: what is refuted first, each kind with its argument and assumptions."""

from __future__ import annotations

from samebits.report.html.prove_section import LEAVES, prove_section
from tests.support.evidence_documents import PROBLEM, proof, proofs, refuted
from tests.support.hostile import require_escaped


def test_nothing_of_a_document_is_markup() -> None:
    unknown = proof(verdict="error", ok=False, reason="an unknown primitive", leaf="aux")
    require_escaped(proofs(proof(), refuted(variant="einsum"), unknown, problems=[PROBLEM], notes=("left out",)))


def test_a_refuted_leaf_is_the_headline() -> None:
    wrong = refuted(variant="einsum", direction="gradient", leaf="x", replay="samebits prove norm --variant einsum")
    section = prove_section(proofs(proof(), proof(case="large"), wrong))
    assert section.state == "failed"
    assert section.headline.startswith(
        "1 of 3 leaves refuted; first norm/einsum, gradient of x (case small, float32, mesh data2): "
        "optimized_impls/norm.py:4 has `x[::-1]`"
    )
    assert section.next_command == "samebits prove norm --variant einsum"
    assert section.body.index("norm/einsum") < section.body.index("norm/multiply"), "what is refuted comes first"
    assert section.body.count('<details class="folded" open>') == 1, "and it is unfolded"
    two = prove_section(proofs(wrong, refuted(leaf="aux"), proof()))
    assert two.body.count('<details class="folded" open>') == 1, "of several only the first"
    assert prove_section(proofs(proof())).body.count('<details class="folded" open>') == 0


def test_what_is_not_proved_is_to_be_checked() -> None:
    section = prove_section(proofs(proof(), proof(leaf="aux", verdict="error", ok=False, reason="sort has no rule")))
    assert section.state == "incomplete"
    assert section.headline.startswith("1 of 2 leaves not proved; first norm/multiply, aux")
    assert section.headline.endswith("sort has no rule")
    assert section.next_command == "samebits check norm --variant multiply --case small"


def test_proofs_that_hold_need_nothing() -> None:
    section = prove_section(proofs(proof(), proof(verdict="proved", method="labels")))
    assert (section.state, section.next_command) == ("passed", None)
    assert section.headline == ("2 leaves: proved 1, same formulas 1; 1.5 s; every leaf reaches its contract by proof")
    assert "a program branches on its shapes" in section.body
    assert "2^-80" in section.body.replace("2^-81", "2^-80")


def test_no_proof_is_not_a_pass() -> None:
    assert prove_section(proofs()).state == "incomplete"
    broken = prove_section(proofs(problems=[PROBLEM]))
    assert (broken.state, broken.headline) == ("incomplete", "broken: its file does not import")
    assert prove_section(proofs(proof(), interrupted=True)).state == "incomplete"


def test_many_leaves_of_a_kind_are_counted() -> None:
    many = [proof(case=f"case{number}") for number in range(LEAVES + 5)]
    section = prove_section(proofs(*many, refuted(case="last")))
    assert "5 more in the JSON document" in section.body
    short = prove_section(proofs(*many, proof(case="the_bad_case", ok=False, reason="no")))
    assert "<td>the_bad_case</td>" in short.body, "what does not reach its contract is never left out"
