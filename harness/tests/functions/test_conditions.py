"""Two functions whose difference hangs on a condition that no value at hand takes, through each front door."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from tests.functions import specimens as f
from tests.support.invoke import samebits as samebits_command

STEP = jax.ShapeDtypeStruct((), jnp.int32)


def in_one_hundred(x: Any, step: Any) -> Any:
    return jnp.where(step // 100 == 7, 2 * x, x)


def in_the_same_hundred(x: Any, step: Any) -> Any:
    return jnp.where((step >= 700) & (step < 800), 2 * x, x)


def never(x: Any, step: Any) -> Any:
    return jnp.where(step < step, 2 * x, x)


def test_an_integer_between_the_literals_refutes_and_is_shown() -> None:
    with pytest.raises(AssertionError, match=r"with 'step' = 7\d\d"):
        samebits.assert_same(in_one_hundred, never, f.rows(), STEP, gradients=False)
    proved = samebits.prove(in_one_hundred, never, f.rows(), STEP, gradients=False)
    assert proved.verdict == "different" and "step // 100 == 7" in proved.failure()
    with pytest.warns(samebits.OtherInputsWarning, match=r"'step' = 7\d\d"):  # of a given one it is a note
        samebits.assert_same(in_one_hundred, never, f.rows(), np.int32(3), gradients=False)


@pytest.mark.slow
def test_two_spellings_of_one_schedule_pass() -> None:
    samebits.assert_same(in_one_hundred, in_the_same_hundred, f.rows(), STEP)
    samebits.assert_same(in_one_hundred, in_the_same_hundred, f.rows(), np.int32(3))
    with pytest.raises(AssertionError, match=r"with 'step' = 7\d\d"):
        samebits.assert_same(in_one_hundred, never, f.rows(), STEP)
    assert samebits.prove(in_one_hundred, in_the_same_hundred, f.rows(), STEP, gradients=False).ok


def above_half(x: Any) -> Any:
    return jnp.where(x > 0.5, 2 * x, x)


def from_half(x: Any) -> Any:
    return jnp.where(x >= 0.5, 2 * x, x)


def far_away(x: Any) -> Any:
    """A norm that no input at hand reaches, an end that none is below, and a comparison that comes out both ways."""
    norm = jnp.sqrt(jnp.sum(x * x))
    kept = jnp.maximum(jnp.where(norm > 1e9, x / norm, x), -1e9)
    return jnp.where(x > 0.25, 2 * kept, x)


def test_a_tie_is_a_note_and_refutes_within_a_declared_range() -> None:
    with pytest.warns(samebits.OtherInputsWarning, match="with 0.5 in 'x'"):
        samebits.assert_same(above_half, from_half, f.rows(), gradients=False)
    samebits.assert_same(above_half, lambda x: above_half(x), f.rows(), gradients=False)
    ended = samebits_command("compare", f"{__name__}:above_half", f"{__name__}:from_half", "--arg", "x=f32[8]:0..1")
    assert ended.code == 1 and "with 0.5 in 'x'" in ended.out


def test_what_came_out_one_way_only_is_named() -> None:
    (leaf,) = samebits.prove(far_away, lambda x: far_away(x) + 0.0, f.rows(), gradients=False).leaves
    (text,) = [each.text for each in leaf.proof.assumptions if each.word == "comparisons"]
    named = text.partition("; one way only at everything tried: ")[2]
    assert "gt at " in named and "max at " in named and len(named.split(", ")) == 2
    (leaf,) = samebits.prove(above_half, lambda x: above_half(x) + 0.0, f.rows(), gradients=False).leaves
    assert not any("one way only" in each.text for each in leaf.proof.assumptions)
