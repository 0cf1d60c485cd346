"""The end of `samebits prove` in a terminal: every argument where there is room, else what fails and a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from samebits.report.failing import WORST, explained, next_command
from samebits.report.prove import (
    ProofDocument,
    all_reached,
    closing,
    leaf_words,
    proof_groups,
    show_pair,
    where,
)
from samebits.report.prove_failing import failing_proofs, leaves
from samebits.report.screen import Form, Styled, cut, in_turn, show_fitted
from samebits.report.tables import line
from samebits.report.words import assumed_sentence, plural
from samebits.schema.assumption import words_of
from samebits.schema.proof import ProofResult

WORDS = {
    "proved": "proved",
    "rounding": "same formulas",
    "different": "REFUTED",
    "refused": "rejected as expected",
    "error": "NOT PROVED",
}
"""What a proof comes to, in few words."""


def few_words(proof: ProofResult) -> str:
    """What a proof comes to, in few words: whether for all sizes, and the kinds of what it assumes."""
    kept = proof.family.kept_text if proof.family is not None else ""
    taken = words_of(proof.assumptions) if proof.verdict in ("proved", "rounding") else ""
    return _in_words(proof, f" with {kept}" if kept else "") + (f", assuming {taken}" if taken else "")


def _counted_words(proof: ProofResult) -> str:
    """The same without the sizes that are kept, which may be others in each case."""
    kept = proof.family is not None and proof.family.kept
    return _in_words(proof, " (some as declared)" if kept else "")


def _in_words(proof: ProofResult, kept: str) -> str:
    words = WORDS.get(proof.verdict, proof.verdict)
    return f"{words} for all sizes{kept}" if proof.sizes == "all" else words


NOTES = 3

HINT = "--verbose prints every proof with its method, its assumptions and its probability of an error"


def show_proofs(to: Console, document: ProofDocument, *, verbose: bool = False) -> None:
    """The end of the report.

    Args:
        to: where it is printed.
        document: of the proofs.
        verbose: whether every proof has been shown already; else it is now, as far as it fits on one screen.
    """
    failing = failing_proofs(document)
    end = _end(document, next_command(failing))
    if verbose:
        for text, style in [("", ""), *end]:
            line(to, text, style)
        return
    few = [explained(failing, count) for count in range(min(WORST, len(failing)), 0, -1)] or [in_turn()]
    forms: list[Form] = [_every(document)]
    forms += [in_turn(_groups(document), few[0])]
    forms += [in_turn(_pairs(document), form) for form in few]
    forms += few
    show_fitted(to, forms, end, HINT)


def _every(document: ProofDocument) -> Form:
    def form(to: Console) -> None:
        for pair, proofs in _by_pair(document).items():
            show_pair(to, pair, proofs)
        line(to)

    return form


def _groups(document: ProofDocument) -> Form:
    """A line for each leaf of a side."""

    def form(to: Console) -> None:
        for pair, proofs in _by_pair(document).items():
            line(to)
            line(to, pair, "bold")
            for group in proof_groups(proofs):
                first, short = group[0], sum(not proof.ok for proof in group)
                words = f"{few_words(first)}: {where(group)}"
                below = f"; {short} of {len(group)} below the contract" if short else ""
                text = f"  {first.variant}, {leaf_words(first)}: {words}{below}"
                line(to, cut(text, to.width), "bold red" if any(proof.refutes for proof in group) else "")
        line(to)

    return form


def _pairs(document: ProofDocument) -> Form:
    """A line for each pair."""

    def form(to: Console) -> None:
        line(to)
        for pair, proofs in _by_pair(document).items():
            counts = Counter(map(_counted_words, proofs))
            short = sum(not proof.ok for proof in proofs)
            words = ", ".join(f"{word} {count}" for word, count in counts.items())
            below = f"; {short} below the contract" if short else ""
            text = f"{pair}: {leaves(len(proofs))}: {words}{below}"
            line(to, cut(text, to.width), "bold red" if any(proof.refutes for proof in proofs) else "")
        line(to)

    return form


def _by_pair(document: ProofDocument) -> dict[str, Sequence[ProofResult]]:
    pairs: dict[str, list[ProofResult]] = {}
    for proof in document.results:
        pairs.setdefault(proof.pair, []).append(proof)
    return {**pairs}


def _end(document: ProofDocument, command: str | None) -> list[Styled]:
    """Notes, one sentence for all pairs, and the next command."""
    lines = [(note, "") for note in document.notes[:NOTES]]
    if len(document.notes) > NOTES:
        lines.append((f"and {plural(len(document.notes) - NOTES, 'more note')}; --json FILE has all", ""))
    lines += [(text, "") for text in [assumed_sentence(document.results)] if text is not None]
    lines.append((closing(document), "bold green" if all_reached(document) else "bold yellow"))
    return [*lines, *([] if command is None else [(f"next: {command}", "")])]
