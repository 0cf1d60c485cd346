"""Sums of a few unknown integers as numbers: written out, with what must not overflow; others stay unknown."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.places.demand import FEW, few_summed
from samebits.sizes.places.facts import Element, Fact, Integer, MapPiece, Reduction, Source, at_least
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

N = variable("n")
TAKEN = Family(symbols={"n": 1}, args={"x": Shaped(("n",)), "sizes": Shaped((3,), "int32")}, differentiable=("x",))


def total_of(space: Space, many: int, inner: Callable[[Source], Source] = lambda source: source) -> Reduction:
    index = space.index("bound 0.0.0", of(many))
    element = inner(Element("sizes", (index,)))
    return Reduction("sum", "int32", ("bound 0.0.0",), (MapPiece((), element),))


def test_few_integers_are_written_out() -> None:
    space, assumed = Space({"n": 1}), dict[Fact, None]()
    total = few_summed(space, total_of(space, 3), assumed)
    assert str(total) == "sizes[0] + sizes[1] + sizes[2]"
    assert [str(fact) for fact in assumed] == [
        "-sizes[0] - sizes[1] - sizes[2] + 2147483647 >= 0",
        "sizes[0] + sizes[1] + sizes[2] + 2147483648 >= 0",
    ]


def test_bounded_integers_overflow_at_large_sizes_alone() -> None:
    space, assumed = Space({"n": 1}, {"sizes": of(100)}), dict[Fact, None]()
    assert few_summed(space, total_of(space, 3), assumed) is not None
    assert not assumed


@pytest.mark.parametrize("case", ["too many", "a symbol", "floats", "largest", "by cases"])
def test_other_sums_stay_unknown(case: str) -> None:
    space = Space({"n": 1})
    source = total_of(space, FEW + 1 if case == "too many" else 3)
    if case == "a symbol":
        space.ranges["bound 0.0.0"] = N
    elif case == "floats":
        source = Reduction("sum", "float32", source.bound, source.pieces)
    elif case == "largest":
        source = Reduction("max", "int32", source.bound, source.pieces)
    elif case == "by cases":
        place = variable("bound 0.0.0")
        source = Reduction("sum", "int32", source.bound, (MapPiece((at_least(place, 1),), Integer(place)),))
    assert few_summed(space, source, {}) is None
    assert few_summed(space, Element("sizes", (of(0),)), {}) is None


def below_total(x: jax.Array, sizes: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(x.shape[0]) < sizes.sum(), x, 0)


RIGHT: dict[str, Callable[..., jax.Array]] = {
    "one by one": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes[0] + sizes[1] + sizes[2], x, 0),
    "in parts": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes[:2].sum() + sizes[2], x, 0),
}
WRONG: dict[str, Callable[..., jax.Array]] = {
    "one left out": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes[1:].sum(), x, 0),
    "one twice": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes.sum() + sizes[1], x, 0),
    "one more": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) <= sizes.sum(), x, 0),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_sum_is_that_of_its_parts(name: str) -> None:
    (proof,) = prove_all_sizes(below_total, RIGHT[name], TAKEN)
    assert proof.verdict == "proved", proof.reason
    assert any("2147483647" in condition for condition in proof.conditions)


@pytest.mark.parametrize("name", WRONG)
def test_another_sum_is_refuted(name: str) -> None:
    (proof,) = prove_all_sizes(below_total, WRONG[name], TAKEN)
    assert proof.verdict == "different", proof.reason
