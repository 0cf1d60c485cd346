"""Accuracy that standard code costs is rounding, and told; a loss that grows with a sum, or is gross, is not."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.errors import RequestError
from samebits.functions.result import Comparing
from samebits.host import environment
from samebits.schema.finding import Finding
from tests.check.accuracy_specimens import FAULTS, HONEST, Specimen, product

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
    return [str(leaf.ruling.evidence) for leaf in compared.leaves if isinstance(leaf, Finding)]


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


@pytest.mark.slow
def test_a_sum_that_is_not_read_needs_a_limit() -> None:
    def opaque(x: Array) -> Array:
        return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    def total(x: Array) -> Array:
        return opaque(x).astype(jnp.float32).sum(-1).astype(x.dtype)

    def running(x: Array) -> Array:
        terms = opaque(x)
        return functools.reduce(jnp.add, (terms[:, place] for place in range(64)))

    x = jnp.asarray(np.random.default_rng(0).normal(size=(16, 64)), jnp.bfloat16)
    compared = samebits.check(total, running, x, gradients=False)
    assert compared.verdict == "error", compared
    assert "set accuracy= to how many times the error is accepted" in " ".join(compared.failure().split())
    assert samebits.check(total, running, x, gradients=False, accuracy=100).verdict == "rounding"


@pytest.mark.parametrize("accuracy", [0.5, "2", True])
def test_a_limit_is_a_number_of_at_least_one(accuracy: Any) -> None:
    with pytest.raises(RequestError, match=r"accuracy is .*; expected how many times the reference's error"):
        samebits.check(jnp.sin, jnp.cos, np.ones(4, np.float32), accuracy=accuracy)


def test_a_sum_over_many_devices_does_not_grow() -> None:
    specs = P(None, "tp"), P("tp", None)

    def summed(x: Array, w: Array) -> Array:
        @functools.partial(jax.shard_map, in_specs=specs, out_specs=P(), check_vma=False)
        def body(x: Array, w: Array) -> Array:
            return jax.lax.psum(x @ w, "tp")

        return body(x, w)

    arrays = [jnp.asarray(np.random.default_rng(0).normal(size=size), jnp.bfloat16) for size in ((8, 64), (64, 8))]
    proof = samebits.prove(product, summed, *arrays, gradients=False, mesh="tp32", specs=specs)
    assert proof.ok, proof


@pytest.mark.slow
@pytest.mark.parametrize("one", FAULTS, ids=lambda one: one.name)
def test_no_proof_accepts_what_a_check_rejects(one: Specimen) -> None:
    proof = samebits.prove(one.reference, one.variant, *one.inputs(np.random.default_rng(0)), **one.options())
    assert not proof.ok, proof
