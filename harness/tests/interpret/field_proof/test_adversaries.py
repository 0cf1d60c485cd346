"""Unequal functions are not called equal, or only under an assumption that says where they are not."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from tests.interpret.adversaries import ALL, CONSTANTS, MIXED, RANGE, ROOTS, THRESHOLDS, Adversary, Function
from tests.interpret.executed import asked

TABLE = np.arange(6, dtype=np.float32)
HONEST: dict[str, tuple[Function, Function]] = {
    "sqrt(x x) = |x|": (jnp.abs, lambda x: jnp.sqrt(x * x)),
    "beside a large number": (lambda x: jnp.abs(x) + 1e8, lambda x: jnp.sqrt(jnp.square(x)) + 1e8),
    "a power of one half": (jnp.abs, lambda x: (x**2) ** 0.5),
    "rsqrt": (lambda x: 1 / jnp.abs(x), lambda x: lax.rsqrt(x * x)),
    "a norm of one element": (jnp.abs, lambda x: jnp.linalg.norm(x[..., None], axis=-1)),
    "the value is computed after the root": (
        lambda x: jnp.sqrt(x * x * (1 + x * x) ** 2) + 0 * x,
        lambda x: jnp.abs(x * (1 + x * x)),
    ),
    "roots of roots": (lambda x: jnp.sqrt(jnp.sqrt(x**4)), jnp.abs),
    "a norm and its gradient by hand": (
        jax.grad(lambda x: jnp.sqrt((x * x).sum(-1) + 1e-6).sum()),
        lambda x: x * lax.rsqrt((x * x).sum(-1, keepdims=True) + 1e-6),
    ),
    "ceil by floor": (jnp.ceil, lambda x: -jnp.floor(-x)),
    "trunc by a cast": (lambda x: jnp.trunc(x * 3), lambda x: (x * 3).astype(np.int32).astype(x.dtype)),
    "a floor, cast there and back": (
        lambda x: jnp.floor(x * 3) * x,
        lambda x: jnp.floor(x * 3).astype(np.int32).astype(x.dtype) * x,
    ),
    "a rounded number, rounded again": (lambda x: jnp.round(x * 7), lambda x: jnp.floor(jnp.round(x * 7))),
    "round is odd": (lambda x: jnp.round(x * 5), lambda x: -jnp.round(-5 * x)),
    "fractions": (lambda x: x - jnp.floor(x), lambda x: x + jnp.ceil(-x)),
    "one mask on both sides": (
        lambda x: jax.nn.softmax(jnp.where(TABLE > 2, x, -1e9), -1),
        lambda x: jax.nn.softmax(jnp.where(TABLE <= 2, -1e9, x) + 1.5, -1),
    ),
    "max and min": (
        jax.grad(lambda x: (jnp.maximum(x, -x) + jnp.minimum(x, -x) + x).sum()),
        lambda x: jnp.ones_like(x),
    ),
    "a sign": (lambda x: x * jnp.sign(x), jnp.abs),
    "a table by place": (lambda x: jnp.asarray(TABLE)[x.argmax(-1)], lambda x: (-x).argmin(-1).astype(np.float32)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", HONEST)
def test_the_same_functions_stay_the_same(name: str) -> None:
    for seed in range(4):
        for one in said(Adversary(*HONEST[name], (MIXED,)), str(seed)):
            assert one.equal, (seed, one)


def said(one: Adversary, seed: str = "") -> list[FieldIdentity]:
    return list(identity(asked(one.reference, one.variant, *one.args), seed).values())


def test_there_are_enough_of_each_class() -> None:
    assert min(len(ROOTS), len(RANGE), len(CONSTANTS)) >= 15 and len(THRESHOLDS) >= 8
    assert len(ALL) == len(ROOTS) + len(RANGE) + len(CONSTANTS) + len(THRESHOLDS) >= 60


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", [name for name, one in ALL.items() if one.assumes is None and name not in ROOTS])
def test_other_functions_are_told_apart(name: str) -> None:
    assert not any(one.equal for one in said(ALL[name]))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROOTS)
def test_no_seed_gives_a_root_another_sign(name: str) -> None:
    """Both signs of a root of one number agree by accident at two random points with probability one quarter."""
    for seed in range(8):
        with contextlib.suppress(NotCovered):
            assert not any(one.equal for one in said(ROOTS[name], str(seed))), seed


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [name for name, one in ALL.items() if one.assumes is not None])
def test_agreements_at_these_inputs_are_listed_as_assumptions(name: str) -> None:
    for one in said(ALL[name]):
        assert one.equal
        listed = {each.word: each for each in one.assumptions}
        assert ALL[name].assumes in listed
        assert all(each.text and each.false_where for each in one.assumptions)
