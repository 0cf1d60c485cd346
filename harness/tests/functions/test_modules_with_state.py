"""Modules of flax with state: compared where they are arguments, and else told how."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import samebits
from samebits.errors import CouldNotRun

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.norm(self.linear(x)))


def called(model: Any, x: Any) -> Any:
    return model(x)


def by_parts(model: Any, x: Any) -> Any:
    y = jnp.einsum("bi,io->bo", x, model.linear.kernel[...]) + model.linear.bias[...]
    return model.dropout(model.norm(y))


def without_statistics(model: Any, x: Any) -> Any:
    y = by_parts(model, x)
    model.norm.mean[...] = jnp.zeros(8)
    return y


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        y = nn.BatchNorm(use_running_average=False)(nn.Dense(8)(x))
        return nn.Dropout(0.5, deterministic=not self.has_rng("dropout"))(y)


class Dropped(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dropout(0.5, deterministic=False)(x)


@pytest.mark.slow
def test_a_module_that_is_an_argument_is_compared_with_its_state() -> None:
    model = Block(nnx.Rngs(0))
    samebits.assert_same(called, by_parts, model, X)
    wrong = samebits.check(called, without_statistics, model, X, gradients=False)
    assert [leaf.place.leaf for leaf in wrong.leaves if not leaf.ruling.ok] == ["model.norm.mean.value after the call"]
    samebits.assert_same(called, without_statistics, model, X, gradients=False, ignore=("model.norm.mean.*",))


def linen(variables: Any, x: Any) -> Any:
    return Layer().apply(variables, x, mutable=["batch_stats"])


def linen_frozen(variables: Any, x: Any) -> Any:
    y, _ = linen(variables, x)
    return y, {"batch_stats": variables["batch_stats"]}


def test_collections_that_are_returned_are_compared() -> None:
    variables = Layer().init(jax.random.key(0), X)
    wrong = samebits.check(linen, linen_frozen, variables, X, gradients=False)
    failing = [leaf.place.leaf for leaf in wrong.leaves if not leaf.ruling.ok]
    assert failing == [f"out[1]['batch_stats']['BatchNorm_0']['{name}']" for name in ("mean", "var")]


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (Block, "a module with state is an argument, so that what is written into it is compared"),
        (lambda x: Layer().apply(Layer().init(jax.random.key(0), x), x), "is applied with mutable=['batch_stats']"),
        (Layer(), "a module is called by its variables: give a function of them"),
        (lambda x: Dropped().apply({}, x), "give it a key: rngs={'dropout': key} of apply"),
    ],
)
def test_how_a_module_with_state_is_compared_is_told(function: Any, advice: str) -> None:
    function = Block(nnx.Rngs(0)) if function is Block else function  # not while tests are collected: it starts jax
    with pytest.raises(CouldNotRun) as raised:
        samebits.assert_same(function, lambda x: x, X, gradients=False)
    assert advice in str(raised.value)
