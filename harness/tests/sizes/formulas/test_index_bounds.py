"""Sums over indices between bounds: counted, or begun at 0, and left alone where no one bound decides."""

from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import pytest

from samebits.sizes.formulas.formula import Summand
from samebits.sizes.formulas.summands import counted, from_zero
from samebits.sizes.places.facts import Element, Facts, at_least, below
from samebits.sizes.places.polynomial import variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

A, B, C = (variable(name) for name in "abc")


def _space() -> tuple[Space, Any, Any]:
    space = Space({"a": 1, "b": 1, "c": 1})
    return space, space.index("k", A * B + C), space.index("i", A * B + C)


def _of(*facts: Any, powers: Any = ()) -> Summand:
    return Summand(powers=powers, bound=("k",), facts=facts)


def test_places_between_bounds_are_counted() -> None:
    space, k, i = _space()
    for facts, number in (
        ((), A * B + C),
        ((at_least(i, k),), i + 1),
        ((below(k, i),), i),
        ((at_least(k, i),), A * B + C - i),
    ):
        product = counted(space, _of(*facts), ())
        assert product is not None and (product.number, product.bound) == (number, ())
    both = counted(space, _of(at_least(k, 2), below(k, i)), (at_least(i, 5),))
    assert both is not None and both.number == i - 2


def test_where_there_may_be_no_place_that_is_said() -> None:
    space, k, i = _space()
    product = counted(space, _of(at_least(k, 2), below(k, i)), ())
    assert product is not None and product.facts == (at_least(i, 3),)


@pytest.mark.parametrize("why", ["two bounds", "twice the index", "another index", "in the product"])
def test_what_is_not_counted_stays(why: str) -> None:
    space, k, i = _space()
    j = space.index("j", A * B + C)
    facts: dict[str, Facts] = {
        "two bounds": (at_least(i, k), at_least(j, k)),
        "twice the index": (at_least(i, k * 2),),
        "another index": (at_least(space.value_of(Element("ids", (k,))), 1),),
        "in the product": (at_least(i, k),),
    }
    powers = ((Element("x", (k,)), Fraction(1)),) if why == "in the product" else ()
    assert counted(space, _of(*facts[why], powers=powers), ()) is None


def test_a_part_of_an_array_begins_at_zero() -> None:
    space, k, _ = _space()
    high, low = space.divisions.divide(k, B)
    element = Element("x", (high, low))
    part = from_zero(space, _of(below(k, A * B), powers=((element, Fraction(1)),)), ())
    assert part is not None and len(part.bound) == 2 and part.facts == ()
    ((read, _),) = part.powers
    assert isinstance(read, Element)
    assert [space.ranges[next(iter(p.variables))] for p in read.index] == [A, B]
    assert from_zero(space, _of(powers=((element, Fraction(1)),)), ()) is None, "the whole array has no such digits"
    assert from_zero(space, _of(below(k, A * B), powers=((Element("x", (k,)), Fraction(1)),)), ()) is None


BUFFER = Family(symbols={"a": 1, "b": 1, "c": 1}, args={"p": Shaped(("a", "b")), "q": Shaped(("c",))})


def _norm(p: Any, q: Any, *, lost: int = 0, twice: bool = False) -> Any:
    flat = jnp.concatenate([q, p.reshape(-1), *([q] if twice else [])])
    return jnp.square(flat[lost:] if lost else flat).sum()


def test_the_norm_of_a_buffer_is_that_of_its_parts() -> None:
    def of_parts(p: Any, q: Any) -> Any:
        return jnp.square(p).sum() + jnp.square(q).sum()

    for direction in ("forward", "gradient"):
        for proof in prove_all_sizes(of_parts, _norm, BUFFER, direction):
            assert proof.verdict == "rounding", proof.reason
    for wrong in ({"lost": 1}, {"twice": True}):
        (proof,) = prove_all_sizes(of_parts, lambda p, q, wrong=wrong: _norm(p, q, **wrong), BUFFER)
        assert proof.verdict == "different", wrong


@pytest.mark.slow
def test_counts_of_ones_are_places() -> None:
    line = Family(symbols={"n": 1}, args={"x": Shaped(("n",))})

    def counted_up(x: Any, first: float = 0.0) -> Any:
        return x * (jnp.cumsum(jnp.ones_like(x)) - 1 + first)

    (proof,) = prove_all_sizes(lambda x: x * jnp.arange(x.shape[0]), counted_up, line)
    assert proof.verdict == "rounding", proof.reason
    (proof,) = prove_all_sizes(lambda x: x * jnp.arange(x.shape[0]), lambda x: counted_up(x, 1.0), line)
    assert proof.verdict == "different", proof
