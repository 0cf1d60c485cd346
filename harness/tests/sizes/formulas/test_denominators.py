"""A formula times what it is divided by: 0 where the formula is, and nothing where there is no denominator."""

from fractions import Fraction

import jax.numpy as jnp
import pytest

from samebits.sizes.formulas.formula import Formula, Size, Summand
from samebits.sizes.formulas.ring import FormulaRing
from samebits.sizes.formulas.vanishing import without_denominators
from samebits.sizes.places.facts import Element
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_faults import ON_LINE

N = Size(variable("n"))
X = Element("x", (of(0),))


def over(power: int, *others: tuple[Element, Fraction], bound: tuple[str, ...] = ()) -> Formula:
    return Formula((Summand(powers=(*others, (N, Fraction(power))), bound=bound),))


def test_each_summand_is_multiplied_by_all_denominators() -> None:
    ring = FormulaRing(Space({"n": 1}))
    formula = ring.add(over(-2, (X, Fraction(1))), over(0, (X, Fraction(2))))
    product = without_denominators(ring, formula)
    assert product is not None
    assert ring.subtract(product, ring.multiply(formula, over(2))).summands == ()


def test_without_a_denominator_there_is_nothing_to_do() -> None:
    ring = FormulaRing(Space({"n": 1}))
    assert without_denominators(ring, over(1, (X, Fraction(1)))) is None
    space = Space({"n": 1})
    name = next(iter(space.index("k", variable("n")).variables))
    inside = Formula((Summand(powers=((Size(variable(name) + 1), Fraction(-1)),), bound=(name,)),))
    assert without_denominators(FormulaRing(space), inside) is None


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "rounding"), (1, "different")])
def test_quotients_over_other_denominators_are_compared(wrong: int, verdict: str) -> None:
    def apart(x: jnp.ndarray) -> jnp.ndarray:
        return x / (1 + x * x) + 1 / (2 + x * x)

    def together(x: jnp.ndarray) -> jnp.ndarray:
        square = x * x
        return (x * (2 + square) + 1 + square + wrong) / ((1 + square) * (2 + square))

    (proof,) = prove_all_sizes(apart, together, ON_LINE)
    assert proof.verdict == verdict, proof.reason
