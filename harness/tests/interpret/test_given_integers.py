"""What is kept of arrays of integers and booleans that were given, and the others that are tried."""

from typing import Any

import jax
import numpy as np
import pytest

from samebits.interpret.given_integers import GivenFacts, Variation, facts_of, follows, given_arrays, variations
from samebits.interpret.problem import Input, Question


def tried(values: Any, *, sums: bool = False) -> tuple[GivenFacts, list[Variation]]:
    """What is kept of an array, and the others, where a program has an operand of 8 rows of 32."""
    array, x = np.asarray(values), np.zeros((8, 32), np.float32)
    program = jax.make_jaxpr(lambda x, n: (x + jax.numpy.cumsum(n)[-1]) if sums else x + n.sum())(x, array)
    argument = Input("n", array, True, "given", (0, 1))
    question = Question(program, program, [Input("x", x), argument], ["out"])
    facts = facts_of(argument, question)
    return facts, [*variations(argument, question, facts)]


SEGMENTS = [0, 0, 1, 1, 2, 2, 2, 3]

KEPT: dict[str, tuple[Any, str, bool]] = {
    "one number": ([0] * 8, "0 everywhere", True),
    "a mask of ones": (np.ones((2, 4), bool), "True everywhere", True),
    "positions": ([*range(8)], "0 to 7, a permutation", True),
    "positions that begin again": ([0, 1, 2, 0, 1, 2, 3, 0], "0 to 3", True),
    "a permutation": ([3, 1, 0, 2], "0 to 3, a permutation", False),
    "permutations": ([[3, 1, 0, 2], [0, 2, 1, 3]], "0 to 3, a permutation in each row", False),
    "segments": (SEGMENTS, "0 to 3, sorted", False),
    "segments and padding": ([1, 1, 2, 2, 2, 3, 0, 0], "0 to 3, in groups", False),
    "offsets": ([0, 3, 4, 8], "0 to 8, offsets, sorted, distinct", False),
    "ids": ([3, 1, 4, 1, 5], "1 to 5", False),
    "experts of tokens": ([[0, 3], [1, 2], [3, 1], [0, 2]], "0 to 3, distinct in each row", False),
    "coordinates": ([[0, 30], [1, 20], [3, 11], [0, 2]], "0 to 30, distinct in each row, its columns", False),
    "a causal mask": (np.tril(np.ones((4, 4), bool)), "sorted", True),
    "a choice": (np.eye(4, dtype=bool)[[2, 0, 1, 1]], "1 of 4 in each row", False),
    "a mask": (np.array([[1, 0, 1, 1], [0, 1, 1, 0]], bool), "both values", False),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept(name: str) -> None:
    values, words, fixed = KEPT[name]
    facts, others = tried(values)
    assert (str(facts), facts.fixed) == (words, fixed)
    assert others and not any(np.array_equal(other.values, values) for other in others)
    assert any(not other.like for other in others) or "permutation" in words
    assert any(other.like for other in others) != fixed
    for other in (other for other in others if other.like):
        again, _ = tried(other.values)
        assert {*facts.facts} <= {*again.facts, "sorted"}
        assert facts.ends[0] <= again.ends[0] and again.ends[1] <= facts.ends[1]


def test_sizes_of_groups_keep_their_sum() -> None:
    for sizes, like in (([1, 3, 2, 2], True), ([2, 2, 2, 2], False)):
        facts, others = tried(np.array(sizes), sums=True)
        assert any(other.like for other in others) == like
        assert {int(other.values.sum()) for other in others} == {8}
        assert any(0 in other.values for other in others)
    facts, others = tried(np.array([3, 3, 1, 0]), sums=True)
    assert "its sum" in str(facts)
    assert {int(other.values.sum()) for other in others if other.like} <= {7}


def test_beyond_the_range_are_ends_of_axes_and_negative_numbers() -> None:
    _, others = tried([3, 1, 4, 1, 5])
    numbers = {int(number) for other in others for number in other.values}
    assert {-100, -1, 7, 8, 17} <= numbers
    _, others = tried(np.array(SEGMENTS, np.uint8))
    assert min(int(other.values.min()) for other in others) == 0


def test_hashes_are_taken_as_they_are() -> None:
    program = jax.make_jaxpr(lambda n: n)(np.zeros(3, np.int32))
    for numbers, count in (([2**63 - 1, -(2**63), 5], 0), ([2**40, 2, 5], 1)):
        argument = Input("n", np.array(numbers, np.int64), True, "given", (0, 1))
        assert len(given_arrays(Question(program, program, [argument], ["out"]))) == count


def test_rows_stay_sorted() -> None:
    for values in (SEGMENTS, SEGMENTS[::-1], [1, 5, 9, 30]):
        _, others = tried(values)
        padded = [other for other in others if "quarter" in other.words]
        assert bool(padded) == (len(values) == 8)
        kept = [other for other in others if "quarter" not in other.words and "twice" not in other.words]
        steps = [np.diff(other.values) for other in kept]
        assert all(np.all(step >= 0) or np.all(step <= 0) for step in steps)


MADE: dict[str, tuple[Any, Any]] = {
    "equal": ([0, 0, 0], [0, 0, 0]),
    "sizes": (SEGMENTS, [2, 2, 3, 1]),
    "a mask of segments": (SEGMENTS, np.equal.outer(SEGMENTS, SEGMENTS)),
    "lengths": (np.tril(np.ones((3, 4), bool)), [1, 2, 3]),
    "a mask of lengths": ([1, 3, 2], np.arange(4) < np.array([[1], [3], [2]])),
    "the inverse": ([2, 0, 3, 1], [1, 3, 0, 2]),
    "where groups begin": ([3, 1, 4], [0, 3, 4, 8]),
    "what is no padding": ([1, 1, 2, 0], [True, True, True, False]),
    "positions": (SEGMENTS, [0, 1, 0, 1, 0, 1, 2, 0]),
}


@pytest.mark.parametrize("name", MADE)
def test_arrays_that_are_made_of_others_change_with_them(name: str) -> None:
    first, second = (np.asarray(array) for array in MADE[name])
    make = follows(first, second)
    assert make is not None
    made = make(first)
    assert made is not None and np.array_equal(made, second)


def test_positions_are_not_made_of_what_is_sorted() -> None:
    assert follows(np.array(SEGMENTS), np.arange(8)) is None
    assert follows(np.array([3, 1, 2, 0]), np.array([5, 5, 6, 1])) is None
    sizes = follows(np.array(SEGMENTS), np.array([2, 2, 3, 1]))
    assert sizes is not None and sizes(np.array([*SEGMENTS[:7], -1])) is None
