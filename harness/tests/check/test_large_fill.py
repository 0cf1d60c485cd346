"""One large number in a leaf, such as what masks the others, hides no mistake, and makes none of rounding."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import samebits
from samebits.check.error_groups import WHOLE, error_ratios

FILL = -1e30
Function = Callable[..., Any]


def _norm(x: Any, root: bool = False) -> Any:
    mean = jnp.mean(x * x, -1, keepdims=True) + 1e-6
    return x / jnp.sqrt(mean) if root else x * jax.lax.rsqrt(mean)


def _scores(q: Any, k: Any, scale: float = 0.125) -> Any:
    return jnp.where(_causal(q), scale * (_norm(q) @ _norm(k).T), FILL)


def _causal(x: Any) -> Any:
    return np.tri(x.shape[0], dtype=bool)


def _slopes(first: int) -> Any:
    return 2.0 ** (-8.0 * jnp.arange(first, first + 4) / 4)[:, None, None]


def _biased(pos: Any, first: int = 1) -> Any:
    apart = (pos[:, None] - pos[None, :]).astype(jnp.float32)
    return jnp.where(apart >= 0, -_slopes(first) * apart, FILL)


def _kernel(x: Any, factor: float = 0.3) -> Any:
    def body(source: Any, target: Any) -> None:
        x = source[...]
        squares = factor * jnp.sum(x * x, -1, keepdims=True)
        target[...] = jnp.where(_mask(x), squares + jnp.sin(x), FILL)

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)


def _mask(x: Any) -> Any:
    return jax.lax.broadcasted_iota(jnp.int32, x.shape, 1) >= jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)


def _plain(x: Any) -> Any:
    return jnp.where(_mask(x), jnp.sum(0.3 * x * x, -1, keepdims=True) + jnp.sin(x), FILL)


def _callback(x: Any, factor: float = 0.3) -> Any:
    def on_host(x: Any) -> Any:
        return (factor * np.sum(x * x, -1, keepdims=True) + np.sin(x)).astype(x.dtype)

    return jnp.where(_mask(x), jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x), FILL)


X = jax.ShapeDtypeStruct((8, 16), jnp.float32)
POSITIONS = np.arange(8, dtype=np.int32)

FAULTY: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "slopes one too early": (_biased, lambda pos: _biased(pos, 0), (POSITIONS,)),
    "sides exchanged": (_scores, lambda q, k: _scores(k, q), (X, X)),
    "another scale": (_scores, lambda q, k: _scores(q, k, 0.13), (X, X)),
    "zeros": (_scores, lambda q, k: jnp.where(_causal(q), jnp.zeros((8, 8)), FILL), (X, X)),
    "another kernel": (_plain, lambda x: _kernel(x, 0.31), (X,)),
    "another callback": (_plain, lambda x: _callback(x, 0.31), (X,)),
}
HONEST: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "root": (_scores, lambda q, k: jnp.where(_causal(q), (_norm(q, True) * 0.125) @ _norm(k, True).T, FILL), (X, X)),
    "kernel": (_plain, _kernel, (X,)),
    "callback": (_plain, _callback, (X,)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAULTY)
def test_a_large_fill_hides_no_mistake(name: str) -> None:
    reference, variant, args = FAULTY[name]
    compared = samebits.check(reference, variant, *args, gradients=False)
    assert [leaf.ruling.verdict for leaf in compared.leaves] == ["different"]


@pytest.mark.parametrize("name", HONEST)
def test_rounding_beside_a_large_fill_is_rounding(name: str) -> None:
    reference, variant, args = HONEST[name]
    compared = samebits.check(reference, variant, *args, gradients=False)
    assert compared.leaves[0].ruling.verdict in ("rounding", "bitwise", "proved")


def _spread(x: Any, fill: float, exact: bool = True) -> Any:
    x = x + 30
    centred, squares = x - x.mean(-1, keepdims=True), jnp.mean(x * x, -1) - x.mean(-1) ** 2
    return jnp.concatenate([jnp.mean(centred**2, -1) if exact else squares, jnp.full(2, fill, x.dtype)])


@pytest.mark.parametrize("fill", [FILL, float(np.finfo(np.float32).min)])
def test_a_large_fill_hides_no_loss_of_accuracy(fill: float) -> None:
    compared = samebits.check(partial(_spread, fill=fill), partial(_spread, fill=fill, exact=False), X, gradients=False)
    assert compared.verdict == "different" and "loses accuracy" in str(compared)


def test_large_numbers_that_are_not_a_fill_count() -> None:
    """Beside ones and beside many large numbers, what is left of a cancellation has no digits to lose."""
    small = np.array([3e-9, 1e-9], np.float32)
    for large in (np.ones(62), np.geomspace(1e20, 1e25, 62)):
        equal = large.astype(np.float32)
        ref, var, true = (np.concatenate([equal, part]) for part in (small, 50 * small, 0 * small))
        ratio = error_ratios(ref, var, true.astype(float))[WHOLE]
        assert ratio.value < 2 and ratio.elements == 64


def test_a_fill_of_masked_places_does_not_count() -> None:
    fill, small = np.full(62, -1e30, np.float32), np.array([3.0, 1.0], np.float32)
    ref, var, true = (np.concatenate([fill, factor * small]) for factor in (np.float32(1), np.float32(1.001), 1))
    ratio = error_ratios(ref, var, true.astype(float))[WHOLE]
    assert ratio.value > 1000 and ratio.elements == 2


def _update(p: Any, m: Any, v: Any, epsilon: float = 1e-8) -> Any:
    return p - 1e-4 * (m / (1 - 0.9**5)) / (jnp.sqrt((v * v + 0.01) / (1 - 0.999**5)) + epsilon)


def _folded(p: Any, m: Any, v: Any) -> Any:
    last = np.sqrt(1 - 0.999**5)
    return p - (1e-4 * last / (1 - 0.9**5)) * m / (jnp.sqrt(v * v + 0.01) + 1e-8 * last)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.0, 1e-7])
def test_another_epsilon_beside_a_parameter_is_seen(epsilon: float) -> None:
    """It moves the parameter by 1e-12 of itself; float64 has four digits more."""
    wrong = samebits.check(_update, lambda p, m, v: _update(p, m, v, epsilon), X, X, X, gradients=False)
    assert wrong.verdict == "different"
    assert samebits.check(_update, _folded, X, X, X, gradients=False).ok
