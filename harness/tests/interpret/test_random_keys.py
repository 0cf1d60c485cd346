"""Random keys are data: what jax draws, proofs for these keys, and other keys that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret import jax_evaluation
from samebits.interpret.equation import Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain
from samebits.interpret.machine_independence import IndependenceDomain
from samebits.interpret.oracle import Oracle
from tests.interpret.executed import check, compared

Function = Callable[..., Any]

KEY = object()
"""The place of a random key, which is made in a test: a key starts jax's backend."""
X = np.random.default_rng(24).normal(size=(3, 4)).astype(np.float32)
V = np.random.default_rng(25).uniform(0.5, 3, 3).astype(np.float32)


def with_key(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with a key in its place."""
    return tuple(jax.random.key(3) if arg is KEY else arg for arg in args)


def carried(key: Any) -> Any:
    def body(key: Any, _: Any) -> Any:
        key, own = jax.random.split(key)
        return key, jax.random.uniform(own)

    return lax.scan(body, key, None, 3)[1]


def dropped(key: Any, x: Any, rate: float = 0.5) -> Any:
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


EXECUTED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "random_bits": (lambda key: jax.random.bits(jax.random.fold_in(key, 7), (3,)), (KEY,)),
    "random_split": (lambda key: jax.random.key_data(jax.random.split(key, 3)[1]), (KEY,)),
    "random_wrap": (lambda data: jax.random.normal(jax.random.wrap_key_data(data)), (np.arange(2, dtype=np.uint32),)),
    "random_seed": (lambda x: x + jax.random.normal(jax.random.key(2), x.shape), (X,)),
    "a raw key": (lambda x: x + jax.random.normal(jax.random.PRNGKey(2), x.shape), (X,)),
    "random_clone": (lambda key: jax.random.uniform(jax.random.clone(key), (2,)), (KEY,)),
    "a batch of keys": (lambda key: jax.vmap(jax.random.normal)(jax.random.split(key, 3)), (KEY,)),
    "a scan over keys": (carried, (KEY,)),
    "dropout": (dropped, (KEY, X)),
    "a permutation": (jax.random.permutation, (KEY, X)),
    "categorical": (jax.random.categorical, (KEY, X)),
    "rbg": (lambda x: x + jax.random.uniform(jax.random.key(0, impl="rbg"), x.shape), (X,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_draws_what_jax_does(name: str) -> None:
    function, args = EXECUTED[name]
    wide = [arg.astype(np.float64) if getattr(arg, "dtype", None) == np.float32 else arg for arg in with_key(args)]
    check(function, *wide)


def by_hand(key: Any, x: Any) -> Any:
    mask = jax.random.uniform(key, x.shape) < 0.5
    return x * mask.astype(x.dtype) * 2


EQUAL: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "dropout by hand": (dropped, by_hand, (KEY, X)),
    "noise, added first": (
        lambda key, x: (x + jax.random.normal(key, x.shape)) * 2,
        lambda key, x: 2 * jax.random.normal(key, x.shape) + x + x,
        (KEY, X),
    ),
    "keys of a split": (
        lambda key, x: x * jax.random.uniform(jax.random.split(key)[1]),
        lambda key, x: jax.random.uniform(jax.random.split(key, 2)[-1]) * x,
        (KEY, X),
    ),
    "gamma of one parameter": (
        lambda key, v: jax.random.gamma(key, v + v),
        lambda key, v: jax.random.gamma(key, 2 * v),
        (KEY, V),
    ),
}

DIFFERENT: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "another rate": (dropped, lambda key, x: dropped(key, x, 0.25), (KEY, X)),
    "another key": (dropped, lambda key, x: dropped(jax.random.fold_in(key, 1), x), (KEY, X)),
    "the other half": (
        lambda key, x: x * jax.random.uniform(jax.random.split(key)[0]),
        lambda key, x: x * jax.random.uniform(jax.random.split(key)[1]),
        (KEY, X),
    ),
    "another parameter": (jax.random.gamma, lambda key, v: jax.random.gamma(key, v[::-1]), (KEY, V)),
    "a key used twice": (
        lambda key, x: sum((dropped(k, x) for k in jax.random.split(key)), jnp.zeros(())),
        lambda key, x: 2 * dropped(jax.random.split(key)[0], x),
        (KEY, X),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved(name: str) -> None:
    first, second, args = EQUAL[name]
    assert compared(first, second, *with_key(args)) == "equal"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DIFFERENT)
def test_their_unequal_twins_are_different(name: str) -> None:
    first, second, args = DIFFERENT[name]
    assert compared(first, second, *with_key(args)) == "different"


def test_unknown_keys_move_and_are_not_drawn_from() -> None:
    labels = LabelDomain()
    kind = Type((3,), np.dtype((np.void, 8)))
    keys = jax.random.split(jax.random.key(3), 3)
    (moved,) = Interpreter(labels)(jax.make_jaxpr(lambda k: k[::-1])(keys), labels.input("keys", kind))
    assert [labels.table.words(int(code)) for code in moved.codes] == ["keys[2]", "keys[1]", "keys[0]"]
    with pytest.raises(NotCovered, match=r"random_bits\(.*'labels', where its operands are unknown"):
        Interpreter(labels)(jax.make_jaxpr(lambda k: jax.random.bits(k[0]))(keys), labels.input("more", kind))


def test_bits_of_a_platform_are_not_those_of_another() -> None:
    program = jax.make_jaxpr(lambda x: x + jax.random.uniform(jax.random.key(0, impl="rbg"), x.shape))(X)
    with pytest.raises(NotCovered, match="gives the bits of cpu, not of tpu"):
        Interpreter(Oracle(), "tpu")(program, X)
    with pytest.raises(NotCovered, match="gives bits that depend on the platform"):
        Interpreter(IndependenceDomain())(program, X)
    Interpreter(Oracle(), "tpu")(jax.make_jaxpr(lambda x: x + jax.random.uniform(jax.random.key(3), x.shape))(X), X)


def test_floats_are_not_read_as_bits() -> None:
    with pytest.raises(NotCovered, match="bits are read as another type"):
        check(lambda x: lax.bitcast_convert_type(x, np.int64), X.astype(np.float64))


def test_a_key_that_loses_a_word_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = jax_evaluation._words
    monkeypatch.setattr(jax_evaluation, "_words", lambda keys: right(keys) * np.array([1, 0], np.uint32))
    with pytest.raises(AssertionError, match="output 0"):
        check(EXECUTED["random_bits"][0], jax.random.key(3))
