"""The end of `samebits prove`: at most 40 lines whatever fails, every argument where there is room."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from samebits.report.prove import HINT, ProofDocument, show_proofs
from samebits.report.screen import LINES, height
from samebits.schema.all_sizes import SizesShown
from samebits.schema.finding import Finding
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


def of_all_sizes(kept: int | None, **given: Any) -> Finding:
    family = SizesShown(shapes={"x": "float32[rows]"}, kept={} if kept is None else {"heads": kept}, why_kept="range()")
    return proof(method="all sizes", family=family, sizes="all", log2_error=None, **given)


def test_sizes_that_stay_as_declared_are_in_the_title() -> None:
    lines = screen(proofs(of_all_sizes(4), of_all_sizes(None, case="large")))
    assert "  multiply, out: SAME FORMULAS FOR ALL SIZES WITH heads=4: only rounding can differ" in lines
    assert "  multiply, out: SAME FORMULAS FOR ALL SIZES: only rounding can differ" in lines
    assert any("x float32[rows]; heads=4 alone (range()); " in line for line in lines)


def test_counted_proofs_do_not_hide_that_sizes_stay_as_declared() -> None:
    many = [of_all_sizes(n % 3 or None, case=f"c{n}", leaf=f"l{n}") for n in range(90)]
    (counted,) = (line for line in screen(proofs(*many)) if line.startswith("norm: "))
    assert "same formulas for all sizes (some as declared) 60" in counted
    assert "same formulas for all sizes 30" in counted
