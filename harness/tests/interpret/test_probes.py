"""Inputs of other magnitudes for a second look at a proof."""

import numpy as np

from samebits.interpret.probes import stretched
from samebits.interpret.problem import Input, Question


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


def asked(count: int) -> Question:
    inputs = [Input(f"a{number}", np.eye(3) + number, magnitudes="all") for number in range(count)]
    return Question(None, None, inputs, ["out"])


def test_the_rows_of_all_inputs_are_alike_at_once_however_many() -> None:
    alike = [other for other in stretched(asked(40)) if "alike" in other.words]
    assert [len(other.names) for other in alike] == [40, 20, 20]
    assert set(alike[1].names) | set(alike[2].names) == set(alike[0].names)
    assert len(list(stretched(asked(40)))) == len(list(stretched(asked(2)))) == 7


def test_halves_lead_to_the_one_input_that_shows_it() -> None:
    other = next(other for other in stretched(asked(5)) if "alike" in other.words)
    assert other.words == "with the rows of 'a0', 'a1', 'a2' and 2 more nearly alike"
    assert [half.names for half in other.halves] == [("a0", "a1"), ("a2", "a3", "a4")]
    assert [half.words for half in other.halves[0].halves] == [
        "with the rows of 'a0' nearly alike",
        "with the rows of 'a1' nearly alike",
    ]
    assert other.halves[0].halves[0].halves == []


def test_inputs_of_the_other_sign_are_tried_for_roots() -> None:
    assert not any("negated" in other.words for other in stretched(asked(1)))
    (negated,) = (other for other in stretched(asked(1), negated=True) if "negated" in other.words)
    assert negated.words == "with the inputs negated and 64 times as large"
    assert np.array_equal(negated.question.inputs[0].values, -64 * np.eye(3))


def test_rows_are_nearly_alike_and_no_two_equal() -> None:
    rows = np.array([[1.0, 2.0], [-3.0, 5.0], [4.0, 1.0]])
    line = Input("line", np.array([1.0, 2.0]), magnitudes="all")
    asked = Question(None, None, [Input("x", rows, magnitudes="given"), line], ["out"])
    (alike,) = (other for other in stretched(asked) if "alike" in other.words)
    changed, same = alike.question.inputs
    assert (alike.words, alike.beyond_given, same) == ("with the rows of 'x' nearly alike", True, line)
    assert np.allclose(changed.values, rows[0], atol=0.01) and len(np.unique(changed.values[:, 0])) == 3
