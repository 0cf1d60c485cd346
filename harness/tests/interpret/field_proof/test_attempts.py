"""Each output is shown in the plainest domain that shows it."""

from typing import Any

import jax.numpy as jnp

from samebits.interpret.field.functions import CONFIRMED
from samebits.interpret.field_proof.proof import FIRST_POINTS
from tests.interpret.field_proof.test_proof import X, said

Array = Any


def test_what_the_plain_field_shows_assumes_no_signs_of_roots() -> None:
    """Beside a leaf that needs the law of roots: each leaf is shown where least is assumed, at its own points."""

    def reference(x: Array) -> tuple[Array, Array, Array]:
        return (x + x) * jnp.sqrt(x), jnp.sqrt(x), jnp.sqrt(x) * jnp.sqrt(1 + x)

    def variant(x: Array) -> tuple[Array, Array, Array]:
        return jnp.sqrt(x) * x * 2, x / jnp.sqrt(x), jnp.sqrt(x + x * x) * (1 + 1e-9)

    plainly, by_law, other = said(reference, variant, X)
    assert plainly.equal and by_law.equal and not other.equal
    assert (plainly.repetitions, by_law.repetitions) == (FIRST_POINTS, CONFIRMED)
    kinds = [{each.word for each in one.assumptions} for one in (plainly, by_law)]
    assert ["roots" in each for each in kinds] == [False, True]
    assert "functions" in kinds[0]
