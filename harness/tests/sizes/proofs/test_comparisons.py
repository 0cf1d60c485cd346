"""What code asks of sizes while it is traced with symbols, and the sizes at which a comparison has another answer."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.sizes.places.polynomial import Polynomial, variable
from samebits.sizes.proofs.comparisons import NotNegative, Remainders, SizeComparison, Zero, by_answer, where_otherwise
from samebits.sizes.proofs.family import Family
from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.operators import comparisons
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import EVEN, ON_LINE, ON_TABLE


def test_comparisons_are_seen_while_they_are_collected() -> None:
    (seen,) = traced(lambda x: x if x.shape[0] == 6 else -x, EVEN).comparisons
    assert (seen.text, seen.otherwise) == ("2*h and 6", Zero(2 * variable("h") - 6))
    (seen,) = traced(lambda x: x if x.shape[0] != 6 else -x, EVEN).comparisons
    assert seen.text == "2*h and 6"
    with comparisons({}) as nothing:
        assert nothing == []


def test_the_truth_of_a_size_is_a_comparison_with_0() -> None:
    (seen,) = traced(lambda x: -x if x.shape[0] % 3 else x, ON_LINE).comparisons
    assert (seen.text, seen.otherwise) == ("mod(n, 3) and 0", Remainders(variable("n"), 3, (0,)))
    assert traced(lambda x: x if x.shape[0] else -x, ON_LINE).comparisons == ()


@jax.jit
def _jitted(x: jax.Array) -> jax.Array:
    return jnp.zeros_like(x) if x.shape[0] == 16 else x


@functools.cache
def _is_wrong(size: Any) -> bool:
    return bool(size == 16)


def _flipped_if(condition: Callable[[Any], Any]) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jnp.flip(x) if condition(x.shape[0]) else x


def _partial_chunk(x: jax.Array) -> jax.Array:
    whole = x.shape[0] // 4 * 4
    return jnp.concatenate([x[:whole], jnp.flip(x[whole:])])


WRONG: dict[str, Callable[[jax.Array], jax.Array]] = {
    "odd": _flipped_if(lambda n: n % 2),
    "even": lambda x: x if x.shape[0] % 2 else jnp.flip(x),
    "not": _flipped_if(lambda n: not n % 2),
    "and": lambda x: jnp.flip(x) if x.shape[0] % 2 and x.ndim == 1 else x,
    "in a tuple": _flipped_if(lambda n: n in (4, 16)),
    "in a set": _flipped_if(lambda n: n in {4, 16}),
    "as a key": _flipped_if(lambda n: {16: True}.get(n)),
    "within jit": _jitted,
    "behind a cache": _flipped_if(_is_wrong),
    "a difference": _flipped_if(lambda n: not n - 16),
    "one of seven": _flipped_if(lambda n: n % 7 == 5),
    "one of thirty": _flipped_if(lambda n: n % 30 == 29),
    "not of four": lambda x: jnp.flip(x) if x.shape[0] % 4 != 0 else x,
    "beyond 2^16": _flipped_if(lambda n: n > 1 << 16),
    "from 2^16 on": _flipped_if(lambda n: n >= 65536),
    "below 5": _flipped_if(lambda n: n < 5),
    "up to 100": _flipped_if(lambda n: n <= 100),
    "between": _flipped_if(lambda n: 40 <= n < 50),
    "at most": lambda x: x[: min(x.shape[0], 4096)] if x.shape[0] == 4097 else x,
    "quotient": _flipped_if(lambda n: n // 4 == 5),
    "remainder of five above": _flipped_if(lambda n: n % 5 >= 4),
    "last partial chunk": _partial_chunk,
    "narrow index": lambda x: x[jnp.arange(x.shape[0]).astype(jnp.uint16).astype(jnp.int32)],
    "a group of one": _flipped_if(lambda n: n == 1 + 1),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_at_some_sizes_is_refuted(name: str) -> None:
    for _ in range(2):  # jax knows the program the second time
        (proof,) = prove_all_sizes(lambda x: x, WRONG[name], ON_LINE)
        assert proof.verdict == "different", proof
        numbers = jnp.arange(proof.sizes["n"])
        wrong = WRONG[name](numbers)
        assert wrong.shape != numbers.shape or not (wrong == numbers).all()


def test_what_code_is_told_of_an_order_holds_of_large_sizes() -> None:
    (seen,) = traced(lambda x: x if x.shape[0] > 7 else -x, ON_LINE).comparisons
    assert seen.otherwise == NotNegative(7 - variable("n"))
    (seen,) = traced(lambda x: x if 3 * x.shape[0] <= 7 else -x, ON_LINE).comparisons
    assert seen.otherwise == NotNegative(7 - 3 * variable("n"))
    assert traced(lambda x: x if x.shape[0] >= 1 else -x, ON_LINE).comparisons == ()


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


RIGHT: dict[str, Callable[[jax.Array], jax.Array]] = {
    "even and odd": lambda x: x if x.shape[0] % 2 else jnp.concatenate(jnp.split(x, 2)),
    "of three": lambda x: x.reshape(3, -1).reshape(-1) if x.shape[0] % 3 == 0 else x,
    "long and short": lambda x: jnp.concatenate([x[:1], x[1:]]) if x.shape[0] > 100 else x[::-1][::-1],
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
