"""The section of the pairs of a tree."""

from __future__ import annotations

from samebits.report.html.table_sections import list_section
from samebits.report.list import Listing, PairRow
from tests.support.evidence_documents import PROBLEM
from tests.support.hostile import require_escaped

ROW = PairRow(
    pair="norm",
    reference="einsum",
    variants=("multiply", "fused"),
    cases=("small",),
    dtypes=("float32",),
    meshes=("data2", "data4"),
    wide_meshes=("data64",),
    modes=("auto",),
    points=18,
    selected=3,
    product=12,
    unfit=("data64",),
    compiled=("large on cpu",),
)


def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(Listing(results=(ROW,), problems=(PROBLEM,)))


def test_a_listing_says_how_much_there_is() -> None:
    section = list_section(Listing(results=(ROW,), problems=()))
    assert (section.state, section.next_command) == ("passed", "samebits check norm")
    assert section.headline == "1 pair with 2 variants; a check of all runs 18 points"
    assert "data2/4; on more devices data64" in section.body


def test_a_pair_that_does_not_load_is_the_headline() -> None:
    section = list_section(Listing(results=(ROW,), problems=(PROBLEM, PROBLEM)))
    assert section.state == "incomplete"
    assert section.headline == "broken: its file does not import (and 1 other)"
    assert "✗ problem: broken: its file does not import" in section.body


def test_an_empty_tree_has_no_table() -> None:
    section = list_section(Listing(results=(), problems=()))
    assert (section.next_command, "<table" in section.body) == (None, False)
