"""How matrix units take float32 is said where digits are lost by it, and nowhere else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import NotCovered
from samebits.interpret.equation import Step
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.problem import Input, Question
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.estimate import loses_most
from samebits.interpret.rounding_error.rules import PASSES, precision_of, taken_as
from samebits.interpret.rounding_error.step_bounds import lifted

X = np.linspace(0.1, 1, 16, dtype=np.float32)


def product(dtype: str = "float32", **words: Any) -> Step:
    """The step of an inner product."""
    x = jnp.asarray(X, dtype)
    closed = jax.make_jaxpr(lambda a, b: jnp.dot(a, b, **words))(x, x)
    return next(Step.of(one) for one in closed.jaxpr.eqns if one.primitive.name == "dot_general")


@pytest.mark.parametrize(
    ("platform", "precision", "expected"),
    [
        ("cpu", None, None),
        ("gpu", None, "TensorFloat-32"),
        ("gpu", "high", "TensorFloat-32"),
        ("gpu", "highest", None),
        ("tpu", None, "bfloat16"),
        ("tpu", "high", "3 x bfloat16"),
        ("tpu", "highest", "6 x bfloat16"),
    ],
)
def test_float32_is_taken_in_the_digits_of_the_unit(platform: str, precision: Any, expected: str | None) -> None:
    assert taken_as(product(precision=precision), platform) == expected


@pytest.mark.parametrize("platform", PASSES)
def test_other_dtypes_and_operations_are_taken_as_they_are(platform: str) -> None:
    assert taken_as(product("bfloat16"), platform) is None
    (added,) = jax.make_jaxpr(jnp.add)(X, X).jaxpr.eqns
    assert taken_as(Step.of(added), platform) is None


def test_the_lower_of_two_precisions_counts() -> None:
    assert precision_of(product(precision=("highest", "high"))) == "HIGH"


def test_an_algorithm_is_not_covered() -> None:
    with pytest.raises(NotCovered, match=r"the algorithm .* has no bound"):
        precision_of(product(precision="TF32_TF32_F32"))


@pytest.mark.parametrize(("platform", "said"), [("cpu", "[float32, 16"), ("gpu", "[float32 as TensorFloat-32, 16")])
def test_what_loses_most_says_what_it_takes(platform: str, said: str) -> None:
    """A sum by a product loses digits on a GPU that the sum keeps."""
    closed = jax.make_jaxpr(lambda x: x @ jnp.full((16,), 0.3))(X)
    (found,) = Interpreter(RoundingDomain(platform), platform)(closed, lifted(X))
    assert found.loses_most is not None and found.loses_most.startswith(f"dot_general{said} summands] at "), found


@pytest.mark.parametrize(("platform", "said"), [("tpu", "float32 as bfloat16"), ("gpu", "float32 as TensorFloat-32")])
def test_so_does_the_operation_that_explains_one_element(platform: str, said: str) -> None:
    closed = jax.make_jaxpr(lambda x: x @ jnp.full((16,), 0.3))(X)
    question = Question(closed, closed, [Input("x", X)], ["out"])
    named = loses_most(closed, question, platform, "out", (), 1e-4)
    assert named is not None and str(named).startswith(f"dot_general[{said}, 16 summands] at "), named
