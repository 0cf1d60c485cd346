"""Signs of roots: those of the positive values that were held, however many were held before and after."""

import numpy as np
import pytest

from samebits.interpret.field import residues
from samebits.interpret.field.base import HeldValues

P = residues.PRIMES[0]


def found(held: HeldValues, *roots: list[int]) -> list[list[int] | None]:
    """The signed roots, each a column of residues; None where the sign is not known."""
    signed, known = held.absolute(np.array(roots).T)
    return [column if sure else None for column, sure in zip(signed.T.tolist(), known.tolist(), strict=True)]


def test_a_root_takes_the_sign_of_the_positive_number() -> None:
    held = HeldValues(1)
    held.hold(np.array([[5, 7, 9]]), np.array([1.5, -1.5, 0.0]))
    assert found(held, [5], [P - 5]) == [[5], [5]], "5 is positive"
    assert found(held, [7], [P - 7]) == [[P - 7], [P - 7]], "7 is negative"
    assert found(held, [9], [4]) == [None, None], "of 9 the sign is not sure, and 4 was not held"


def test_each_random_point_has_a_sign_of_its_own() -> None:
    held = HeldValues(2)  # two points, and two rows of each: the rows of the second coordinate follow
    held.hold(np.array([[5], [6], [7], [8]]), np.array([-2.0]))
    opposite = [P - 5, P - 6, P - 7, P - 8]
    assert found(held, [5, P - 6, 7, P - 8]) == [opposite]
    assert found(held, [5, P - 6, 7, 8]) == [None], "both coordinates of a point change their signs together"


def test_the_first_value_that_was_held_decides() -> None:
    held = HeldValues(1)
    held.hold(np.array([[5, P - 5]]), np.array([1.0, 1.0]))
    assert found(held, [5], [P - 5]) == [[5], [P - 5]], "a value itself comes before its negative"
    for rest in (1, 100):
        held = HeldValues(1)
        held.hold(np.array([[5, 5]]), np.array([1.0, -1.0]))
        assert found(held, [5]) == [[5]]
        held.hold(np.full((1, rest), 5), np.full(rest, -1.0))
        assert found(held, [5]) == [[5]]


@pytest.mark.parametrize("seed", range(3))
def test_values_are_found_whenever_they_were_held(seed: int) -> None:
    """The sorted runs in which they are kept are joined as they grow; each is searched."""
    rng, held = np.random.default_rng(seed), HeldValues(1)
    signs: dict[int, int] = {}
    for length in rng.integers(1, 60, 40).tolist():
        values = rng.integers(1, 3000, length)
        shadows = rng.choice([-1.0, 1.0], length)
        held.hold(values[None], shadows)
        for value, shadow in zip(values.tolist(), shadows.tolist(), strict=True):
            signs.setdefault(value, value if shadow > 0 else P - value)
        asked = rng.integers(1, 3000, 50).tolist()
        wanted = [None if each not in signs else [signs[each]] for each in asked]
        assert found(held, *([each] for each in asked)) == wanted
    assert len(signs) > 500
