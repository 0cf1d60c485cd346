"""The sizes at which a comparison has another answer: none is left out, and each part is proved like any family."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.sizes.places.polynomial import Polynomial, variable
from samebits.sizes.proofs.comparisons import NotNegative, Remainders, SizeComparison, Zero, by_answer, where_otherwise
from samebits.sizes.proofs.family import Family
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_faults import ON_LINE, ON_TABLE

N, M = variable("n"), variable("m")


def compared(otherwise: Zero | NotNegative | Remainders | None) -> SizeComparison:
    return SizeComparison(otherwise, "here.py:1", "n and something")


def sizes_of(families: list[Family] | None, largest: int = 30) -> set[int]:
    """The values of `n` in families of one free symbol, up to a largest one."""
    assert families is not None
    values = set()
    for family in families:
        if not family.free:
            values.add(family.numbers({})["n"])
            continue
        ((name, low),) = family.free.items()
        values |= {family.numbers({name: number})["n"] for number in range(low, largest + 1)}
    return {value for value in values if value <= largest}


@given(divisor=st.integers(2, 8), remainder=st.integers(0, 7), factor=st.integers(1, 5), more=st.integers(-9, 9))
def test_remainders_leave_no_size_out(divisor: int, remainder: int, factor: int, more: int) -> None:
    families = where_otherwise(compared(Remainders(factor * N + more, divisor, (remainder % divisor,))), ON_LINE)
    if families is not None:
        wanted = {n for n in range(1, 31) if (factor * n + more) % divisor == remainder % divisor}
        assert sizes_of(families) == wanted
    whole = by_answer(compared(Remainders(factor * N + more, divisor, (0,))), ON_LINE)
    assert whole is None or sizes_of(whole) == set(range(1, 31))


@given(factor=st.integers(-3, 3).filter(bool), more=st.integers(-20, 20))
def test_bounds_leave_no_size_out(factor: int, more: int) -> None:
    families = where_otherwise(compared(NotNegative(factor * N + more)), ON_LINE)
    whole = by_answer(compared(NotNegative(factor * N + more)), ON_LINE)
    assert sizes_of(whole) == set(range(1, 31))
    wanted = {n for n in range(1, 31) if factor * n + more >= 0}
    assert wanted <= sizes_of(families)
    if families and families[0].answers:
        assert sizes_of(families) == set(range(1, 31))  # told so for all sizes


def test_what_cannot_be_described_is_none() -> None:
    assert where_otherwise(compared(None), ON_LINE) is None
    assert where_otherwise(compared(Zero(N * N - 2)), ON_LINE) is None
    assert where_otherwise(compared(Remainders(N * M, 3, (0,))), ON_TABLE) is None
    assert by_answer(compared(Remainders(N, 9, (0,))), ON_LINE) is None
    assert by_answer(compared(Zero(N - 2)), ON_LINE) is None


def test_sizes_that_there_are_not_have_no_family() -> None:
    for difference in (N + 3, 2 * N - 7):
        assert where_otherwise(compared(Zero(difference)), ON_LINE) == []
    (family,) = where_otherwise(compared(Zero(N - 5)), ON_LINE) or []
    assert family.numbers({}) == {"n": 5}


def test_a_part_says_what_it_shows_in_declared_symbols() -> None:
    part, *_ = where_otherwise(compared(Remainders(N, 4, (1,))), ON_LINE) or []
    (own,) = part.own
    assert part.declared(8 * variable(own) + 3) == 2 * N + 1
    assert part.declared(variable(own)) == variable(own)
    assert part.numbers({own: 2}) == {"n": 9}
    assert part.at({"n": 9}).free == {}
    assert isinstance(part.constants["n"], Polynomial)


def _in_two(x: jax.Array) -> jax.Array:
    return x if x.shape[0] % 2 else jnp.concatenate(jnp.split(x, 2))


def _by_hand(x: jax.Array) -> jax.Array:
    return jnp.concatenate([x[:1], x[1:]]) if x.shape[0] > 100 else x[::-1][::-1]


RIGHT: dict[str, Callable[[jax.Array], jax.Array]] = {
    "even and odd": _in_two,
    "of three": lambda x: x.reshape(3, -1).reshape(-1) if x.shape[0] % 3 == 0 else x,
    "long and short": _by_hand,
    "a few": lambda x: x[::-1][::-1] if x.shape[0] < 4 else x,
    "many": lambda x: x[::-1][::-1] if x.shape[0] <= 1000 else x,
    "a quotient": lambda x: x[::-1][::-1] if x.shape[0] // 4 == 5 else x,
    "a remainder above": lambda x: x[::-1][::-1] if x.shape[0] % 4 > 1 else x,
    "cut off": lambda x: jnp.concatenate([x[: min(x.shape[0], 1024)], x[min(x.shape[0], 1024) :]]),
    "one size": lambda x: x[::-1][::-1] if x.shape[0] == 16 else x,
    "one size of even ones": lambda x: (x[::-1][::-1] if x.shape[0] == 16 else x) if x.shape[0] % 2 == 0 else x,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_at_every_size_is_proved(name: str) -> None:
    (proof,) = prove_all_sizes(lambda x: x, RIGHT[name], ON_LINE)
    assert proof.verdict == "proved", proof
    assert not [condition for condition in proof.conditions if "_by_" in condition]


def test_a_shape_that_a_comparison_decides_is_proved_in_parts() -> None:
    def first(x: jax.Array) -> jax.Array:
        return x[: min(x.shape[0], 1024)]

    def same(x: jax.Array) -> jax.Array:
        return x[:1024] if x.shape[0] > 1024 else x

    (proof,) = prove_all_sizes(first, same, ON_LINE)
    assert proof.verdict == "proved", proof
    (proof,) = prove_all_sizes(first, lambda x: x[: min(x.shape[0], 1025)], ON_LINE)
    assert (proof.verdict, proof.sizes) == ("different", {"n": 1025})
