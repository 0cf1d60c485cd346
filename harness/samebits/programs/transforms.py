"""Both sides of a pair under a transformation of jax, for rules of differentiation and batching of their own.

A component that is correct by itself can be wrong inside a trainer: a `custom_vjp` whose backward pass is not
differentiable, a batching rule that mixes rows, a residual that rematerialisation computes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SECOND = "second_derivative_of_squares"
"""The transform under which second derivatives are tried that no declaration asks for."""

Call = Callable[[dict[str, Any]], Any]
"""A side as a function of its arrays by name."""


def transformed(call: Call, transform: str | None, names: Sequence[str]) -> Call:
    """A side under a transform.

    Args:
        call: the side.
        transform: one of `samebits.schema.case.TRANSFORMS`, `SECOND`, or None for the side itself.
        names: the arguments with a gradient, for the second derivative.
    """
    if transform == "vmap":
        return jax.vmap(call)
    if transform == "remat":
        return jax.checkpoint(call)
    if transform in ("second_derivative", SECOND):
        return _gradient(call, names, squares=transform == SECOND)
    return call


def _gradient(call: Call, names: Sequence[str], squares: bool) -> Call:
    """The gradient of a weighted sum of all float outputs; its own gradient is the second derivative.

    With their squares in it, the cotangents of the outputs depend on the arguments too.
    """

    def gradient(arrays: dict[str, Any]) -> dict[str, Any]:
        chosen = {name: arrays[name] for name in names}
        rest = {name: array for name, array in arrays.items() if name not in chosen}

        def total(chosen: dict[str, Any]) -> Any:
            leaves = jax.tree.leaves(call({**chosen, **rest}))
            floats = (leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact))
            return sum(jnp.sum(leaf * (_weights(leaf) + leaf / 2 if squares else _weights(leaf))) for leaf in floats)

        gradients: dict[str, Any] = jax.grad(total)(chosen)
        return gradients

    return gradient


def _weights(leaf: Any) -> Any:
    """Eighths between -3/4 and 3/4, exact in every float format: of a plain sum many gradients vanish."""
    weights = (np.arange(leaf.size) * 7 % 13 - 6) / 8
    return weights.reshape(leaf.shape).astype(leaf.dtype)
