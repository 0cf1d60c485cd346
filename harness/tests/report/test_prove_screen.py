"""The end of `samebits prove`: at most 40 lines whatever fails, every argument where there is room."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from samebits.report.prove import ProofDocument
from samebits.report.prove_screen import HINT, show_proofs
from samebits.report.screen import LINES, height
from tests.support.evidence_documents import proof, proofs, refuted

MANY_LEAVES = [proof(leaf=f"l{n}", case=f"c{n}") for n in range(50)]
MANY_PAIRS = [proof(pair=f"p{n}") for n in range(60)]
MANY_REFUTED = [refuted(pair=f"p{n}", variant="fast", lines=(), reason=f"{'why ' * 90}{'x' * n}") for n in range(60)]


def screen(document: ProofDocument, width: int = 120, *, verbose: bool = False) -> list[str]:
    file = io.StringIO()
    show_proofs(Console(file=file, width=width, markup=False, highlight=False, emoji=False), document, verbose=verbose)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("rows", [MANY_LEAVES, MANY_PAIRS, MANY_REFUTED, [*MANY_LEAVES, *MANY_REFUTED]])
@pytest.mark.parametrize("width", [80, 140])
def test_it_fits_on_a_screen(rows: list, width: int) -> None:  # type: ignore[type-arg]
    lines = screen(proofs(*rows, notes=tuple(f"note {n}" for n in range(30))), width)
    assert sum(height(line, width) for line in lines) <= LINES
    assert HINT in lines


def test_a_failure_is_explained_with_the_next_command() -> None:
    lines = screen(proofs(*MANY_LEAVES, *MANY_REFUTED, refuted(variant="einsum")))
    assert any(line.startswith("FAILED  ") for line in lines)
    assert lines[-1].startswith("next: samebits prove ")
    assert any(line.startswith("  likely    ") for line in lines)


def test_few_proofs_are_shown_with_their_arguments() -> None:
    lines = screen(proofs(proof()))
    assert any(line.startswith("    assumes ") for line in lines) and HINT not in lines


def test_verbose_proofs_were_shown_before() -> None:
    lines = screen(proofs(*MANY_LEAVES), verbose=True)
    assert len(lines) == 2 and lines[-1].startswith("50 leaves: same formulas 50")
