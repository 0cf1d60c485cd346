"""What comparisons pass under: in the result, in its table, and without any by `assumptions=False`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import CouldNotRun, RequestError
from samebits.functions.passed import REPORTING
from tests.functions import specimens as f
from tests.support import toys

pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")
"""What differs at a NaN that is planted is not what these tests are about."""


def gated(x: Any) -> Any:
    return jnp.where(x > 0, x, 0.0) * 2


def clipped(x: Any) -> Any:
    return 2 * jnp.maximum(x, 0.0)


def table_of(ids: Any, table: Any) -> Any:
    return table[ids]


def table_by_dot(ids: Any, table: Any) -> Any:
    return (jax.nn.one_hot(ids, table.shape[0])[..., None] * table).sum(-2)


def test_a_result_has_what_it_assumes_with_how_it_could_be_false() -> None:
    compared = samebits.check(gated, clipped, f.rows(), gradients=False)
    assert compared.ok and {"comparisons", "range"} <= {taken.word for taken in compared.assumptions}
    assert "\nassumes: comparisons come out as at the inputs of the case" in str(compared)
    assert "; false where other inputs are ordered, routed, clipped" in str(compared)
    assert "assumes: comparisons" in compared._repr_html_()


def test_what_holds_for_every_input_assumes_nothing() -> None:
    compared = samebits.check(lambda x: x[::-1], lambda x: jnp.flip(x, 0), f.rows())
    assert compared.verdict == "proved" and compared.assumptions == ()
    assert "assumes" not in str(compared)


def test_the_table_of_a_proof_shows_the_kinds() -> None:
    proved = samebits.prove(gated, clipped, f.rows(), gradients=False)
    assert proved.ok and "by fields; assumes comparisons, range, values; error probability" in str(proved)
    assert "\nassumes: comparisons come out" in str(proved)


@pytest.mark.parametrize("call", [samebits.check, samebits.prove])
def test_no_assumptions_in_python(call: Any) -> None:
    """A proof that rests on some is no evidence; equal bits and a proof without any still are."""
    without = call(gated, lambda x: clipped(x) + 0.0, f.rows(), assumptions=False)
    assert not without.ok and without.verdict == "error"
    assert call(lambda x: x[::-1], lambda x: jnp.flip(x, 0), f.rows(), assumptions=False).verdict == "proved"


def test_assert_same_without_assumptions() -> None:
    summed = (lambda x: jnp.sum(x, -1), lambda x: x @ jnp.ones(x.shape[-1], x.dtype))
    x = jax.random.normal(jax.random.key(0), (4, 64))
    samebits.assert_same(*summed, x, gradients=False)
    with pytest.raises(CouldNotRun, match=r"could not tell without assumptions \(range\): "):
        samebits.assert_same(*summed, x, gradients=False, assumptions=False)


def test_a_pair_without_assumptions() -> None:
    pair = toys.toy(twice=toys.twice)
    assert samebits.check(pair, assumptions=False).assumptions == ()
    with pytest.raises(
        RequestError, match=r"takes a pair, and Request\(\.\.\.\) to select from it, and assumptions=False"
    ):
        samebits.check(pair, accept="rounding")


def test_sizes_are_assumed() -> None:
    with pytest.raises(RequestError, match="it does not go with assumptions=False"):
        samebits.prove(gated, clipped, f.rows(), sizes="all", assumptions=False)


def test_values_that_a_proof_is_for_are_assumed() -> None:
    ids, table = np.array([0, 2, 1, 2]), f.rows()
    compared = samebits.check(table_of, table_by_dot, ids, table, gradients=False, exactly=("ids",))
    assert any(taken.text == "these values of ids" for taken in compared.assumptions)


def test_comparisons_are_noted_for_who_wants_them() -> None:
    before, REPORTING.wanted, kept = REPORTING.wanted, True, REPORTING.take()
    try:
        samebits.check(gated, clipped, f.rows(), gradients=False, name="assumed")
        samebits.check(lambda x: x[::-1], lambda x: jnp.flip(x, 0), f.rows(), name="proved")
        samebits.check(lambda x: x * 2, lambda x: x * 3, f.rows(), name="different")
        counts = {name: len(assumptions) > 0 for name, assumptions in REPORTING.take()}
        assert counts == {"assumed": True, "proved": False, "different": False}
        REPORTING.wanted = False
        samebits.check(lambda x: x[::-1], lambda x: jnp.flip(x, 0), f.rows(), name="proved")
        assert REPORTING.take() == []
    finally:
        REPORTING.wanted, REPORTING.compared = before, kept
