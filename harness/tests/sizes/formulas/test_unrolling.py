"""Sums over a few places, written out: equal to what programs write out, and unequal where a place is another."""

from fractions import Fraction

import jax.numpy as jnp
import pytest

from samebits.sizes.formulas.formula import Formula, Summand
from samebits.sizes.formulas.ring import FormulaRing
from samebits.sizes.formulas.vanishing import MOST_PLACES, unrolled
from samebits.sizes.places.facts import Element, below
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_faults import ON_LINE


def _sum_of_x(places: int) -> tuple[FormulaRing, Formula]:
    space = Space({"n": 1})
    name = next(iter(space.index("k", of(places)).variables))
    return FormulaRing(space), Formula(
        (Summand(powers=((Element("x", (variable(name),)), Fraction(1)),), bound=(name,)),)
    )


def test_each_place_is_a_summand() -> None:
    ring, formula = _sum_of_x(3)
    written = unrolled(ring, formula)
    assert written is not None
    assert {s.powers[0][0] for s in written.summands} == {Element("x", (of(place),)) for place in range(3)}


def test_places_where_facts_do_not_hold_are_left_out() -> None:
    ring, formula = _sum_of_x(3)
    (summand,) = formula.summands
    some = Formula((Summand(powers=summand.powers, bound=summand.bound, facts=(below(variable("k"), of(2)),)),))
    written = unrolled(ring, some)
    assert written is not None and len(written.summands) == 2


def test_many_places_are_not_written_out() -> None:
    assert unrolled(*_sum_of_x(MOST_PLACES + 1)) is None
    assert unrolled(FormulaRing(Space({"n": 1})), Formula((Summand(),))) is None


@pytest.mark.parametrize("wrong", ["another place", "a place twice", "a place left out"])
def test_sums_that_are_written_out_otherwise_are_not_the_same(wrong: str) -> None:
    places = {"another place": (0, 1, 3), "a place twice": (0, 1, 1), "a place left out": (0, 1)}[wrong]
    right, other = (
        lambda x, places=places: sum(jnp.cos(x[::-1] * place) for place in places) for places in ((0, 1, 2), places)
    )

    def summed(x: object) -> object:
        return jnp.cos(x[None, ::-1] * jnp.arange(3)[:, None]).sum(0)  # type: ignore[index]

    (proof,) = prove_all_sizes(summed, right, ON_LINE)
    assert proof.verdict == "rounding", proof.reason
    (proof,) = prove_all_sizes(summed, other, ON_LINE)
    assert proof.verdict == "different"
