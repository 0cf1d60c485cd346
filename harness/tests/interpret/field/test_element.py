"""How large the numbers are that a sum was added up from, where float64 does not show it."""

import numpy as np
import pytest

from samebits.interpret.field.element import DegreeBounds, FieldElement, rounded_off, sum_reach


def number(value: float, reach: float | None = None) -> FieldElement:
    """An element of one number."""
    size = None if reach is None else np.array([reach])
    return FieldElement((np.zeros((1, 1), np.int64),), np.array([value]), DegreeBounds(1), size)


@pytest.mark.parametrize(
    ("first", "second", "reach"),
    [
        (1.0, 2.0, 0.0),
        (1.0, 1e-70, 3.0),
        (1e-70, 1.0, 3.0),
        (-1.0, 1e-70, 3.0),
        (1.0, 0.0, 0.0),
        (0.5, 0.25, 0.3125**0.5),
    ],
)
def test_a_term_that_leaves_no_trace_is_no_exact_sum(first: float, second: float, reach: float) -> None:
    found = sum_reach(np.array([first + second]), number(first), number(second))
    assert float(np.broadcast_to(found, (1,))[0]) == pytest.approx(reach)


def test_a_difference_from_what_was_rounded_is_no_exact_zero() -> None:
    assert not np.any(sum_reach(np.zeros(1), number(1.0), number(-1.0)))
    assert np.all(sum_reach(np.zeros(1), number(1.0), number(-1.0, 3.0)) > 3)


def test_what_is_rounded_to_a_whole_number_has_a_reach() -> None:
    shadow = np.array([1.0, 0.5])
    assert rounded_off(shadow, np.array([False, False]), None) is None
    reach = rounded_off(shadow, np.array([True, False]), None)
    assert reach is not None and reach.tolist() == [3.0, 0.5]
