"""Programs of complex inputs and outputs as programs of their parts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import NotCovered
from samebits.interpret.complex_pairs import real_program
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.problem import Input, Question
from samebits.numerics import floats

RNG = np.random.default_rng(29)
Z, W = ((RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2))).astype(np.complex64) for _ in range(2))


def question(first: Any, second: Any) -> Question:
    left, right = (real_program(jax.make_jaxpr(side)(Z, W)) for side in (first, second))
    return Question(left, right, [Input("z", floats.parts(Z)), Input("w", floats.parts(W))], ["out"])


def test_a_program_of_parts_computes_what_the_program_does() -> None:
    closed = real_program(jax.make_jaxpr(lambda z, w: (z * w, jnp.real(z)))(Z, W))
    assert [aval.str_short() for aval in closed.in_avals] == ["float32[3,2,2]"] * 2
    product, real = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, floats.parts(Z), floats.parts(W))
    np.testing.assert_allclose(product, floats.parts(Z * W), rtol=1e-6)
    np.testing.assert_allclose(real, Z.real)


def test_a_real_program_is_the_same_object() -> None:
    closed = jax.make_jaxpr(jnp.sin)(np.ones(3, np.float32))
    assert real_program(closed) is closed


def test_formulas_of_complex_inputs_are_told_apart() -> None:
    proofs = identity(question(lambda z, w: z * w + z, lambda z, w: z * (w + 1)))
    assert proofs["out"].equal and proofs["out"].elements == 12
    assert not identity(question(lambda z, w: z * w, lambda z, w: z * jnp.conj(w)))["out"].equal


def test_complex_inputs_are_not_taken_as_fixed_numbers() -> None:
    closed = jax.make_jaxpr(lambda z, w: z * w)(Z, W)
    with pytest.raises(NotCovered, match="'z' is complex64, whose parts are not separate inputs"):
        identity(Question(closed, closed, [Input("z", Z), Input("w", W)], ["out"]))
