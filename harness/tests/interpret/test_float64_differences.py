"""Where two programs differ in float64 by more than rounding hides."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.float64_differences import differences, hidden
from samebits.interpret.problem import Input, Question

X = np.array([-1.0, 0.5, 2.0], np.float32)
Side = Callable[..., Any]


def asked(reference: Side, variant: Side, x: Any = X) -> Question:
    first, second = (jax.make_jaxpr(side)(x) for side in (reference, variant))
    return Question(first, second, [Input("x", np.asarray(x))], ["out"])


@pytest.mark.parametrize(
    ("reference", "variant", "words"),
    [
        (lambda x: x, lambda x: x * 1.001, "out[0] is -1.0 in the reference, -1.001"),
        (lambda x: x, lambda x: jnp.where(x < 0, jnp.nan, x), "out[0] is -1.0 in the reference, nan here"),
        (lambda x: x / 0, lambda x: -x / 0, "out[0] is -inf in the reference, inf here"),
        (lambda x: jnp.sign(x).astype(jnp.int8), lambda x: jnp.ones_like(x, jnp.int8), "out[0] is -1 in the reference"),
    ],
    ids=["factor", "NaN", "infinity", "integers"],
)
def test_a_difference_is_told_with_its_place(reference: Side, variant: Side, words: str) -> None:
    assert differences(asked(reference, variant), ["out"])["out"].startswith(words)


@pytest.mark.parametrize(
    ("reference", "variant"),
    [
        (lambda x: x, lambda x: x * (1 + 2.0**-19)),
        (lambda x: jnp.log(x), lambda x: jnp.log(x) + 0),
        (lambda x: x / 0, lambda x: 2 * x / 0),
    ],
    ids=["what rounding hides", "NaN on both sides", "equal infinities"],
)
def test_what_is_as_good_as_equal_is_not(reference: Side, variant: Side) -> None:
    assert differences(asked(reference, variant), ["out"]) == {}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn"])
def test_a_short_dtype_hides_no_more_in_float64(dtype: str) -> None:
    x = X.astype(dtype)
    off = asked(lambda x: x, lambda x: (x.astype(jnp.float32) * 1.001).astype(x.dtype), x)
    assert "out" in differences(off, ["out"])
    assert hidden(asked(lambda x: x, lambda x: x, x), "out") == 2.0**-18


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_rounded_constants_explain_is_no_difference(dtype: str) -> None:
    table = np.cos(1.1 * np.arange(3))
    rounded = table.astype(dtype)
    assert differences(asked(lambda x: x * table, lambda x: x * rounded), ["out"]) == {}
    assert "out" in differences(asked(lambda x: x * table, lambda x: x * rounded * 1.02), ["out"])


def centred(x: Any) -> Any:
    return x - x.mean()


def test_where_all_cancels_float64_leaves_noise() -> None:
    x = np.array([0.1, 0.7, 64.3], np.float32)
    question = asked(lambda x: centred(x).sum()[None], lambda x: (centred(x) + 1).sum()[None] - 3, x)
    assert differences(question, ["out"]) == {}
    moved = asked(lambda x: centred(x).sum()[None], lambda x: (centred(x) + 1).sum()[None] - 3.0001, x)
    assert "out" in differences(moved, ["out"])


def logs(x: Any) -> Any:
    return jnp.log(jnp.abs(x) + 1) + jnp.log(jnp.abs(x) + 2)


def log(x: Any) -> Any:
    return jnp.log((jnp.abs(x) + 1) * (jnp.abs(x) + 2))


def test_what_is_certain_is_finite_and_beyond_noise() -> None:
    def certain(reference: Side, variant: Side, x: Any = X) -> dict[str, str]:
        return differences(asked(reference, variant, x), ["out"], certain=["out"])

    assert "out" in certain(logs, lambda x: log(x) * 1.001)
    assert certain(logs, log) == {}
    large = 1000 * X
    assert certain(lambda x: 1 / jnp.log(1 + jnp.exp(x)), lambda x: 1 / jax.nn.softplus(x), large) == {}
    assert "out" in differences(
        asked(lambda x: 1 / jnp.log(1 + jnp.exp(x)), lambda x: 1 / jax.nn.softplus(x), large), ["out"]
    )
    overflows = np.array([1.0, 500.0, 2000.0], np.float32)
    tie = asked(lambda x: jnp.where(jnp.exp(x) == jnp.exp(x + 100), 1.0, 2.0), lambda x: 2 + 0 * x, overflows)
    assert "out" in differences(tie, ["out"]) and differences(tie, ["out"], certain=["out"]) == {}
    near = asked(lambda x: jnp.where(x * 3 / 3 > x, 1.0, 2.0), lambda x: 1 + 0 * x)
    assert "out" in differences(near, ["out"]) and differences(near, ["out"], certain=["out"]) == {}


def test_other_inputs_and_outputs_are_not_taken_for_these() -> None:
    question = asked(jnp.abs, lambda x: x)
    assert "out" in differences(question, ["out"])
    assert differences(question, []) == {}
    assert differences(Question(question.reference, question.variant, [Input("x", np.abs(X))], ["out"]), ["out"]) == {}


def test_a_program_without_values_says_nothing() -> None:
    def called(x: Any) -> Any:
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    assert differences(asked(called, lambda x: 2 * x), ["out"]) == {}
    first, second = (jax.make_jaxpr(lambda x, k=k: (called(x), k * x))(X) for k in (2, 3))
    question = Question(first, second, [Input("x", X)], ["callback", "out"])
    assert list(differences(question, ["callback", "out"])) == ["out"]


def test_infinities_that_move_warn_of_nothing() -> None:
    def first(x: Any) -> Any:
        return jnp.concatenate([jnp.exp(1000 * x), x])[::-1] * jnp.exp(500 * x[0])

    assert "out" in differences(asked(first, lambda x: first(x) * 1.001), ["out"])  # warnings are errors
