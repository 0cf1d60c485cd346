"""Where two programs differ in float64 by more than rounding hides."""

from __future__ import annotations

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


def test_rounding_hides_more_in_a_shorter_dtype() -> None:
    def both(x: Any) -> Question:
        return asked(lambda x: x, lambda x: x * 1.05, x)

    assert "out" in differences(both(X), ["out"])
    assert differences(both(X.astype(jnp.bfloat16)), ["out"]) == {}
    assert hidden(both(X.astype(jnp.bfloat16)), "out") == 0.25


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
