"""Largest, smallest and absolute values by the sign of a difference: equal where both cases are, and nowhere else."""

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.formulas.formula import Formula, atom, number
from samebits.sizes.formulas.ring import FormulaRing, by_sign
from samebits.sizes.places.facts import Element
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

PAIR = Family(symbols={"n": 1}, args={"x": Shaped(("n",)), "y": Shaped(("n",))})
X, Y = (atom(Element(name, (of(0),))) for name in "xy")


def _ring() -> FormulaRing:
    return FormulaRing(Space({"n": 1}))


def _cases(ring: FormulaRing, formula: Formula) -> list[Formula]:
    cases = by_sign(ring, formula)
    assert cases is not None
    return [ring.canonical(case) for case in cases]


def test_each_case_has_one_operand() -> None:
    ring = _ring()
    larger, smaller = (ring.function(kind, X, Y) for kind in ("max", "min"))
    assert _cases(ring, ring.add(larger, smaller)) == [ring.canonical(ring.add(X, Y))] * 2
    distance = ring.function("abs", ring.subtract(Y, X))
    assert set(_cases(ring, ring.subtract(larger, distance))) == {X, Y}


def test_functions_inside_of_others_are_met() -> None:
    ring, half = _ring(), Fraction(1, 2)

    def inside(exponent: Formula) -> Formula:
        return ring.canonical(ring.power(ring.add(number(1), ring.exponential(exponent)), half))

    assert _cases(ring, inside(ring.function("abs", X))) == [inside(X), inside(ring.scaled(X, -1))]


def test_without_a_sign_there_are_no_cases() -> None:
    ring = _ring()
    assert by_sign(ring, ring.add(X, ring.function("sin", Y))) is None
    assert by_sign(ring, Formula()) is None


def test_a_function_of_a_summed_index_has_no_one_sign() -> None:
    space = Space({"n": 1})
    ring, index = FormulaRing(space), space.index("k", variable("n"))
    inside = ring.function("abs", atom(Element("x", (index,))))
    assert by_sign(ring, inside) is not None
    assert by_sign(ring, ring.summed(("k",), (), inside)) is None


def larger_and_smaller(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y) * jnp.minimum(x, y)


def merged(x: Any, y: Any) -> Any:
    """The logarithm of a sum, as partial results of attention are merged."""
    first, second = jnp.log(1 + jnp.square(x)), jnp.log(2 + jnp.square(y))
    return jnp.logaddexp(first, second)


HONEST = {
    "product": (larger_and_smaller, lambda x, y: x * y),
    "distance": (lambda x, y: jnp.abs(x - y), lambda x, y: jnp.maximum(x, y) - jnp.minimum(x, y)),
    "hinge": (lambda x, y: jax.nn.relu(x - y) - jax.nn.relu(y - x), lambda x, y: x - y),
    "logaddexp": (
        lambda x, y: jnp.logaddexp(jnp.sin(x), jnp.sin(y)),
        lambda x, y: jnp.log(jnp.exp(jnp.sin(x)) + jnp.exp(jnp.sin(y))),
    ),
    "merged": (merged, lambda x, y: jnp.log(3 + x * x + y * y)),
}
WRONG = {
    "product": lambda x, y: x * jnp.abs(y),
    "distance": lambda x, y: jnp.maximum(x, y) + jnp.minimum(x, y),
    "hinge": lambda x, y: jnp.abs(x - y),
    "logaddexp": lambda x, y: jnp.log(jnp.exp(jnp.sin(x)) + jnp.exp(jnp.sin(x))),
    "merged": lambda x, y: jnp.log(3 + x * x - y * y),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", HONEST)
def test_what_is_equal_in_both_cases_is_equal(name: str) -> None:
    (proof,) = prove_all_sizes(*HONEST[name], PAIR)
    assert proof.verdict == "rounding", proof.reason


@pytest.mark.parametrize("name", WRONG)
def test_what_is_equal_in_one_case_alone_is_refuted(name: str) -> None:
    (proof,) = prove_all_sizes(HONEST[name][0], WRONG[name], PAIR)
    assert proof.verdict == "different", proof


def test_a_sign_at_each_place_of_a_sum_is_no_case_of_the_sum() -> None:
    """The sums agree where all signs are one, and nowhere else."""
    (proof,) = prove_all_sizes(lambda x, y: jnp.abs(x).sum() + 0 * y, lambda x, y: jnp.abs(x.sum()) + 0 * y, PAIR)
    assert proof.verdict == "different", proof
