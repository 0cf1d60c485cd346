"""Branches of `lax.platform_dependent` for all sizes: the proof is for the platform where it would run, and says so."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from samebits import Arg, Case, MeshSpec, Pair
from samebits.sizes.proofs import witnesses
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.pair_sizes import PairSizes
from samebits.sizes.proofs.witnesses import different_at
from tests.sizes.proofs.size_faults import ON_LINE

Function = Callable[[jax.Array], jax.Array]


def turned(x: jax.Array) -> jax.Array:
    return x[::-1]


def as_it_is(x: jax.Array) -> jax.Array:
    return x


def _on(platform: str | None, direction: str, **branches: Function) -> list[tuple[str, tuple[str, ...]]]:
    family = replace(ON_LINE, platform=platform)

    def variant(x: jax.Array) -> jax.Array:
        result: jax.Array = lax.platform_dependent(x, **branches)
        return result

    proofs = prove_all_sizes(turned, variant, family, direction)
    for proof in proofs:
        if proof.verdict == "different":
            assert different_at((turned, variant), family, direction, proof.sizes)
    return [(proof.verdict, proof.conditions) for proof in proofs]


@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_the_branch_is_proved_and_the_platform_is_a_condition(direction: str) -> None:
    for platform, branches in (
        ("cpu", {"cpu": turned, "default": as_it_is}),
        ("tpu", {"cpu": as_it_is, "default": turned}),
        ("gpu", {"cuda": turned, "rocm": turned, "default": as_it_is}),
    ):
        ((verdict, conditions),) = _on(platform, direction, **branches)
        assert verdict == "proved"
        assert f"the platform is {platform}" in conditions


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_a_fault_in_the_branch_of_the_platform_is_refuted(direction: str) -> None:
    for platform, branches in (
        ("cpu", {"cpu": as_it_is, "default": turned}),
        ("tpu", {"cpu": turned, "default": as_it_is}),
        ("cpu", {"cpu": lambda x: jnp.flip(x) if x.shape[0] != 7 else x, "default": turned}),
    ):
        ((verdict, _),) = _on(platform, direction, **branches)
        assert verdict == "different"


def test_without_a_platform_nothing_is_proved() -> None:
    ((verdict, _),) = _on(None, "forward", cpu=turned, default=turned)
    assert verdict == "error"


def test_a_platform_without_a_branch_is_undecided() -> None:
    ((verdict, _),) = _on("tpu", "forward", cpu=turned, cuda=turned)
    assert verdict == "error"


def test_points_are_proved_for_their_own_platform() -> None:
    def by_platform(x: jax.Array) -> jax.Array:
        result: jax.Array = lax.platform_dependent(x, cpu=turned, default=as_it_is)
        return result

    pair = Pair(
        name="turned",
        reference=turned,
        variants={"by_platform": by_platform},
        args={"x": Arg(shape=("length",))},
        cases=(Case(id="small", sizes={"length": 4}),),
        dtypes=("float32",),
        gradients=False,
    )
    prover, point = PairSizes(), PairPoint(pair, "by_platform", pair.cases[0], "float32", "forward")
    for platform, verdict in (("cpu", "proved"), ("tpu", "different"), ("cpu", "proved")):
        (leaf,) = prover.prove(replace(point, platform=platform), MeshSpec.parse("none")).leaves
        assert leaf.verdict == verdict, platform


def by_backend(x: jax.Array) -> jax.Array:
    return x if jax.default_backend() == "tpu" else x[::-1]


def by_device(x: jax.Array) -> jax.Array:
    return x if jax.devices()[0].platform == "tpu" else x[::-1]


def by_backend_where_large(x: jax.Array) -> jax.Array:
    return x if x.shape[0] > 128 and jax.default_backend() == "tpu" else x[::-1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("variant", [by_backend, by_device, by_backend_where_large])
def test_code_that_asks_for_another_platform_is_undecided(
    variant: Function, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was proved for a TPU as it is on a CPU: only `lax.platform_dependent` has the branches of both."""
    monkeypatch.setattr(witnesses, "MOST_TRIALS", 2)  # before each of them, what this code asked is forgotten
    for reference, side in ((turned, variant), (variant, turned)):
        (proof,) = prove_all_sizes(reference, side, replace(ON_LINE, platform="tpu"), direction)
        assert proof.verdict == "error"
        assert "test_size_platforms.py:" in proof.reason
        assert proof.reason.endswith("asks for the platform while it is traced, which is cpu here")
    (proof,) = prove_all_sizes(turned, variant, replace(ON_LINE, platform="cpu"), direction)
    assert proof.verdict == "proved"
    assert "the platform is cpu" in proof.conditions


def test_the_platform_is_a_condition_for_every_number_of_devices() -> None:
    pair = Pair(
        name="turned",
        reference=turned,
        variants={"by_backend": by_backend},
        args={"x": Arg(shape=("length",), spec=("ring",))},
        cases=(Case(id="small", sizes={"length": 4}),),
        dtypes=("float32",),
        meshes=("ring4",),
        gradients=False,
    )
    point = PairPoint(pair, "by_backend", pair.cases[0], "float32", "forward", platform="cpu")
    proof = PairSizes().prove(point, MeshSpec.parse("ring4"))
    text = proof.family(proof.leaves[0]).text
    assert "every number of devices" in text
    assert "the platform is cpu" in text
