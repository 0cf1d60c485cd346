"""Other values at which both programs are evaluated once more, and what they show."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.given_integers import GivenFacts, Variation, facts_of, follows, given_arrays, variations
from samebits.interpret.other_values import Counterexample, counterexamples
from samebits.interpret.probes import stretched
from samebits.interpret.problem import Input, Magnitudes, Question

X = np.arange(1, 9, dtype=np.float32) / 8
Side = Callable[..., Any]


def seen(
    reference: Side, variant: Side, values: Any, between: tuple[int, int], magnitudes: Magnitudes = "all"
) -> Counterexample | None:
    integers = np.asarray(values)
    first, second = (jax.make_jaxpr(side)(X, integers) for side in (reference, variant))
    argument = Input("n", integers, True, magnitudes, between)
    return counterexamples(Question(first, second, [Input("x", X), argument], ["out"])).get("out")


def branch(x: Any, n: Any) -> Any:
    return jax.lax.cond(n, lambda x: 2 * x, lambda x: x, x)


def other_branch(x: Any, n: Any) -> Any:
    return jnp.where(n, 2 * x, 3 * x)


def clamped(x: Any, n: Any) -> Any:
    return jax.lax.dynamic_update_slice(x, jnp.zeros(1, x.dtype), (n,))


def dropped(x: Any, n: Any) -> Any:
    return x.at[n].set(0, mode="drop")


def decayed(x: Any, n: Any) -> Any:
    return jnp.where(n % 10 == 0, 0.5 * x, x)


def mean_of_segments(x: Any, n: Any) -> Any:
    ones = jax.ops.segment_sum(jnp.ones_like(x), n, 4)
    return jax.ops.segment_sum(x, n, 4) / jnp.maximum(ones, 1)


def mean_without_empty(x: Any, n: Any) -> Any:
    return jax.ops.segment_sum(x, n, 4) / jax.ops.segment_sum(jnp.ones_like(x), n, 4)


def sum_in(dtype: Any) -> Side:
    return lambda x, n: n.sum(dtype=dtype).astype(jnp.float32) * x


def moments(epsilon: float, *, alike: bool = False) -> Side:
    """A step of Adam whose epsilon is another one at first, by less than rounding hides."""

    def step(x: Any, n: Any) -> Any:
        second = x * x / (1 - 0.999 ** (n + 1.0))
        root = x / jnp.sqrt(1 - 0.999 ** (n + 1.0)) if alike else jnp.sqrt(second)
        return x / (root + jnp.where(n < 5, epsilon, 1e-8))

    return step


FAULTS: dict[str, tuple[Side, Side, Any, tuple[int, int], str]] = {
    "an epsilon of early steps": (moments(1e-8), moments(2e-8), np.int32(777), (0, 1000), "with 'n' = 0"),
    "a branch that is not taken": (branch, other_branch, np.bool_(True), (0, 1), "with 'n' = False"),
    "an index out of range": (clamped, dropped, np.int32(3), (0, 8), "with 'n' = 8"),
    "a step that is a multiple": (decayed, lambda x, n: x, np.int32(777), (0, 1000), "with 'n' = 0"),
    "a branch beside a fill": (
        lambda x, n: jnp.where(np.arange(8) < 4, jnp.where(n == 30, 2 * x, x), -1e30),
        lambda x, n: jnp.where(np.arange(8) < 4, x, -1e30),
        np.int32(777),
        (0, 1000),
        "with 'n' = 30",
    ),
    "a threshold": (
        lambda x, n: jnp.where(n < 300, x, 0),
        lambda x, n: jnp.where(n <= 300, x, 0),
        np.int32(777),
        (0, 100_000),
        "with 'n' = 300",
    ),
    "a schedule of small steps": (
        lambda x, n: x * jnp.minimum(n / 500, 1.0),
        lambda x, n: x * jnp.minimum((n + 1) / 500, 1.0),
        np.arange(8, dtype=np.int32) + 99_000,
        (-(2**31), 2**31 - 1),
        "with 'n' of 0, 1, ... ",
    ),
    "an empty segment": (
        mean_of_segments,
        mean_without_empty,
        np.array([0, 1, 2, 3, 0, 1, 2, 3], np.int32),
        (0, 3),
        "with 'n' = 0 everywhere",
    ),
    "a sum that overflows": (
        sum_in(jnp.int32),
        sum_in(jnp.int8),
        np.arange(8, dtype=np.int32),
        (0, 127),
        "with 'n' = 127 everywhere",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_other_integers_show_what_those_of_the_case_do_not(fault: str) -> None:
    reference, variant, values, between, words = FAULTS[fault]
    shown = seen(reference, variant, values, between)
    assert shown is not None and shown.allowed
    assert words in shown.words and shown.words.startswith("out[")
    assert seen(reference, reference, values, between) is None


def test_of_given_integers_they_may_not_be_allowed() -> None:
    shown = seen(branch, other_branch, np.bool_(True), (0, 1), "given")
    assert shown is not None and not shown.allowed


def test_a_mask_that_is_false_everywhere_may_not_be_allowed() -> None:
    mask = np.array([True, False] * 4)
    shown = seen(
        lambda x, n: jnp.where(n, x, 0).sum() / n.sum(),
        lambda x, n: jnp.where(n, x, 0).sum() / jnp.maximum(n.sum(), 1),
        mask,
        (0, 1),
    )
    assert shown is not None and not shown.allowed and "'n' = False everywhere" in shown.words


def test_integers_below_two_may_be_equal_everywhere() -> None:
    """All tokens may choose the first of two experts."""
    shown = seen(mean_of_segments, mean_without_empty, np.array([0, 1] * 4, np.int32), (0, 1))
    assert shown is not None and shown.allowed


def test_stated_integers_are_taken_at_their_word() -> None:
    assert seen(decayed, lambda x, n: x, np.int32(7), (0, 1000), "stated") is None


def rows(reference: Side, variant: Side, *arrays: Any, magnitudes: Magnitudes = "all") -> Counterexample | None:
    """What is seen of two sides whose arguments are floats."""
    first, second = (jax.make_jaxpr(side)(*arrays) for side in (reference, variant))
    names = "xyzuvw"[: len(arrays)]
    inputs = [Input(name, array, magnitudes=magnitudes) for name, array in zip(names, arrays, strict=True)]
    return counterexamples(Question(first, second, inputs, ["out"])).get("out")


def norm(x: Any) -> Any:
    return jnp.sqrt((x * x).sum(-1, keepdims=True))


TABLE = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def normed(x: Any, *, twice: bool) -> Any:
    """Rows of length 1, zero where they are zero; without the second `where`, the gradient there is NaN."""
    squares = (x * x).sum(-1, keepdims=True)
    root = jnp.sqrt(jnp.where(squares > 0, squares, 1)) if twice else jnp.sqrt(squares)
    return jnp.where(squares > 0, x / root, 0)


ZERO: dict[str, tuple[Side, Side, tuple[Any, ...], str]] = {
    "a row without a norm": (
        lambda x: x / norm(x),
        lambda x: x / jnp.where(norm(x) > 0, norm(x), 1),
        (TABLE,),
        "out[0, 0, 0] is nan in the reference, 0.0 here, in float64, with 'x' zero in its first row",
    ),
    "a choice among equals": (
        lambda x: jax.lax.top_k(x, 1)[1],
        lambda x: jnp.flip(jnp.argsort(x), -1)[..., :1],
        (TABLE,),
        "out[0, 0, 0] is 0 in the reference, 3 here, in float64, with 'x' zero in its first row",
    ),
    "the slope of a kink": (
        lambda x: jax.grad(lambda x: jax.nn.relu(x).sum())(x),
        lambda x: jax.grad(lambda x: jnp.maximum(x, 0).sum())(x),
        (TABLE,),
        "with 'x' zero in its first row",
    ),
    "a gradient with one where": (
        lambda x: jax.grad(lambda x: normed(x, twice=True).sum())(x),
        lambda x: jax.grad(lambda x: normed(x, twice=False).sum())(x),
        (TABLE,),
        "out[0, 0, 0] is 0.0 in the reference, nan here, in float64, with 'x' zero in its first row",
    ),
    "the third argument": (
        lambda x, y, z: x + y + jnp.sign(z),
        lambda x, y, z: x + y + jnp.where(z >= 0, 1, -1),
        (X, X, X),
        "with 'z' zero in element 2",
    ),
    "a number": (
        lambda x: jnp.log(x * x),
        lambda x: jnp.log(jnp.maximum(x * x, 1e-30)),
        (np.float32(0.5),),
        "with 'x' = 0",
    ),
    "a column": (
        lambda x: x / jnp.abs(x),
        lambda x: jnp.sign(x),
        (np.ones((4, 1), np.float32),),
        "with 'x' zero in its first element",
    ),
}


@pytest.mark.parametrize("fault", ZERO)
def test_a_row_of_zeros_shows_what_drawn_numbers_do_not(fault: str) -> None:
    reference, variant, arrays, words = ZERO[fault]
    for magnitudes in ("all", "given"):
        shown = rows(reference, variant, *arrays, magnitudes=magnitudes)
        assert shown is not None and not shown.allowed
        assert shown.words.startswith("out[") and shown.words.endswith(words)
    assert rows(reference, reference, *arrays) is None
    assert rows(reference, variant, *arrays, magnitudes="stated") is None


def test_a_row_of_zeros_is_tried_after_integers() -> None:
    x, n = TABLE, np.array(7, np.int32)
    first = jax.make_jaxpr(lambda x, n: jnp.where(n == 0, 2, 1) * x / norm(x))(x, n)
    second = jax.make_jaxpr(lambda x, n: x / jnp.where(norm(x) > 0, norm(x), 1))(x, n)
    inputs = [Input("x", x, magnitudes="all"), Input("n", n, False, "given", (0, 1000))]
    shown = counterexamples(Question(first, second, inputs, ["out"]))["out"]
    assert shown.words.endswith("with 'n' = 0") and not shown.allowed


ALIKE_AT_ZERO: dict[str, tuple[Side, Side, tuple[Any, ...]]] = {
    "a softmax by its parts": (
        jax.nn.softmax,
        lambda x: jnp.exp(x - x.max(-1, keepdims=True)) / jnp.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
        (TABLE,),
    ),
    "an RMSNorm by a product": (
        lambda x: x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6),
        lambda x: x * jax.lax.rsqrt(jnp.einsum("...d,...d->...", x, x)[..., None] / 4 + 1e-6),
        (TABLE,),
    ),
    "a norm with one where": (functools.partial(normed, twice=True), functools.partial(normed, twice=False), (TABLE,)),
    "no norm on both sides": (lambda x: x / norm(x), lambda x: x * (1 / norm(x)), (TABLE,)),
    "no elements": (jnp.sort, jnp.sort, (np.zeros((0, 4), np.float32),)),
    "zeros": (lambda x: x / norm(x), lambda x: x / jnp.where(norm(x) > 0, norm(x), 1), (np.zeros((2, 4), np.float32),)),
}


@pytest.mark.parametrize("rewrite", ALIKE_AT_ZERO)
def test_honest_rewrites_hold_at_a_row_of_zeros(rewrite: str) -> None:
    reference, variant, arrays = ALIKE_AT_ZERO[rewrite]
    assert rows(reference, variant, *arrays) is None


HONEST: dict[str, tuple[Side, Side, Any, tuple[int, int]]] = {
    "gather and one-hot": (
        lambda x, n: x[n],
        lambda x, n: jax.nn.one_hot(n, 8, dtype=x.dtype) @ x,
        np.array([3, 1, 4], np.int32),
        (0, 7),
    ),
    "remainder and mask": (lambda x, n: x * (n % 8), lambda x, n: x * (n & 7), np.int32(77), (-1000, 1000)),
    "branch and where": (branch, lambda x, n: jnp.where(n, 2 * x, x), np.bool_(True), (0, 1)),
    "a root in parts": (moments(1e-8), moments(1e-8, alike=True), np.int32(777), (0, 1000)),
    "a rounded third": (lambda x, n: n * x / 3, lambda x, n: x * n * np.float32(1 / 3), np.int32(777), (0, 1000)),
    "warm-up by where": (
        lambda x, n: x * jnp.minimum(n / 500, 1.0),
        lambda x, n: x * jnp.where(n < 500, n * 0.002, 1.0),
        np.int32(777),
        (0, 100_000),
    ),
}


@pytest.mark.parametrize("rewrite", HONEST)
def test_honest_rewrites_hold_for_other_integers(rewrite: str) -> None:
    assert seen(*HONEST[rewrite]) is None


# --- what is kept of arrays of integers and booleans that were given, and the others that are tried ------------------


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


# --- inputs of other magnitudes for a second look at a proof ---------------------------------------------------------


def test_inputs_of_which_nothing_is_stated_are_stretched() -> None:
    values = np.array([1.0, -3.0])
    stated = Input("p", np.array([0.5]))
    asked = Question(None, None, [Input("x", values, magnitudes="all"), stated], ["out"])
    tried = {other.words: other.question.inputs for other in stretched(asked)}
    assert list(tried) == ["with the inputs 64 times as large", "with the inputs 1024 times smaller"]
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
