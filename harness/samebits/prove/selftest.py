"""Planted differences that the proofs must detect, and equal programs that they must prove equal.

Runs before the first pair of every run, so that a proof that cannot fail is noticed in the run that would rely on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samebits.errors import CheckerBroken, NotCovered
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.labels import movement
from samebits.interpret.problem import Input, Question
from samebits.schema.domain import RequiredFact

_VALUES = (np.arange(1, 7, dtype=np.float32).reshape(2, 3) / 4).astype(np.float32)


def _norm(x: Any, epsilon: float = 1e-6) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + epsilon)


def _turned(x: Any) -> Any:
    return x[::-1].reshape(3, 2)


Case = tuple[str, Callable[[Any], Any], Callable[[Any], Any], bool]

MOVED: tuple[Case, ...] = (
    ("a reversal", _turned, lambda x: jnp.concatenate([x[1:], x[:1]]).reshape(3, 2), True),
    ("two elements exchanged", _turned, lambda x: x.reshape(3, 2), False),
    ("a constant for an element", _turned, lambda x: _turned(x.at[0, 0].set(0.0)), False),
)

COMPUTED: tuple[Case, ...] = (
    ("another order of adding", lambda x: x.sum(1), lambda x: x[:, 2] + x[:, 1] + x[:, 0], True),
    ("a softmax without its maximum", jax.nn.softmax, lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), True),
    ("an epsilon of 1e-5 for 1e-6", _norm, lambda x: _norm(x, 1e-5), False),
    ("a factor that is one ulp off", _norm, lambda x: _norm(x) * np.float32(1 + 2**-23), False),
    ("a root's sign", lambda x: x[0, 2] - 2 + 1e8, lambda x: jnp.sqrt((x[0, 2] - 2) ** 2) + 1e8, False),
    ("a result that was stored", lambda x: x.argmax(-1), lambda x: jnp.full(2, 2), False),
    ("an overflow", lambda x: x * 2, lambda x: x * 2.0**120 * 2.0**20 * 2.0**-120 * 2.0**-19, False),
)


def _adds_zeros(x: Any) -> Any:
    """Return a reversal as the gradient of a gather: a scatter-add into zeros."""
    return jnp.zeros_like(x).at[np.arange(len(x))[::-1]].add(x)


def _asked(reference: Callable[[Any], Any], variant: Callable[[Any], Any]) -> Question:
    shape = jax.ShapeDtypeStruct(_VALUES.shape, _VALUES.dtype)
    first, second = (jax.jit(side).trace(shape).jaxpr for side in (reference, variant))
    return Question(first, second, inputs=(Input("x", _VALUES),), outputs=("out",))


def check_proofs() -> None:
    """Have labels and fields decide the planted cases."""
    added = movement(_asked(lambda x: x[::-1], _adds_zeros))["out"]
    if not added.equal or RequiredFact("no_negative_zero", "x") not in added.promises:
        raise CheckerBroken("movement does not see that a zero is added, which changes -0.0; no proof can be trusted")
    for prove, cases in ((movement, MOVED), (identity, COMPUTED)):
        for what, reference, variant, same in cases:
            try:
                equal = prove(_asked(reference, variant))["out"].equal
            except NotCovered as error:
                raise CheckerBroken(f"{prove.__name__} does not understand {what}: {error}") from error
            if equal != same:
                says = "equal" if equal else "different"
                raise CheckerBroken(
                    f"{prove.__name__} reports programs as {says} that are not ({what}); no proof can be trusted"
                )
