"""What is known not to be negative, as it is a sum of squares or a variance; and what is not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from samebits.sizes.formulas.normal_form import NormalForms, Variances, sums_of_squares
from samebits.sizes.places.equality import same
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import Number, Term
from samebits.sizes.places.space import Space

ZERO = Number.of(np.float32(0))


def mean(x: Any) -> Any:
    return jnp.mean(x, -1)


def larger(function: Any) -> int | None:
    """Which of a number, computed of a row of n floats, and 0 is shown to be the larger one."""
    (n,) = export.symbolic_shape("n")
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((n,), np.float32))
    space = Space({"n": 1})
    (piece,) = Evaluation(space, closed, ("x",)).output(0, ())
    forms = NormalForms(space, same)
    return Variances(forms.ring, forms.formula, forms.vanishing.equal).larger((piece.source, ZERO), piece.facts)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(x * x),
        lambda x: jnp.sum(jnp.exp(x)) + x[0] ** 2,
        lambda x: mean(x * x) - mean(x) ** 2,
        lambda x: mean(jnp.square(3 * x + 1)) - jnp.square(mean(3 * x + 1)),
        lambda x: jnp.sum(x * x) - jnp.sum(x) ** 2 / x.shape[0],
    ],
    ids=["squares", "exponentials", "variance", "of another number", "times its count"],
)
def test_what_is_never_negative(function: Any) -> None:
    assert larger(function) == 0
    assert larger(lambda x: -function(x)) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(x),
        lambda x: jnp.sum(x**3),
        lambda x: mean(x * x) - mean(x),
        lambda x: mean(x * x) - 2 * mean(x) ** 2,
        lambda x: mean(x * x) - mean(2 * x) * mean(x),
        lambda x: jnp.sum(x * x) - jnp.sum(x) ** 2,
        lambda x: mean(x * x) - mean(x) ** 2 - 1e-6,
        lambda x: mean(x * x) - mean(x**3) ** 2,
        lambda x: mean(x * jnp.sin(9 * x)) - mean(x) * mean(jnp.sin(9 * x)),
    ],
    ids=["sum", "cubes", "mean", "twice", "of 2x", "without n", "less", "of cubes", "covariance"],
)
def test_what_may_be_negative(function: Any) -> None:
    """Each is negative for some numbers, and positive for others."""
    assert larger(function) is None
    drawn = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    signs = {bool(function(row) < 0) for row in [*drawn, np.full(4, 0.5, np.float32), np.zeros(4, np.float32)]}
    assert signs == {True, False}


def test_sums_of_squares_are_found_in_what_is_computed_of_them() -> None:
    (n,) = export.symbolic_shape("n")
    closed = jax.make_jaxpr(lambda x: jnp.sum(x**2) / 3 - jnp.sum(x) * jnp.sum(x * x))(
        jax.ShapeDtypeStruct((n,), np.float32)
    )
    (piece,) = Evaluation(Space({"n": 1}), closed, ("x",)).output(0, ())
    assert len(list(sums_of_squares(piece.source))) == 2
    assert list(sums_of_squares(Term("mul[]:float32", (ZERO, ZERO)))) == []
