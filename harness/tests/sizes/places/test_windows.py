"""Pooling of any size: windows against reshapes and shifted slices, and wrong forms of them."""

import functools
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_faults import Honest

BLOCKS = Family(symbols={"h": 1, "p": 2, "d": 1}, args={"x": Shaped(("h*p", "d")), "like": Shaped(("p",))})
LINE = Family(symbols={"n": 1, "d": 1}, args={"x": Shaped(("n", "d"))})


def _pooled(x: Any, window: Any, stride: Any, padding: Any = "VALID", *, kind: str = "sum") -> Any:
    start, operation = {"sum": (0.0, lax.add), "max": (-jnp.inf, lax.max), "min": (jnp.inf, lax.min)}[kind]
    return lax.reduce_window(x, start, operation, (window, 1), (stride, 1), padding)


def _blocks(x: Any, like: Any, *, kind: str = "sum", strided: bool = False) -> Any:
    size = like.shape[0]
    blocks = x.reshape(size, -1, x.shape[1]) if strided else x.reshape(-1, size, x.shape[1])
    return getattr(jnp, kind)(blocks, axis=0 if strided else 1)


def _of_block(kind: str) -> Any:
    return lambda x, like: _pooled(x, like.shape[0], like.shape[0], kind=kind)


def _neighbours(x: Any, *, before: int = 1, at: int = 0) -> Any:
    padded = jnp.pad(x, ((before, 2 - before), (0, 0)))
    total = sum(padded[k : k + x.shape[0]] for k in range(3))
    return jnp.where(x.shape[0] == at, 0, total)


HONEST = (
    *(
        Honest(
            f"blocks, {kind}",
            _of_block(kind),
            functools.partial(_blocks, kind=kind),
            BLOCKS,
            {"strided": functools.partial(_blocks, kind=kind, strided=True)},
        )
        for kind in ("sum", "max", "min")
    ),
    Honest(
        "neighbours",
        lambda x: _pooled(x, 3, 1, ((1, 1), (0, 0))),
        _neighbours,
        LINE,
        {
            "from here on": functools.partial(_neighbours, before=0),
            "wrong at 16": functools.partial(_neighbours, at=16),
        },
    ),
)
FAULTS = [(honest, name) for honest in HONEST for name in honest.wrong]


@pytest.mark.parametrize("honest", HONEST, ids=[honest.name for honest in HONEST])
def test_a_window_is_what_it_reads(honest: Honest) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.variant, honest.family)
    assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.sampled(1)
@pytest.mark.parametrize("honest", [HONEST[0], HONEST[3]], ids=["blocks", "neighbours"])
def test_so_are_the_gradients_of_sums(honest: Honest) -> None:
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, "gradient"):
        assert proof.verdict in ("proved", "rounding"), proof.reason
    for name in honest.wrong:
        wrong = prove_all_sizes(honest.reference, honest.wrong[name], honest.family, "gradient")
        assert any(proof.verdict == "different" for proof in wrong), name


@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_no_other_window_is_the_same(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different", proof


def test_windows_of_integers_stay_undecided() -> None:
    family = Family(symbols={"n": 1}, args={"x": Shaped(("2*n", 1), "int32")})
    (proof,) = prove_all_sizes(lambda x: _pooled(x, 2, 2), lambda x: x[::2] + x[1::2], family)
    assert proof.verdict == "error", proof
