"""Integers that are computed: counts that become floats, outputs of integers, and distances that stop at a number."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from samebits.sizes.formulas.normal_form import EXACT
from samebits.sizes.proofs import family_proof
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

Function = Callable[..., Any]

ROWS = Family(symbols={"r": 1, "n": 1}, args={"x": Shaped(("r", "n")), "m": Shaped(("r", "n"), dtype="bool")})
LISTS = Family(symbols={"n": 1}, args={"x": Shaped(("n",), dtype="int32"), "y": Shaped(("n",), dtype="int32")})
FLAGS = Family(symbols={"n": 1}, args={"x": Shaped(("n",), dtype="bool"), "y": Shaped(("n",), dtype="bool")})
ONE = np.int32(1)
SQUARE = Family(symbols={"n": 1}, args={"x": Shaped(("n", "n"))})


def _masked_mean(x: Any, m: Any) -> Any:
    return jnp.where(m, x, 0).sum() / m.sum()


MEANS: dict[str, tuple[Function, Function]] = {
    "of all": (_masked_mean, lambda x, m: jnp.mean(x, where=m)),
    "of rows": (lambda x, m: (x * m).sum(1) / m.sum(1), lambda x, m: jnp.mean(x, axis=1, where=m)),
    "of a count in floats": (_masked_mean, lambda x, m: jnp.where(m, x, 0).sum() / m.astype(jnp.float32).sum()),
    "by rows": (_masked_mean, lambda x, m: jnp.where(m, x, 0).sum(0).sum() / m.sum(0).sum()),
}


@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", MEANS)
def test_a_count_is_the_sum_of_its_floats(name: str, direction: str) -> None:
    for proof in prove_all_sizes(*MEANS[name], ROWS, direction):
        assert proof.verdict == "rounding", proof.reason


def test_that_counts_fit_is_a_condition() -> None:
    (proof,) = prove_all_sizes(*MEANS["of all"], ROWS)
    assert EXACT in proof.conditions


WRONG_MEANS: dict[str, Function] = {
    "of the others": lambda x, m: jnp.where(m, x, 0).sum() / (~m).sum(),
    "of everything": lambda x, m: jnp.where(m, x, 0).sum() / m.size,
    "one more": lambda x, m: jnp.where(m, x, 0).sum() / (m.sum() + 1),
    "in narrow integers": lambda x, m: jnp.where(m, x, 0).sum() / m.sum(dtype=jnp.int8),
    "of the first row": lambda x, m: jnp.where(m, x, 0).sum() / m[0].sum(),
}


@pytest.mark.parametrize("name", WRONG_MEANS)
def test_another_count_is_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: tuple[dict[str, int], dict[str, str]] = {}, {}
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: nothing)  # concrete sizes would catch a wrong proof
    (proof,) = prove_all_sizes(lambda x, m: jnp.mean(x, where=m), WRONG_MEANS[name], ROWS)
    assert proof.verdict in ("different", "error"), proof


INTEGERS: dict[str, tuple[Function, Function, Family]] = {
    "sums": (lambda x, y: x + y, lambda x, y: y + x, LISTS),
    "differences": (lambda x, y: x - y, lambda x, y: -(y - x), LISTS),
    "De Morgan": (lambda x, y: ~(x & y), lambda x, y: ~x | ~y, FLAGS),
    "exclusive or": (lambda x, y: x != y, jnp.logical_xor, FLAGS),
    "choices": (lambda x, y: jnp.where(x, ONE, ONE + 1), lambda x, y: 2 - x.astype(jnp.int32), FLAGS),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_inputs_are_compared(name: str) -> None:
    (proof,) = prove_all_sizes(*INTEGERS[name])
    assert proof.verdict == "proved", proof.reason


WRONG_INTEGERS: dict[str, tuple[Function, Function, Family]] = {
    "sums": (lambda x, y: x + y, lambda x, y: x + y + (x > 100), LISTS),
    "De Morgan": (lambda x, y: ~(x & y), lambda x, y: ~x & ~y, FLAGS),
    "choices": (lambda x, y: jnp.where(x, 1, 2), lambda x, y: jnp.where(y, 1, 2), FLAGS),
}


@pytest.mark.parametrize("name", WRONG_INTEGERS)
def test_other_integers_are_not_shown(name: str) -> None:
    (proof,) = prove_all_sizes(*WRONG_INTEGERS[name])
    assert proof.verdict in ("different", "error"), proof


def test_integers_without_an_input_are_nothing() -> None:
    (proof,) = prove_all_sizes(lambda x, y: jnp.arange(x.size), lambda x, y: jnp.arange(y.size), LISTS)
    assert proof.verdict == "error" and "nothing to prove" in proof.reason
    (proof,) = prove_all_sizes(lambda x, y: jnp.where(x, ONE, ONE), lambda x, y: jnp.where(y, ONE, ONE), FLAGS)
    assert proof.verdict == "error" and "nothing to prove" in proof.reason


def _distances(x: Any) -> Any:
    places = jnp.arange(x.shape[0])
    return jnp.abs(places - places[:, None])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [3, 40, 64, 128])
def test_a_distance_that_stops_at_a_number_is_refuted(limit: int) -> None:
    """Both sides agree at the distance itself: the first size that differs is two larger."""
    (proof,) = prove_all_sizes(lambda x: x - _distances(x), lambda x: x - jnp.minimum(_distances(x), limit), SQUARE)
    assert proof.verdict == "different", proof.reason
    assert proof.sizes["n"] > limit + 1


COUNTS = Family(
    symbols={"n": 1, "v": 1},
    args={"t": Shaped(("n", "v"), dtype="int32"), "e": Shaped(("n",), dtype="int32", below="v")},
)
EXPERTS = Family(symbols={"n": 1}, args={"e": Shaped(("n",), dtype="int32", below="4")})
EVEN = Family(symbols={"n": 1}, args={"t": Shaped(("2*n",), dtype="int32")})
BYTES = Family(symbols={"n": 1}, args={"t": Shaped(("2*n",), dtype="int8")})


def _chosen(e: Any, many: Any, dtype: Any = jnp.int32) -> Any:
    return (e[:, None] == jnp.arange(many)).astype(dtype)


def _narrow_sum(t: Any) -> Any:
    return t.sum(dtype=jnp.int8).astype(jnp.int32)


SUMS: dict[str, tuple[Function, Function, Family]] = {
    "a pick": (
        lambda t, e: (t * _chosen(e, t.shape[1])).sum(1),
        lambda t, e: jnp.take_along_axis(t, e[:, None], 1)[:, 0],
        COUNTS,
    ),
    "the place in a queue": (
        lambda e: (jnp.cumsum(_chosen(e, 4), 0) * _chosen(e, 4)).sum(1),
        lambda e: jnp.take_along_axis(jnp.cumsum(_chosen(e, 4), 0), e[:, None], 1)[:, 0],
        EXPERTS,
    ),
    "halves": (lambda t: t.sum(), lambda t: t.reshape(2, -1).sum(1).sum(), EVEN),
    "halves that wrap around": (
        lambda t: t.sum(dtype=jnp.int8),
        lambda t: t.reshape(2, -1).sum(1, dtype=jnp.int8).sum(dtype=jnp.int8),
        BYTES,
    ),
    "a factor": (lambda t: (3 * t).sum(), lambda t: 3 * t.sum(), EVEN),
    "the last prefix": (lambda t: jnp.cumsum(t)[-1], lambda t: t.sum(), EVEN),
    "exclusive prefixes": (lambda t: jnp.cumsum(t) - t, lambda t: jnp.cumsum(t) + t - 2 * t, EVEN),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_integers_have_the_same_bits(name: str) -> None:
    (proof,) = prove_all_sizes(*SUMS[name])
    assert proof.verdict == "proved", proof.reason


WRONG_SUMS: dict[str, tuple[Function, Function, Family]] = {
    "another pick": (
        lambda t, e: (t * _chosen(e, t.shape[1])).sum(1),
        lambda t, e: jnp.take_along_axis(t, 0 * e[:, None], 1)[:, 0],
        COUNTS,
    ),
    "a later place": (
        lambda e: (jnp.cumsum(_chosen(e, 4), 0) * _chosen(e, 4)).sum(1),
        lambda e: (jnp.cumsum(_chosen(e, 4), 0) * _chosen(e, 4)).sum(1) - 1,
        EXPERTS,
    ),
    "a narrow count": (
        lambda e: _chosen(e, 4).sum(0),
        lambda e: _chosen(e, 4).sum(0, dtype=jnp.int8).astype(jnp.int32),
        EXPERTS,
    ),
    "a narrow sum of narrow sums": (
        lambda e: _chosen(e, 4).sum(),
        lambda e: _chosen(e, 4).sum(0, dtype=jnp.int8).astype(jnp.int32).sum(),
        EXPERTS,
    ),
    "narrow sums that are added up in a wide one": (
        _narrow_sum,
        lambda t: _narrow_sum(t.reshape(2, -1)[0]) + _narrow_sum(t.reshape(2, -1)[1]),
        BYTES,
    ),
    "a narrow sum of a multiple": (lambda t: _narrow_sum(3 * t), lambda t: 3 * _narrow_sum(t), BYTES),
    "one half": (lambda t: t.sum(), lambda t: 2 * t.reshape(2, -1)[0].sum(), EVEN),
    "the prefix before": (lambda t: jnp.cumsum(t)[-1], lambda t: jnp.cumsum(t)[-2], EVEN),
    "the other way": (lambda t: jnp.cumsum(t), lambda t: jnp.cumsum(t[::-1])[::-1], EVEN),
    "an average": (lambda t: t.sum(), lambda t: (t.sum() // 2) * 2, EVEN),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", WRONG_SUMS)
def test_other_sums_of_integers_are_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: tuple[dict[str, int], dict[str, str]] = {}, {}
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: nothing)  # concrete sizes would catch a wrong proof
    (proof,) = prove_all_sizes(*WRONG_SUMS[name])
    assert proof.verdict in ("different", "error"), proof
