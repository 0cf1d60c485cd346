"""Which elements of inputs may change places for a second look at a proof."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.interpret.probes import free_places, stretched
from samebits.interpret.problem import Input, Question

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


def test_inputs_of_which_nothing_is_stated_are_stretched() -> None:
    values = np.array([1.0, -3.0])
    stated = Input("p", np.array([0.5]))
    asked = Question(None, None, [Input("x", values, magnitudes="all"), stated], ["out"])
    tried = {other.words: other.question.inputs for other in stretched(asked)}
    assert list(tried) == [
        "with the inputs 64 times as large",
        "with the inputs 1024 times smaller",
    ]
    assert [inputs[0].values.tolist() for inputs in tried.values()] == [[64.0, -192.0], [2.0**-10, -3 * 2.0**-10]]
    assert all(inputs[1] is stated for inputs in tried.values())


def test_of_several_inputs_each_half_is_stretched_alone() -> None:
    inputs = [Input(name, np.array([1.0]), magnitudes="all") for name in "abc"]
    tried = [
        [float(each.values[0]) for each in other.question.inputs] for other in stretched(Question(0, 0, inputs, "o"))
    ]
    assert tried[2:] == [[64, 1, 64], [1, 64, 1]]


def test_inputs_with_stated_values_are_not_stretched() -> None:
    assert not list(stretched(Question(None, None, [Input("x", np.array([1.0]))], ["out"])))
