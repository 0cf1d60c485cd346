"""What code asks of sizes while it is traced with symbols: nothing that holds for some sizes alone passes unseen."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.places.polynomial import variable
from samebits.sizes.proofs.comparisons import NotNegative, Remainders, Zero
from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.operators import comparisons
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import EVEN, ON_LINE


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
