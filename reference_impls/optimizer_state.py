"""One step of AdamW with moments sharded like the parameters: every device of the axis `data` holds all of them.

Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2017 (arXiv 1711.05101), algorithm 2, as optax
writes it (`optax.adamw`): the moments are corrected before they are rounded to their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType

Update = Callable[[Any, Any, Any, Any, jax.Array], tuple[Any, Any, Any]]


def replicated(
    gradient: Any,
    parameter: Any,
    mu: Any,
    nu: Any,
    count: jax.Array,
    *,
    learning_rate: float = 1e-3,
    b1: float = 0.9,
    b2: float = 0.95,
    epsilon: float = 1e-8,
    weight_decay: float = 0.1,
    update: Update | None = None,
    layout: Any = None,
) -> dict[str, Any]:
    """The parameters and moments after one more step.

    Equivalent to `optax.adamw(learning_rate, b1, b2, epsilon, weight_decay=weight_decay)` and `optax.apply_updates`, in
    at least float32, every result rounded once:

        mu = b1 * mu + (1 - b1) * gradient
        nu = b2 * nu + (1 - b2) * gradient**2
        step = mu / (1 - b1**(count + 1)) / (sqrt(nu / (1 - b2**(count + 1))) + epsilon)
        parameter = parameter - learning_rate * (step + weight_decay * parameter)

    Args:
        gradient, parameter, mu, nu: arrays, or pytrees of arrays of one structure, floating point; each of the shape of
            its parameter, in a dtype of its own.
        count: an integer scalar, how many steps were done before this one.
        learning_rate, b1, b2, epsilon, weight_decay: of AdamW; the decay is not part of the gradient.
        update: `update(gradient, parameter, mu, nu, count) -> (parameter, mu, nu)` of whole pytrees, in place of AdamW.
        layout: how the parameters are split, where their types do not say it; not used here, one signature serves all
            forms.

    Returns:
        `parameter`, `mu` and `nu`, shapes and dtypes as they came, split as the parameters are.

    Raises:
        ValueError: a leaf has another shape than its parameter.
    """
    for name, tree in (("gradient", gradient), ("mu", mu), ("nu", nu)):
        shapes, expected = jax.tree.map(jnp.shape, tree), jax.tree.map(jnp.shape, parameter)
        if shapes != expected:
            raise ValueError(f"{name} has shapes {shapes}; expected {expected}, those of the parameters")
    if update is not None:
        found = update(gradient, parameter, mu, nu, count)
        return dict(zip(("parameter", "mu", "nu"), found, strict=True))

    def step(
        gradient: jax.Array, parameter: jax.Array, mu: jax.Array, nu: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        wide = jnp.promote_types(parameter.dtype, jnp.float32)
        g, p, m, v = (_whole(array, parameter).astype(wide) for array in (gradient, parameter, mu, nu))
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        done = count.astype(wide) + 1
        direction = m / (1 - b1**done) / (jnp.sqrt(v / (1 - b2**done)) + epsilon)
        p = p - learning_rate * (direction + weight_decay * p)
        return p.astype(parameter.dtype), m.astype(mu.dtype), v.astype(nu.dtype)

    leaves, tree = jax.tree.flatten(parameter)
    others = (jax.tree.leaves(other) for other in (gradient, mu, nu))
    steps = [step(g, p, m, v) for p, g, m, v in zip(leaves, *others, strict=True)]
    parts = zip(*steps, strict=True)
    return {name: jax.tree.unflatten(tree, part) for name, part in zip(("parameter", "mu", "nu"), parts, strict=True)}


def _whole(array: jax.Array, parameter: jax.Array) -> jax.Array:
    """An array lying as its parameter does, where that is part of the type."""
    explicit = AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types
    return jax.reshard(array, jax.typeof(parameter).sharding) if explicit else array
