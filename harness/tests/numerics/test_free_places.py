"""Which elements of arrays may change places."""

import numpy as np
import pytest

from samebits.numerics.bits import free_places

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
