"""Outputs that are zero except for rounding, and literals that their dtype cannot represent: the scale of errors."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.error_groups import error_ratios
from samebits.check.sequential_test import compare_accuracy
from samebits.host import environment
from samebits.interpret.field_proof.float64_noise import Excuses, floor_of, floored_values
from samebits.interpret.rounding_error.estimate import estimate_errors, ideal_values
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from samebits.testing.asserts import assert_same_bits
from tests.interpret.executed import asked
from tests.support.toys import alone, run, toy

environment.prepare()

Array = Any
F32 = np.float32
ROUNDING = (Contract(lowest="rounding", reason="other operations"),)
X = np.random.default_rng(5).normal(size=(6, 12)).astype(F32)


def softmax(x: Array, *, factor: float = 2.0) -> Array:
    return jax.nn.softmax(x, -1)


def of_logarithms(x: Array, *, factor: float = 2.0) -> Array:
    return jnp.exp(jax.nn.log_softmax(x, -1))


def in_bfloat16(x: Array, *, factor: float = 2.0) -> Array:
    return jax.nn.softmax(x.astype(jnp.bfloat16), -1).astype(x.dtype)


def slightly_hotter(x: Array, *, factor: float = 2.0) -> Array:
    """Its rows add up to 1.00001."""
    return jax.nn.softmax(x, -1) * 1.00001 + 1e-6 * x


def gradient(variant: Callable[..., Array]) -> Finding:
    """The gradient of a softmax, at cotangents of which one is all ones: there it is zero but for rounding."""
    (found,) = run(toy(softmax, other=variant), alone("other", "gradient"), contracts=ROUNDING, meshes=("data1",))
    return found


def test_a_gradient_that_is_zero_but_for_rounding_is_rounding() -> None:
    found = gradient(of_logarithms)
    assert found.ruling.verdict == "rounding", found


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("variant", "says"), [(in_bfloat16, "loses accuracy"), (slightly_hotter, "not the same mathematics")]
)
def test_faults_in_such_a_gradient_are_different(variant: Callable[..., Array], says: str) -> None:
    found = gradient(variant)
    assert found.ruling.verdict == "different" and says in str(found.ruling.evidence), found


# --- the floor, in numbers -------------------------------------------------------------------------------------------


def pulled(function: Callable[..., Array]) -> Callable[[Array], Array]:
    return lambda x: jax.vjp(function, x)[1](jnp.ones(x.shape, x.dtype))[0]


def test_the_floor_is_the_bound_where_values_cancel() -> None:
    """Half of the rows of a softmax are multiplied by one cotangent each, and cancel; the others do not."""
    weights = np.ones(X.shape, F32)
    weights[3:] = np.arange(12)

    def loss(x: Array) -> Array:
        return jnp.sum(jax.nn.softmax(x, -1) * weights)

    question = asked(jax.grad(loss), jax.grad(loss), X)
    (name,) = question.outputs
    found = floored_values(question, "cpu")[name]
    bound = estimate_errors(question.reference, question, "cpu").bounds[name]
    assert found.floor is not None
    assert_same_bits(found.floor[:3], bound[:3])
    assert np.all(found.floor[:3] > 0) and not found.floor[3:].any()
    plain = asked(lambda x: x * 3 - 1, lambda x: x, X)
    judged = estimate_errors(plain.reference, plain, "cpu")
    output = plain.outputs[0]
    assert floor_of(judged.values[output], judged.bounds[output], Excuses(plain).float64, output) is None


def test_only_errors_above_the_floor_count_as_losses() -> None:
    rng = np.random.default_rng(0)
    ideal, floor = rng.normal(size=(8, 16)) * 1e-17, np.full((8, 16), 1e-7)
    exact = np.zeros((8, 16), F32)

    def lossy(size: float, floor: Any) -> bool:
        def ratios(number: int, labels: Any = ()) -> Any:
            left = np.random.default_rng([3, number]).uniform(-size, size, (8, 16)).astype(F32)
            return {"x": error_ratios(exact, left, ideal, floor)}

        return compare_accuracy(ratios(0), ratios, 2.0).lossy

    assert lossy(5e-8, None), "without a floor what the reference happens to leave decides"
    assert not lossy(5e-8, floor)
    assert lossy(1e-6, floor)
    assert not lossy(1e-7, floor)


# --- literals ----------------------------------------------------------------------------------------------------


def test_the_ideal_value_is_that_of_the_literal_that_was_written() -> None:
    question = asked(lambda x: 0.9 * x, lambda x: x - 0.1 * x, X)
    (name,) = question.outputs
    ideal = ideal_values(question.reference, question)[name]
    assert_same_bits(ideal, 0.9 * X.astype(np.float64))
    np.testing.assert_allclose(ideal_values(question.variant, question)[name], ideal, rtol=1e-15)
    judged = estimate_errors(question.reference, question, "cpu")
    assert np.all(np.abs(F32(0.9) * X - judged.values[name]) <= judged.bounds[name])
    wrong = F32(0.9000001)  # another literal is another number
    apart = ideal_values(asked(lambda x: wrong * x, lambda x: x, X).reference, question)[name] - ideal
    assert np.max(np.abs(apart)) > 5e-8


def test_a_table_of_numbers_is_taken_as_it_is() -> None:
    table = np.random.default_rng(1).uniform(size=5000).astype(F32)
    question = asked(lambda x: x + table, lambda x: x, np.zeros(5000, F32))
    found = ideal_values(question.reference, question)[question.outputs[0]]
    assert_same_bits(found, table.astype(np.float64))
