"""Outputs that a variant lays out otherwise than the reference are noted, in explicit mode."""

from dataclasses import replace

from samebits.report.check import Document, layout_notes, note_lines
from tests.support.documents import document, result

ROWS = {"x": "('fsdp', None)", "out": "('fsdp', None)", "out['aux']": "(None,)"}
WHOLE = {**ROWS, "out": "(None, None)"}


def _run(variant: str, layout: dict[str, str], mode: str = "explicit", mesh: str = "fsdp8") -> Document:
    return document(result(variant=variant, layout=layout, mode=mode, mesh=mesh))


def _document(*runs: Document) -> Document:
    first = runs[0]
    head = replace(first.pairs[0], reference="einsum")
    return replace(first, pairs=(head,), results=tuple(r for run in runs for r in run.results))


def test_another_layout_is_noted_once_with_how_often() -> None:
    runs = [_run(side, layout, mesh=mesh) for mesh in ("fsdp8", "fsdp4") for side, layout in SIDES.items()]
    expected = (
        "norm/multiply: in explicit mode out is (None, None) where the reference's is ('fsdp', None), "
        "and has another layout in 1 more setting"
    )
    assert layout_notes(_document(*runs)) == [expected]
    assert expected in note_lines(_document(*runs))


def test_the_compiler_may_choose_in_auto_mode() -> None:
    assert layout_notes(_document(*[_run(side, layout, "auto") for side, layout in SIDES.items()])) == []


def test_equal_layouts_and_sides_that_did_not_run_give_no_note() -> None:
    assert layout_notes(_document(_run("einsum", ROWS), _run("multiply", ROWS))) == []
    assert layout_notes(_document(_run("einsum", {}), _run("multiply", WHOLE))) == []
    assert layout_notes(_document(_run("multiply", WHOLE))) == []


SIDES = {"einsum": ROWS, "multiply": WHOLE}
