"""Code that tells a symbol from the integer that it stands for, in ways other than a comparison, proves nothing."""

import contextlib
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.operators import comparisons
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import ON_LINE, ON_TABLE

Condition = Callable[[Any], Any]

SIXTEEN = 16


@dataclass(frozen=True)
class _Config:
    size: Any


def _caught(condition: Condition) -> Condition:
    """False where a symbol raises."""

    def tried(n: Any) -> bool:
        try:
            return bool(condition(n))
        except Exception:
            return False

    return tried


def _of_a_session(text: str) -> Condition:
    """A function of a session, whose code has no file."""
    names: dict[str, Any] = {}
    exec(compile(f"def condition(n):\n    return {text}\n", "<stdin>", "exec"), names)
    condition: Condition = names["condition"]
    return condition


SEEN: dict[str, Condition] = {
    "text": lambda n: str(n) == "16",
    "text of a shape": lambda n: f"{(n, 2)}" == "(16, 2)",
    "class": lambda n: isinstance(n, int) and n == 16,
    "attribute": lambda n: hasattr(n, "bit_length") and n == 16,
    "hash": lambda n: hash(n) == hash(16),
    "integer": _caught(lambda n: int(n) == 16),
    "index": _caught(lambda n: operator.index(n) == 16),
    "range": _caught(lambda n: len(range(n)) == 16),
    "greatest common divisor": _caught(lambda n: math.gcd(n, 12) == 4),
    "root": _caught(lambda n: math.sqrt(n) == 4),
    "bits": _caught(lambda n: n & (n - 1) == 0),
    "shift": _caught(lambda n: n >> 4 == 1),
    "a method of integers": _caught(lambda n: n.bit_length() == 5),
    "array of integers": _caught(lambda n: np.array([n]).astype(int)[0] == 16),
    "undecided order": _caught(lambda n: n * n % 1000 < 300),
    "an array": lambda n: bool(n == np.array(16)),
    "a fraction": lambda n: Fraction(16) == n,
    "a decimal": lambda n: n == Decimal(16),
    "a complex number": lambda n: n == 16 + 0j,
    "a dataclass": lambda n: _Config(n) == _Config(16),
    "NumPy": lambda n: np.array_equal(np.array([n]), np.array([16])),
    "a session": _of_a_session("n == 16"),
}
NOT_SEEN: dict[str, Condition] = {"the object": lambda n: n is SIXTEEN, "type": lambda n: type(n) is int and n == 16}


def _flipped_if(condition: Condition) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jnp.flip(x) if condition(x.shape[0]) else x


@pytest.mark.parametrize("name", SEEN)
def test_what_code_reads_of_a_size_is_noted(name: str) -> None:
    assert traced(_flipped_if(SEEN[name]), ON_LINE).comparisons


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [*SEEN, *NOT_SEEN])
def test_what_is_behind_a_reading_is_not_proved(name: str) -> None:
    (proof,) = prove_all_sizes(lambda x: x, _flipped_if({**SEEN, **NOT_SEEN}[name]), ON_LINE)
    assert proof.verdict in ("different", "error"), proof
    if proof.verdict == "different":
        assert {**SEEN, **NOT_SEEN}[name](proof.sizes["n"])


def test_formulas_are_tried_at_the_numbers_of_code_too() -> None:
    def scaled(x: jax.Array) -> jax.Array:
        return x * 2.5 if type(x.shape[0]) is int and x.shape[0] == 24 else x * 2

    (proof,) = prove_all_sizes(lambda x: x + x, scaled, ON_LINE)
    assert (proof.verdict, proof.sizes) == ("different", {"n": 24})


def test_what_jax_itself_asks_is_no_reading() -> None:
    def moved(x: jax.Array) -> jax.Array:
        n = x.shape[0]
        x = jnp.take(jnp.roll(x, n // 2), n - 1 - jnp.arange(n)).reshape(n, 1)
        return jnp.broadcast_to(x, (n, 2)).sum(1) / n

    assert traced(moved, ON_LINE).comparisons == ()
    assert len(traced(lambda x: x[:5] if x.shape[0] > 5 else x, ON_LINE).comparisons) == 1


def test_sizes_that_are_compared_with_each_other_are_no_reading() -> None:
    def turned(x: jax.Array) -> jax.Array:
        return x[::-1][::-1] if x.shape[0] == x.shape[1] or x.shape[0] > 2 * x.shape[1] else x

    assert all(seen.otherwise for seen in traced(turned, ON_TABLE).comparisons)
    (proof,) = prove_all_sizes(lambda x: x, turned, ON_TABLE)
    assert proof.verdict == "proved", proof.reason


def test_a_reading_names_its_line() -> None:
    (proof,) = prove_all_sizes(lambda x: x, lambda x: x if str(x.shape[0]) else x[::-1], ON_LINE)
    assert proof.verdict == "error"
    assert "test_operators.py:" in proof.reason and "the text of n" in proof.reason


def test_the_operators_of_sizes_are_jaxs_own_again() -> None:
    kind = type(jax.export.symbolic_shape("n")[0])
    before = dict(vars(kind))
    with comparisons({"n": 1}), contextlib.suppress(ValueError):
        assert dict(vars(kind)) != before
        raise ValueError
    assert dict(vars(kind)) == before
