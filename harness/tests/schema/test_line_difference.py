"""The sentence about a line at which two programs part."""

import pytest

from samebits.schema.line_difference import LineDifference, NamedLines

BOTH = {
    "variant": "pkg/fns.py:41",
    "variant_code": "x * s",
    "reference": "pkg/ref.py:17",
    "reference_code": "x * s * 2",
    "primitive": "mul",
}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            LineDifference(change="other", **BOTH),  # type: ignore[arg-type]
            "pkg/fns.py:41 has `x * s`, the reference's twin at pkg/ref.py:17 has `x * s * 2`",
        ),
        (
            LineDifference(change="missing", iterations=(2,), **BOTH),  # type: ignore[arg-type]
            "pkg/fns.py:41 has `x * s`, the reference's twin at pkg/ref.py:17 has `x * s * 2`: the variant has no such "
            "`mul` (iteration 2)",
        ),
        (
            LineDifference(change="added", variant="fns.py:41", variant_code="x * s", primitive="mul"),
            "fns.py:41 has `x * s`; the reference has nothing like it: the reference has no such `mul`",
        ),
        (
            LineDifference(change="missing", reference="ref.py:17", reference_code="x * 2", primitive="mul"),
            "ref.py:17 has `x * 2` in the reference, the variant nothing like it: the variant has no such `mul`",
        ),
        (
            LineDifference(change="moved", variant="fns.py:4", reference="ref.py:5", iterations=(0, 1, 2, 3, 4)),
            "fns.py:4, the reference's twin at ref.py:5: the same elements in another order (iterations 0, 1, 2, 3, …)",
        ),
        (
            LineDifference(change="other", variant="fns.py:4", calls=("fns.py:9", "fns.py:20"), reference="ref.py:5"),
            "fns.py:4 (called at line 9), the reference's twin at ref.py:5",
        ),
    ],
)
def test_a_line_is_one_sentence(line: LineDifference, sentence: str) -> None:
    assert str(line) == sentence


def test_no_line_has_a_reason() -> None:
    assert NamedLines(why="the programs cannot be aligned").lines == ()
