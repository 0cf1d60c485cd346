"""Functions as users write them, for every size: what is right is shown, and what is wrong somewhere never is."""

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_corpus import NOT_PROVED, REFUTED, RIGHT, Written
from tests.sizes.proofs.size_faults import ON_LINE


def _points(table: tuple[Written, ...]) -> pytest.MarkDecorator:
    points = [(written, direction) for written in table for direction in written.directions]
    names = [f"{written.name}: {direction}" for written, direction in points]
    return pytest.mark.parametrize(("written", "direction"), points, ids=names)


@pytest.mark.sampled(4)
@_points(RIGHT)
def test_what_is_right_is_shown(written: Written, direction: str) -> None:
    for proof in prove_all_sizes(written.reference, written.variant, written.family, direction):
        assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.sampled(8)
@_points(REFUTED)
def test_what_is_wrong_at_sizes_is_refuted(written: Written, direction: str) -> None:
    proofs = prove_all_sizes(written.reference, written.variant, written.family, direction)
    assert any(proof.verdict == "different" for proof in proofs), proofs
    assert all(proof.verdict in ("different", "error") for proof in proofs), proofs


@pytest.mark.sampled(4)
@_points(NOT_PROVED)
def test_what_is_wrong_at_values_is_not_proved(written: Written, direction: str) -> None:
    proofs = prove_all_sizes(written.reference, written.variant, written.family, direction)
    assert all(proof.verdict in ("different", "error") for proof in proofs), proofs


def test_integers_that_overflow_are_a_condition() -> None:
    (proof,) = prove_all_sizes(
        lambda x, i: x[0] * (i * 65536 // 65536), lambda x, i: x[0] * i, NOT_PROVED[0].family, "forward"
    )
    assert proof.verdict == "rounding"
    assert "65536*i[...] <= 2147483647" in proof.conditions


def test_cotangents_of_other_types_are_no_proof() -> None:
    def narrow(x: jax.Array) -> jax.Array:
        return (2 * x).astype(jnp.bfloat16)

    (proof,) = prove_all_sizes(lambda x: 2 * x, narrow, ON_LINE, "gradient")
    assert proof.verdict == "different"
    assert proof.reason.startswith("the cotangent of out is float32[1] in the reference and bfloat16[1]")
