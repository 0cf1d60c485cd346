"""What only fills masked places, and what is as large and does not."""

import numpy as np
import pytest

from samebits.numerics.fills import fills

SMALL = np.array([3.0, 1.0])

CASES: dict[str, tuple[list[float], float, bool]] = {
    "a mask of -1e30": ([-1e30] * 3, 2.0, True),
    "a mask of the largest float32": ([float(np.finfo(np.float32).min)], 2.0, True),
    "both ends": ([-1e30, 1e30, -1e30], 2.0, True),
    "ones": ([1.0] * 3, 1e-9, False),
    "numbers of many values": ([1e20, 2e20, 3e20], 2.0, False),
    "a number that is not far above": ([-1e4] * 3, 2.0, False),
    "nothing differs": ([-1e30] * 3, 0.0, False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fill_is_constant_and_far_above_what_differs(name: str) -> None:
    large, apart, is_fill = CASES[name]
    first, second = (np.concatenate([np.array(large), scale * SMALL]) for scale in (1.0, 1 + apart))
    which = fills(first, second, np.ones(first.shape, bool))
    assert which.tolist() == [is_fill] * len(large) + [False, False]


def test_other_numbers_on_one_side_are_not_a_fill() -> None:
    first, second = np.array([-1e30, 1.0]), np.array([-2e30, 2.0])
    assert not fills(first, second, np.ones(2, bool)).any()
