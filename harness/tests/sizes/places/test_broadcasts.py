"""Operands of elementwise equations: one element of a dimension of 1 is at every place; one variable is by one case."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.schema.contract import Direction
from samebits.sizes.proofs import family_proof
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import SizesProof, prove_all_sizes

FLOATS = Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "f"))})
COLUMN = Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "1"))})
INTEGERS = Family(
    symbols={"n": 1, "m": 1, "k": 1},
    args={"x": Shaped(("n",)), "t": Shaped(("m", "k"), dtype="int32", below="n")},
)
Function = Callable[[Any, Any], Any]


def _column(t: Any) -> Any:
    return t[:, 0][:, None]


HONEST: dict[str, tuple[Function, Function, Family]] = {
    "first column": (lambda x, t: t[:, 0:1] * x, lambda x, t: _column(t) * x, FLOATS),
    "last column": (lambda x, t: t[:, -1:] + x, lambda x, t: t[:, -1][:, None] + x, FLOATS),
    "first row": (lambda x, t: x - t[:1], lambda x, t: x - t[0], FLOATS),
    "an argument": (lambda x, t: t * x, lambda x, t: _column(t) * x, COLUMN),
    "both ways": (lambda x, t: t[:, :1] * x[:1], lambda x, t: _column(t) * x[0], FLOATS),
    "experts": (
        lambda x, t: sum(t[:, e : e + 1] * x for e in range(3)),
        lambda x, t: jnp.einsum("ne,nf->nf", t, x),
        Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "3"))}),
    ),
    "integers": (
        lambda x, t: x[t[:, :1] + 0 * jnp.arange(t.shape[1])],
        lambda x, t: x[jnp.broadcast_to(t[:, :1], t.shape)],
        INTEGERS,
    ),
}

FAULTS: dict[str, tuple[Function, Function, Family]] = {
    "every column": (lambda x, t: t[:, 0:1] * x, lambda x, t: t * x, FLOATS),
    "every row": (lambda x, t: x - t[:1], lambda x, t: x - t, FLOATS),
    "every integer": (
        lambda x, t: x[t[:, :1] + 0 * jnp.arange(t.shape[1])],
        lambda x, t: x[t],
        INTEGERS,
    ),
    "every condition": (
        lambda x, t: jnp.where(t[:, :1] > 0, x, 0),
        lambda x, t: jnp.where(t > 0, x, 0),
        Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "f"), dtype="int32")}),
    ),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", HONEST)
def test_one_element_is_at_every_place(name: str, direction: str) -> None:
    for proof in prove_all_sizes(*HONEST[name], direction):
        assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.parametrize("name", FAULTS)
def test_another_element_there_is_refuted(name: str) -> None:
    (proof,) = prove_all_sizes(*FAULTS[name])
    assert proof.verdict == "different", proof


@pytest.mark.parametrize("name", FAULTS)
def test_no_proof_needs_values_to_be_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: tuple[dict[str, int], dict[str, str]] = {}, {}
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: nothing)  # concrete sizes would catch a wrong proof
    (proof,) = prove_all_sizes(*FAULTS[name])
    assert not _is_shown(proof), proof


def _is_shown(proof: SizesProof) -> bool:
    return proof.verdict in ("proved", "rounding")


def test_such_programs_broadcast_in_the_equation() -> None:
    """Should jax write the broadcast out one day, nothing above would be tested."""
    closed = jax.make_jaxpr(lambda x, t: t * x)(jnp.ones((2, 3)), jnp.ones((2, 1)))
    assert [equation.primitive.name for equation in closed.jaxpr.eqns] == ["mul"]


@pytest.mark.parametrize("direction", ["forward", pytest.param("gradient", marks=pytest.mark.slow)])
def test_one_variable_twice_is_by_the_same_case(direction: Direction) -> None:
    """Of two sums of exponentials, `jnp.logaddexp` asks whether their difference is itself."""
    family = Family(symbols={"n": 1, "v": 1}, args={"x": Shaped(("n", "2*v"))})

    def merged(x: Any) -> Any:
        first, second = jnp.split(x, 2, 1)
        return jnp.logaddexp(jax.nn.logsumexp(first, 1), jax.nn.logsumexp(second, 1))

    (proof,) = prove_all_sizes(lambda x: jax.nn.logsumexp(x, 1), merged, family, direction)
    assert proof.verdict == "rounding", proof.reason


def test_another_half_is_not_shown() -> None:
    family = Family(symbols={"n": 1, "v": 1}, args={"x": Shaped(("n", "2*v"))})

    def merged(x: Any) -> Any:
        first, _ = jnp.split(x, 2, 1)
        return jnp.logaddexp(jax.nn.logsumexp(first, 1), jax.nn.logsumexp(first, 1))

    (proof,) = prove_all_sizes(lambda x: jax.nn.logsumexp(x, 1), merged, family)
    assert proof.verdict in ("different", "error"), proof
