"""Counts over leaves that were compiled again under other options."""

from samebits.schema.finding import Finding, shake_of, standing
from samebits.schema.result import Outcome, ShakenLeaf
from tests.support.documents import result


def shaken(*outcomes: Outcome, moved: bool | None = None) -> Finding:
    leaves = (
        ShakenLeaf(option=f"o{number}", outcome=outcome, verdict="bitwise", reference_moved=moved)
        for number, outcome in enumerate(outcomes)
    )
    return result(shaken=tuple(leaves))


def test_a_leaf_stands_as_its_gravest_outcome() -> None:
    assert standing(shaken("robust", "fragile", "no effect")) == "fragile"
    assert standing(shaken("error", "broken")) == "broken"
    assert standing(shaken("no effect")) == "not moved"


def test_options_and_leaves_are_counted_apart() -> None:
    summary = shake_of([shaken("robust", "no effect", moved=True), shaken("fragile", "no effect"), result()], {}, {})
    first, second = summary.options
    assert (first.option, first.outcomes, first.reference_moved) == ("o0", {"robust": 1, "fragile": 1}, 1)
    assert first.effect and not second.effect
    assert summary.leaves == {"fragile": 1, "robust": 1}, "a leaf that was not shaken is not counted"
