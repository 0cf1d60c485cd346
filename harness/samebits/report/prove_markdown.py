"""Proofs for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from samebits.report.failing import failing_parts, next_command, problem_parts
from samebits.report.markdown import escaped, fenced, table_rows
from samebits.report.markdown_fit import Part, Rows, fitted
from samebits.report.prove import ProofDocument, all_reached, closing, leaf_words, proof_groups, where
from samebits.report.prove_failing import failing_proofs
from samebits.report.prove_screen import few_words
from samebits.schema.proof import ProofResult

HEADS = ("pair", "variant", "leaf", "by proof", "where", "required", "reached", "error probability")


def proved_markdown(document: ProofDocument) -> str:
    """The document as Markdown of at most 60 lines: what came out, the worst failures, a row per leaf of a side."""
    failing = failing_proofs(document)
    command = next_command(failing)
    parts: list[Part] = [f"### samebits prove: {_state(document)}", escaped(closing(document))]
    parts += [] if command is None else [fenced([command])]
    parts += [*problem_parts(document.problems), *failing_parts(failing)]
    groups = proof_groups(document.results)
    bad = [number for number, group in enumerate(groups) if any(not proof.ok for proof in group)]
    if groups:
        parts.append(replace(table_rows("Proofs", HEADS, [_row(group) for group in groups], bad), opened=False))
    if document.notes:
        parts.append(Rows(title="Notes", rows=[f"- {escaped(note)}" for note in document.notes]))
    parts.append(escaped("; ".join(document.environment.lines())))
    return fitted(parts)


def _state(document: ProofDocument) -> str:
    if any(proof.refutes for proof in document.results):
        return "failed"
    return "passed" if document.results and all_reached(document) else "incomplete"


def _row(group: Sequence[ProofResult]) -> tuple[str, ...]:
    first = group[0]
    required = Counter(proof.required for proof in group)
    errors = [proof.log2_error for proof in group if proof.log2_error is not None]
    reached = sum(proof.ok for proof in group)
    return (
        first.pair,
        first.variant,
        leaf_words(first),
        few_words(first),
        where(group),
        " ".join(f"{rung} {count}" for rung, count in required.items()),
        "yes" if reached == len(group) else f"{reached} of {len(group)}",
        f"2^{max(errors):.0f}" if errors else "",
    )
