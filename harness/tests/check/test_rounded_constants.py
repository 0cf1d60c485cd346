"""Literals that jax rounds to bfloat16 when it traces a program, judged by execution: rounding, and what is none."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from tests.support.toys import alone, run, toy

ROUNDING = (Contract(lowest="rounding", reason="literals of two dtypes"),)


def scaled(by: float) -> Callable[..., Any]:
    """A product in the dtype of the input."""

    def function(x: Any, *, factor: float = 2.0) -> Any:
        return x * by

    return function


def softmax(by: float) -> Callable[..., Any]:
    """Weights of scaled scores; equal scores in bfloat16 keep the fields from telling the largest."""

    def function(x: Any, *, factor: float = 2.0) -> Any:
        return jax.nn.softmax(jnp.round(x * 4) / 4 * by, -1)

    return function


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same computed in float32, where a literal has more digits."""

    def wide(x: Any, *, factor: float = 2.0) -> Any:
        return function(x.astype(jnp.float32)).astype(x.dtype)

    return wide


def judged(reference: Callable[..., Any], variant: Callable[..., Any]) -> Finding:
    changes: dict[str, Any] = {"contracts": ROUNDING, "dtypes": ("bfloat16",), "meshes": ("data1",)}
    (result,) = run(toy(reference, other=variant), alone("other"), **changes)
    return result


@pytest.mark.parametrize("turned", [False, True])
def test_a_literal_rounded_by_jax_is_no_loss_of_accuracy(turned: bool) -> None:
    sides = (widened(scaled(0.3)), scaled(0.3))
    found = judged(*(sides[::-1] if turned else sides))
    assert found.ruling.verdict == "rounding", found.ruling.evidence
    assert found.ruling.evidence is not None and "0.30078125 (bfloat16)" in found.ruling.evidence
    assert "the exact result moves by at most 0.6" in found.ruling.evidence


def test_rounded_literals_are_exchanged_where_fields_cannot_tell() -> None:
    found = judged(widened(softmax(0.3)), softmax(0.3))
    assert found.ruling.verdict in ("rounding", "bitwise"), found.ruling.evidence
    assert found.ruling.evidence is not None and "not the same" not in found.ruling.evidence


@pytest.mark.parametrize("form", [scaled, softmax])
def test_another_literal_is_another_formula(form: Callable[[float], Callable[..., Any]]) -> None:
    found = judged(widened(form(0.3)), form(0.29))
    assert found.ruling.verdict == "different", found.ruling.evidence


def test_a_rounded_literal_in_a_float32_output_is_a_loss() -> None:
    """What bfloat16 makes of 0.3 is within a unit of bfloat16, and 2^15 units of float32."""
    found = judged(
        lambda x, *, factor=2.0: x.astype(jnp.float32) * 0.3, lambda x, *, factor=2.0: (x * 0.3).astype(jnp.float32)
    )
    assert found.ruling.verdict == "different"
    assert found.ruling.evidence is not None and found.ruling.evidence.startswith("loses accuracy: "), (
        found.ruling.evidence
    )
