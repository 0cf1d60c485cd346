"""Constants that several floating-point operations compute have no bits that labels know; all others have."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits

X = np.random.default_rng(0).normal(size=(16,)).astype(np.float32)
SLOW = pytest.mark.slow


def _beside(constant: Callable[[], Any]) -> Callable[[Any], Any]:
    """An argument beside a constant that is computed where the function runs."""
    return lambda x: jnp.concatenate([x, constant().astype(x.dtype)])


def _numbers() -> Any:
    return jnp.arange(16, dtype=jnp.float32)


COMPUTED: dict[str, Callable[[], Any]] = {
    "a product and a sum": lambda: jax.random.uniform(jax.random.key(0), (16,)) * 0.3 + 0.1,
    "a normal distribution": lambda: jax.random.normal(jax.random.key(0), (16,)),
    "a range": lambda: jax.random.uniform(jax.random.key(0), (16,), minval=0.1, maxval=0.7),
    "a function of exact numbers": lambda: jnp.exp(_numbers() * 0.0625),
    "a table of angles": lambda: jnp.cos(_numbers() * 0.1),
    "a mean": lambda: jnp.mean(jax.random.uniform(jax.random.key(0), (16, 3)), -1),
    "a matrix product": lambda: (_numbers() / 7) @ jax.random.uniform(jax.random.key(0), (16, 16)),
    "powers": lambda: 0.9 ** _numbers(),
    "a narrow type": lambda: _numbers().astype(jnp.bfloat16) / 7 + jnp.bfloat16(0.3),
}
EXACT: dict[str, Callable[[], Any]] = {
    "integers": lambda: _numbers() * 3 + 1,
    "one operation": lambda: _numbers() / 3,
    "uniform numbers": lambda: jax.random.uniform(jax.random.key(0), (16,)),
    "one product of them": lambda: jax.random.uniform(jax.random.key(0), (16,)) * 0.3,
    "a mask": lambda: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.3, (16,)), 0.0, -1e9),
    "halves": lambda: _numbers() * 0.5 + 0.25,
    "an order": lambda: jnp.argsort(jax.random.normal(jax.random.key(0), (16,))),
    "a literal": lambda: jnp.full(16, 0.1),
}


@pytest.mark.parametrize(
    "name", [*list(COMPUTED)[:3], *(pytest.param(name, marks=SLOW) for name in list(COMPUTED)[3:])]
)
def test_labels_do_not_know_what_is_computed(name: str) -> None:
    side = _beside(COMPUTED[name])
    proof = samebits.prove(side, lambda x: side(x), X, gradients=False)
    assert proof.verdict == "rounding"


@pytest.mark.parametrize("name", [*list(EXACT)[:3], *(pytest.param(name, marks=SLOW) for name in list(EXACT)[3:])])
def test_labels_know_what_does_not_depend_on_the_compiler(name: str) -> None:
    side = _beside(EXACT[name])
    assert samebits.prove(side, lambda x: side(x), X, gradients=False).verdict == "proved"


@pytest.mark.slow
def test_equal_formulas_of_computed_constants_are_rounding() -> None:
    """One of them is contracted to a fused multiply-add, the other cannot be: an ulp apart, and honest."""

    def contracted(x: Any) -> Any:
        n = jax.random.normal(jax.random.key(0), (16,))
        return jnp.concatenate([x, n * 0.3 + n * n])

    def apart(x: Any) -> Any:
        n = jax.random.normal(jax.random.key(0), (16,))
        return jnp.concatenate([x, n * 0.3 + jax.lax.optimization_barrier(n * n)])

    assert samebits.check(contracted, apart, X, gradients=False).ok


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW) for name in COMPUTED])
def test_what_is_computed_in_terms_is_not_known(name: str) -> None:
    def side(x: Any) -> Any:
        return x * COMPUTED[name]()

    assert samebits.prove(side, lambda x: side(x), X, gradients=False).verdict == "rounding"
