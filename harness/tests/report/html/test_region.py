"""The first differing region as rows: sides beside each other, the differing words marked, and a sentence for it."""

from dataclasses import replace

from samebits.report.html.region import MEANINGS, level_words, region_folds, region_rows, region_sentence
from tests.report.html.run_samples import REGION, beside, side

COMPARISON = beside(side("permute"), side())


def test_what_one_side_has_stands_beside_what_the_other_has() -> None:
    rows = region_rows(REGION)
    kinds = [(row.reference and row.reference.kind, row.variant and row.variant.kind) for row in rows]
    assert kinds == [
        ("same", "same"),
        (None, "moved"),
        ("changed", "changed"),
        ("changed", "changed"),
        ("only", "only"),
        ("changed", "changed"),
    ]
    assert {kind for pair in kinds for kind in pair if kind} == set(MEANINGS)


def test_no_instruction_is_lost() -> None:
    rows = region_rows(REGION)
    for place in ("reference", "variant"):
        cells = [getattr(row, place) for row in rows]
        shown = ["".join(text for text, _ in cell.parts) for cell in cells if cell is not None]
        assert shown == [text for line in REGION.lines if (text := getattr(line, place)) is not None]


def test_only_the_words_that_differ_are_marked() -> None:
    cell = region_rows(REGION)[2]
    assert cell.reference is not None and cell.variant is not None
    assert [text for text, differs in cell.reference.parts if differs] == ["constant.1", "2.5"]
    assert [text for text, differs in cell.variant.parts if differs] == ["constant.2", "2.25"]


def test_the_sentence_names_place_and_operation() -> None:
    assert region_sentence(COMPARISON) == (
        "The first difference is constant.1 of gather, constant.2 of permute, in the body of while.1 of the entry "
        "computation. The first operation among the differences is multiply.1 of gather (jit(f)/mul; scaled in "
        "norm.py), multiply.2 of permute (jit(f)/mul; fused in norm.py)."
    )


def test_a_difference_of_one_side() -> None:
    lines = (REGION.lines[0], REGION.lines[5])
    comparison = replace(COMPARISON, region=replace(REGION, levels=REGION.levels[:1], lines=lines))
    assert region_sentence(comparison) == "The first difference is negate.1 of permute, in the entry computation."


def test_programs_without_a_region_have_no_sentence() -> None:
    assert region_sentence(replace(COMPARISON, region=None)) is None
    assert region_folds(replace(COMPARISON, region=None)) == []


def test_levels_are_counted_on_both_sides() -> None:
    assert level_words(REGION.levels[0]) == (
        "3 of 9 instructions of the reference and 2 of 8 of the variant have no equal"
    )


def test_a_fusion_is_called_by_its_name() -> None:
    fusion = replace(REGION.levels[1], name="fusion.1")
    sentence = region_sentence(replace(COMPARISON, region=replace(REGION, levels=(REGION.levels[0], fusion))))
    assert sentence is not None and ", in fusion.1 of the entry computation." in sentence
