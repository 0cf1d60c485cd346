"""Accuracy that standard code costs is rounding, and told; a loss that grows with a sum, or is gross, is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import RequestError
from samebits.functions.result import Comparing
from samebits.host import environment
from samebits.schema.result import Result
from tests.check.accuracy_specimens import FAULTS, HONEST, Specimen

environment.prepare()
pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of other magnitudes

Array = Any
FAST = 4


def table(specimens: Sequence[Specimen]) -> list[Any]:
    """The first ones in every run of the tests, the others in the slow one."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] if number >= FAST else [])
        for number, one in enumerate(specimens)
    ]


def checked(one: Specimen, seed: int = 0, **options: Any) -> Comparing:
    arrays = one.inputs(np.random.default_rng(seed))
    return samebits.check(one.reference, one.variant, *arrays, **one.options(), **options)


def evidence(compared: Comparing) -> list[str]:
    return [str(leaf.evidence) for leaf in compared.leaves if isinstance(leaf, Result)]


@pytest.mark.parametrize("one", table(HONEST))
def test_what_standard_code_costs_is_rounding_and_told(one: Specimen) -> None:
    compared = checked(one)
    assert compared.ok and compared.verdict == "rounding", compared
    told = [words for words in evidence(compared) if "costs accuracy: error" in words]
    assert told and all("no limit is set" in words for words in told), compared


@pytest.mark.parametrize("one", table(FAULTS))
def test_a_sum_in_a_narrow_type_loses_accuracy(one: Specimen) -> None:
    compared = checked(one)
    assert compared.verdict == "different", compared
    said = "".join(evidence(compared))
    assert "loses accuracy: error" in said, said
    assert "it grows with them" in said or "more than 32x fails where no limit is set" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_verdict_hangs_on_the_numbers_given(seed: int) -> None:
    verdicts = {one.name: checked(one, seed).verdict for one in (*HONEST[:FAST], *FAULTS[:FAST])}
    assert verdicts == {one.name: "rounding" for one in HONEST[:FAST]} | {
        one.name: "different" for one in FAULTS[:FAST]
    }


def test_a_limit_that_is_set_is_held() -> None:
    one = HONEST[1]
    with pytest.raises(AssertionError, match=r"loses accuracy: error 3.*limit 2, "):
        samebits.assert_same(
            one.reference, one.variant, *one.inputs(np.random.default_rng(0)), gradients=False, accuracy=2
        )
    compared = checked(one, accuracy=200)
    assert compared.ok and "limit 200" in str(compared)
    gross = FAULTS[0]
    assert checked(gross, accuracy=1e6).verdict == "rounding"


@pytest.mark.parametrize("accuracy", [0.5, "2", True])
def test_a_limit_is_a_number_of_at_least_one(accuracy: Any) -> None:
    with pytest.raises(RequestError, match=r"accuracy is .*; expected how many times the reference's error"):
        samebits.check(jnp.sin, jnp.cos, np.ones(4, np.float32), accuracy=accuracy)


@pytest.mark.slow
@pytest.mark.parametrize("one", FAULTS, ids=lambda one: one.name)
def test_no_proof_accepts_what_a_check_rejects(one: Specimen) -> None:
    proof = samebits.prove(one.reference, one.variant, *one.inputs(np.random.default_rng(0)), **one.options())
    assert not proof.ok, proof
