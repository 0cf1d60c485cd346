"""Logarithms of sums: those of one sum and of its multiples meet, and those of others do not."""

from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import pytest

from samebits.errors import SamebitsError
from samebits.sizes.formulas.formula import Formula, NoFormula, Size, atom, number
from samebits.sizes.formulas.ring import FormulaRing, logarithm
from samebits.sizes.places.facts import Element
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

X, Y = (atom(Element(name, (of(0),))) for name in "xy")


def test_exponentials_come_out_of_any_multiple() -> None:
    ring = FormulaRing(Space({"n": 1}))
    whole = ring.add(ring.exponential(X), ring.exponential(Y))
    over_x = ring.add(number(1), ring.exponential(ring.subtract(Y, X)))
    over_y = ring.add(ring.exponential(ring.subtract(X, Y)), number(1))
    expected = ring.canonical(logarithm(ring, whole))
    for factor, sum_over in ((X, over_x), (Y, over_y)):
        assert ring.canonical(ring.add(factor, logarithm(ring, sum_over))) == expected
    assert ring.canonical(ring.add(Y, logarithm(ring, over_x))) != expected


def test_sizes_come_out_too() -> None:
    ring = FormulaRing(Space({"n": 1}))
    size = Size(variable("n"))
    mean = ring.multiply(ring.power(atom(size), Fraction(-1)), ring.add(X, Y))
    assert logarithm(ring, mean) == ring.subtract(logarithm(ring, ring.add(X, Y)), ring.function("log", atom(size)))


def test_there_is_no_logarithm_of_nothing() -> None:
    with pytest.raises(NoFormula, match="the logarithm of 0 or infinity"):
        logarithm(FormulaRing(Space({"n": 1})), Formula())
    assert not issubclass(NoFormula, SamebitsError), "it is a question without an answer, and no error of a user"


ROWS = Family(symbols={"n": 1, "m": 1}, args={"x": Shaped(("n", "m")), "z": Shaped(("n",))})


def with_sink(x: Any, z: Any) -> Any:
    largest = jnp.maximum(x.max(-1), z)
    return largest + jnp.log(jnp.exp(x - largest[:, None]).sum(-1) + jnp.exp(z - largest))


@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        (lambda x, z: z + jnp.log(1 + jnp.exp(x - z[:, None]).sum(-1)), "rounding"),
        (lambda x, z: jnp.log(jnp.exp(x).sum(-1) + jnp.exp(z)), "rounding"),
        (
            lambda x, z: jnp.log(jnp.exp(x).mean(-1) + jnp.exp(z) / x.shape[1]) + jnp.log(jnp.float32(x.shape[1])),
            "rounding",
        ),
        (lambda x, z: z + jnp.log(2 + jnp.exp(x - z[:, None]).sum(-1)), "different"),
        (lambda x, z: jnp.log(jnp.exp(x).mean(-1) + jnp.exp(z)), "different"),
    ],
)
def test_a_sink_is_one_more_exponential(variant: Any, verdict: str) -> None:
    (proof,) = prove_all_sizes(with_sink, variant, ROWS)
    assert proof.verdict == verdict, proof
