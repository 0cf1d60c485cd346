"""Two functions at inputs beyond those that are given or drawn."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.functions.result import OtherInputsWarning
from tests.functions import specimens as f


def test_a_threshold_that_the_arrays_do_not_reach_is_told() -> None:
    with pytest.warns(OtherInputsWarning, match="64 times as large"):
        compared = samebits.check(jax.nn.relu, jax.nn.relu6, f.rows(), gradients=False)
    assert compared.verdict == "bitwise" and compared.ok
    assert "not so at other inputs: out[" in str(compared) and "64 times as large" in str(compared)
    with pytest.warns(OtherInputsWarning) as warned:
        samebits.assert_same(jax.nn.relu, jax.nn.relu6, f.rows())
    (warning,) = warned
    assert warning.filename == __file__
    assert str(warning.message).startswith(
        "relu_relu6: forward of 'out' is the same at the inputs tried, but not at others: out["
    )
    assert str(warning.message).endswith(
        "64 times as large (and 1 more result). If such inputs can occur, pass some as arguments, or declare them by "
        "values=, and the comparison fails; otherwise name the integers and masks that are all there are in exactly=, "
        "or filter samebits.OtherInputsWarning"
    )
    with pytest.raises(AssertionError, match="with the inputs 64 times as large"):  # of arrays that are not given
        samebits.assert_same(jax.nn.relu, jax.nn.relu6, jax.ShapeDtypeStruct((4, 8), jnp.float32), gradients=False)


def test_arrays_that_are_drawn_are_stretched_beside_given_ones() -> None:
    def clipped(limit: float) -> Any:
        return lambda w, v, x: jnp.clip(x, -limit, limit) * w + v

    args = f.rows(), 2 * f.rows(), jax.ShapeDtypeStruct(f.rows().shape, jnp.float32)
    compared = samebits.check(clipped(20.0), clipped(40.0), *args, gradients=False)
    assert compared.verdict == "different"
    assert "with the inputs that are drawn 64 times as large" in compared.failure()


def tied(factor: float) -> Any:
    """Ones tie in a sort, so that no formula is known at them."""
    return lambda scale, x: x * jnp.sort(scale) * (1 + (factor - 1) * (scale - 1))


def test_a_variation_shows_other_formulas_where_arrays_tie() -> None:
    ones, x = np.ones(6, np.float32), np.arange(1, 7, dtype=np.float32)
    assert samebits.check(tied(2.0), tied(3.0), ones, x, gradients=False).verdict == "different"
    assert samebits.prove(tied(2.0), tied(3.0), ones, x, gradients=False).verdict == "different"
    assert samebits.prove(tied(2.0), tied(2.0), ones, x, gradients=False).verdict == "error"


def test_a_given_integer_warns_of_others() -> None:
    def every_tenth(x: Any, step: Any) -> Any:
        return jnp.where(step % 10 == 0, 2 * x, x)

    with pytest.warns(samebits.OtherInputsWarning, match="not at others: .*'step' = "):
        samebits.assert_same(every_tenth, lambda x, step: x, f.rows(), np.int32(3), gradients=False)
    samebits.assert_same(
        every_tenth, lambda x, step: every_tenth(x, step), f.rows(), np.int32(3), gradients=False
    )  # warnings are errors


def normed(x: Any) -> Any:
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


def normed_unless_zero(x: Any) -> Any:
    norm = jnp.sqrt((x * x).sum(-1, keepdims=True))
    return x / jnp.where(norm > 0, norm, 1)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_row_of_zeros_is_a_note_and_fails_where_it_is_passed(drawn: bool) -> None:
    x = jax.ShapeDtypeStruct((4, 8), jnp.float32) if drawn else f.rows()
    with pytest.warns(samebits.OtherInputsWarning, match=r"out\[0, 0\] is nan .*'x' zero in its first row"):
        samebits.assert_same(normed, normed_unless_zero, x, gradients=False)
    with pytest.raises(AssertionError, match="nan"):  # as the warning says
        samebits.assert_same(normed, normed_unless_zero, f.rows() * (jnp.arange(6) > 0)[:, None], gradients=False)
