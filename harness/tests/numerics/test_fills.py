"""What only fills masked places, and what is as large and does not."""

import numpy as np
import pytest

from samebits.numerics.bits import free_places
from samebits.numerics.by_content import MOST, by_content
from samebits.numerics.fills import fills
from samebits.numerics.floats import Array

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


# --- which elements of arrays may change places ----------------------------------------------------------------------

DRAWN = np.random.default_rng(5).normal(size=(6, 8))
SPARSE = np.where(np.arange(48).reshape(6, 8) % 2, 0, DRAWN)


def test_the_elements_of_a_random_draw_are_free() -> None:
    assert free_places(DRAWN).tolist() == list(range(48))


def test_of_many_equal_elements_the_others_are_free() -> None:
    assert free_places(SPARSE).tolist() == list(range(0, 48, 2))


@pytest.mark.parametrize(
    "array",
    [
        np.ones((6, 8)),
        np.zeros(4),
        np.eye(6),
        np.where(np.arange(48).reshape(6, 8) % 6, 0, DRAWN),
        np.arange(8.0),
        np.tril(DRAWN[:, :6] + DRAWN[:, :6].T) + np.tril(DRAWN[:, :6] + DRAWN[:, :6].T, -1).T,
        np.exp(DRAWN) / np.exp(DRAWN).sum(-1, keepdims=True),
        np.where(DRAWN > 1, np.inf, DRAWN),
        np.array([3.0]),
    ],
    ids=["ones", "zeros", "one-hot", "few", "sorted", "symmetric", "rows of sum 1", "infinite", "single"],
)
def test_structured_inputs_stay_as_they_are(array: np.ndarray) -> None:
    assert free_places(array).size == 0


# --- A function of an array is called once for each content, and for every other content again -----------------------


def counting() -> tuple[list[Array], object]:
    calls: list[Array] = []

    @by_content
    def total(array: Array) -> float:
        calls.append(array)
        return float(array.sum())

    return calls, total


def test_one_content_is_looked_at_once() -> None:
    calls, total = counting()
    assert [total(np.arange(6.0)), total(np.arange(6.0)), total(np.arange(12.0)[:6])] == [15.0] * 3  # type: ignore[operator]
    assert len(calls) == 1


def test_another_content_shape_dtype_or_order_is_another_array() -> None:
    calls, total = counting()
    x = np.arange(6.0)
    for array in (x, x + 1, x.reshape(2, 3), x.reshape(2, 3).T, x.astype(np.float32), x.view(np.int64)):
        total(array)  # type: ignore[operator]
    x[0] = 9
    assert total(x) == 24  # type: ignore[operator]
    assert len(calls) == 7


def test_few_arrays_are_remembered() -> None:
    calls, total = counting()
    for number in range(MOST + 1):
        total(np.full(2, float(number)))  # type: ignore[operator]
    total(np.full(2, 0.0))  # type: ignore[operator]
    assert len(calls) == MOST + 2
