"""Proofs for a pull request: at most 60 lines, the worst failures explained, nothing read as markup."""

from __future__ import annotations

from samebits.report.markdown_fit import LINES
from samebits.report.prove import proved_markdown
from tests.support.evidence_documents import PROBLEM, proof, proofs, refuted


def test_many_failures_take_sixty_lines_at_most() -> None:
    wrong = [refuted(pair=f"p{n}", variant="fast", lines=(), reason=f"why{'y' * n}") for n in range(80)]
    text = proved_markdown(proofs(*wrong, *(proof(pair=f"q{n}") for n in range(80)), problems=[PROBLEM]))
    assert len(text.splitlines()) <= LINES
    assert text.startswith("### samebits prove: failed\n")
    assert "<details><summary>75 more groups</summary>" in text
    assert "problem:" in text


def test_the_states() -> None:
    assert proved_markdown(proofs(proof())).startswith("### samebits prove: passed\n")
    undecided = proof(leaf="aux", verdict="error", ok=False, reason="sort has no rule")
    assert proved_markdown(proofs(proof(), undecided)).startswith("### samebits prove: incomplete\n")
    assert proved_markdown(proofs()).startswith("### samebits prove: incomplete\n")


def test_a_row_says_what_was_shown() -> None:
    text = proved_markdown(proofs(proof(), proof(case="large")))
    assert "| norm | multiply | out | same formulas | 2 x small large; float32; data2; " in text
    assert "| rounding 2 | yes | 2^" in text


def test_names_are_no_markup() -> None:
    text = proved_markdown(proofs(refuted(variant="<script>", witness="<img>", lines=())))
    assert "<script>" not in text and "<img>" not in text
