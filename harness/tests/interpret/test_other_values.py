"""Other values at which both programs are evaluated once more, and what they show."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.other_values import Counterexample, counterexamples
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
