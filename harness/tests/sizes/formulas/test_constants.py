"""Constants that were rounded to their dtype: rewrites with other roundings are one formula, other numbers are not."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from samebits.sizes.formulas.formula import NoFormula
from samebits.sizes.formulas.normal_form import STANDING, constant, stands_for
from samebits.sizes.places.facts import Number
from samebits.sizes.proofs import family_proof
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

Function = Callable[..., Any]
TWO = Family(symbols={"n": 1, "d": 1}, args={"p": Shaped(("n", "d")), "q": Shaped(("n", "d"))})
F = np.float32


def _gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def _adam(decay: Any, rest: Any, epsilon: Any = 1e-8) -> Function:
    return lambda p, q: (decay * p + rest * q) / (jnp.sqrt(q * q) + epsilon)


HONEST: dict[str, tuple[Function, Function]] = {
    "a cap": (lambda p, q: 30 * jnp.tanh(p / 30), lambda p, q: jnp.tanh(p * (1 / 30)) * 30),
    "a moving average": (lambda p, q: 0.9 * p + (1 - 0.9) * q, lambda p, q: p + (1 - 0.9) * (q - p)),
    "a moving average of 0.999": (lambda p, q: 0.999 * p + 0.001 * q, lambda p, q: p + 0.001 * (q - p)),
    "a root": (lambda p, q: p / math.sqrt(128), lambda p, q: p * 128**-0.5),
    "a root of the program": (lambda p, q: p / jnp.sqrt(F(8)), lambda p, q: p * F(8**-0.5)),
    "the error function": (lambda p, q: _gelu(p), lambda p, q: 0.5 * p * (1 + jax.lax.erf(p / math.sqrt(2)))),
    "Adam": (_adam(0.9, 0.1), lambda p, q: (p + 0.1 * (q - p)) / (jnp.sqrt(q * q) + 1e-8)),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", HONEST)
def test_rewrites_of_rounded_constants_are_one_formula(name: str, direction: str) -> None:
    for proof in prove_all_sizes(*HONEST[name], TWO, direction):
        assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.parametrize("name", ["a cap", "a moving average", "a root of the program"])
def test_what_constants_stand_for_is_a_condition(name: str) -> None:
    (proof,) = prove_all_sizes(*HONEST[name], TWO)
    assert STANDING in proof.conditions


def test_it_is_none_where_formulas_are_equal_as_they_are() -> None:
    (proof,) = prove_all_sizes(lambda p, q: 0.9 * p + 0.9 * q, lambda p, q: 0.9 * (p + q), TWO)
    assert proof.verdict == "rounding" and STANDING not in proof.conditions


FAULTS: dict[str, tuple[Function, Function]] = {
    "one unit": (lambda p, q: F(0.9) * p, lambda p, q: np.nextafter(F(0.9), F(1)) * p),
    "few digits": (lambda p, q: p / 30, lambda p, q: 0.0333 * p),
    "few digits of a root": (lambda p, q: p / math.sqrt(2), lambda p, q: 0.7071 * p),
    "another decay": (_adam(0.9, 0.1), _adam(0.9, 0.1001)),
    "another epsilon": (_adam(0.9, 0.1), _adam(0.9, 0.1, 1e-7)),
    "a narrow constant": (lambda p, q: F(0.9) * p, lambda p, q: F(ml_dtypes.bfloat16(0.9)) * p),
    "a narrow root": (lambda p, q: F(2**0.5) * p, lambda p, q: F(ml_dtypes.bfloat16(2**0.5)) * p),
}


@pytest.mark.parametrize("name", FAULTS)
def test_other_constants_are_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: tuple[dict[str, int], dict[str, str]] = {}, {}
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: nothing)  # concrete sizes would catch a wrong proof
    (proof,) = prove_all_sizes(*FAULTS[name], TWO)
    assert proof.verdict in ("different", "error"), proof


@pytest.mark.parametrize(
    ("value", "stands"),
    [(F(0.5), None), (F(0.9), 0.9), (F(2**-0.5), 2**-0.5), (np.complex64(1), None), (F(np.nan), None), (F(3e38), None)],
)
def test_what_a_constant_stands_for(value: Any, stands: float | None) -> None:
    literal = stands_for(Number.of(value))
    assert (None if literal is None else float(literal)) == stands


def test_no_number_is_no_formula() -> None:
    with pytest.raises(NoFormula, match="the constant nan"):
        constant(Number.of(F(np.nan)))
