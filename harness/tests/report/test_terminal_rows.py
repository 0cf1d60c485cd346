"""The sections of a check in full, each by itself: what `--verbose` prints one after the other."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from samebits.report.document import Document
from samebits.report.notes import note_lines
from samebits.report.terminal import show_accepted, show_failures, show_notes, show_pairs
from samebits.schema.contract import DIRECTIONS
from tests.support.documents import different, document, result


def shown(section: Callable[[Console, Document], None], of: Document) -> str:
    file = io.StringIO()
    section(Console(file=file, width=140, markup=False, highlight=False, emoji=False), of)
    return file.getvalue()


@pytest.mark.parametrize("section", [show_pairs, show_accepted, show_notes, show_failures])
def test_a_section_without_content_prints_nothing(section: Callable[[Console, Document], None]) -> None:
    assert shown(section, document()) == ""


def test_each_section_prints_its_own() -> None:
    of = document(
        result(variant="einsum"),
        different(),
        result(verdict="rounding", required="rounding", mismatches=3, max_ulp=48_674, reason="summed backwards"),
        notes=("a note",),
    )
    assert "  einsum (reference)  bitwise 1" in shown(show_pairs, of)
    assert "multiply, forward, out: 1 of 2 results are only" not in shown(show_accepted, of)
    assert "at most 4.9e4 ulps" in shown(show_accepted, of)
    assert shown(show_notes, of) == "Notes:\n  a note\n\n"
    assert note_lines(of) == ["a note"]
    assert shown(show_failures, of).startswith(
        "FAILED  norm/multiply, case small, bfloat16, mesh data2 (auto), forward\n"
    )


def test_points_with_the_same_error_share_a_block() -> None:
    """A function that raises does so under its gradient too; of another cause, each point has its own."""
    both = [result(verdict="error", ok=False, leaf="*", reason="raised", direction=way) for way in DIRECTIONS]
    other = result(verdict="error", ok=False, leaf="*", reason="raised else", dtype="float32")
    blocks = shown(show_failures, document(*both, other)).split("FAILED  ")[1:]
    assert [text.count("norm/multiply, case small") for text in sorted(blocks, key=len)] == [1, 2]
    assert [text.count("  reason    raised") for text in blocks] == [1, 1]
