"""One step of AdamW whose moments are split over the axis `data`: each device updates its part of the parameters.

This is stage 1 of ZeRO: a device of `n` holds an n-th of the moments. Every device has the sum of the gradients, takes
its part of it and of the parameters, and the new parameters are gathered. Nothing but the layout changes: the step is
written on whole arrays, so that an update that looks at all of them, such as one that clips by the norm, is right too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

AXIS = "data"
"""The mesh axis over which the moments are split."""
FREE = PartitionSpec.UNCONSTRAINED

Update = Callable[[Any, Any, Any, Any, jax.Array], tuple[Any, Any, Any]]


def zero1(
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
    """The parameters and moments after one more step, each leaf split over `data` as `moment_spec` says.

    Args:
        gradient, parameter, mu, nu: arrays, or pytrees of arrays of one structure, floating point; each of the shape of
            its parameter, in a dtype of its own. Moments that lie as `moment_spec` says stay where they are.
        count: an integer scalar, how many steps were done before this one.
        learning_rate, b1, b2, epsilon, weight_decay: of AdamW; the decay is not part of the gradient.
        update: `update(gradient, parameter, mu, nu, count) -> (parameter, mu, nu)` of whole pytrees, in place of AdamW.
        layout: how the parameters are split, a pytree of `PartitionSpec` or of tuples, for meshes of auto axes, where
            their types do not say it. None there means that no dimension is known to be split.

    Returns:
        `parameter`, shapes, dtypes and shardings as they came; `mu` and `nu`, shapes and dtypes as they came, split
        as `moment_spec` says.

    Raises:
        ValueError: a leaf has another shape than its parameter, or the layout has another structure than they.

    Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2019 (arXiv
        1910.02054), section 5.1; Xu et al., 2020 (arXiv 2004.13336), section 3, for the form by layouts.
    """
    for name, tree in (("gradient", gradient), ("mu", mu), ("nu", nu)):
        shapes, expected = jax.tree.map(jnp.shape, tree), jax.tree.map(jnp.shape, parameter)
        if shapes != expected:
            raise ValueError(f"{name} has shapes {shapes}; expected {expected}, those of the parameters")
    leaves: list[jax.Array]
    structure: Any
    leaves, structure = jax.tree.flatten(parameter)
    layouts = _layouts(leaves, None if layout is None else structure.flatten_up_to(layout))
    whole, parts = zip(*layouts, strict=True)

    def split(tree: Any) -> list[jax.Array]:
        return [_laid(array, part) for array, part in zip(jax.tree.leaves(tree), parts, strict=True)]

    mine = [split(tree) for tree in (gradient, parameter, mu, nu)]
    if update is None:
        rates = learning_rate, b1, b2, epsilon, weight_decay
        new: Any = zip(*(_adamw(g, p, m, v, count, *rates) for g, p, m, v in zip(*mine, strict=True)), strict=True)
    else:
        g, p, m, v = (structure.unflatten(part) for part in mine)
        new = map(jax.tree.leaves, update(g, p, m, v, count))
    updated, mu, nu = new
    gathered = [_laid(array, spec) for array, spec in zip(updated, whole, strict=True)]
    found = {"parameter": gathered, "mu": split(mu), "nu": split(nu)}
    return {name: structure.unflatten(arrays) for name, arrays in found.items()}


def moment_spec(shape: tuple[int, ...], spec: Iterable[Any], size: int) -> PartitionSpec:
    """Where the moments of a parameter lie: split over `data` on the first dimension that is whole and divides.

    Equivalent to putting `data` in place of the first None of the spec whose dimension is a multiple of `size`.

    Args:
        shape: of the parameter.
        spec: how the parameter is split, a `PartitionSpec` or a tuple; dimensions left out are whole.
        size: of the mesh axis `data`.

    Returns:
        The moments' spec; the parameter's own where it has `data` already, or no dimension will do, or size is 1.
    """
    entries = [*spec, *(None,) * (len(shape) - len(tuple(spec)))]
    used = {axis for entry in entries for axis in (entry if isinstance(entry, tuple) else (entry,))}
    if size > 1 and AXIS not in used:
        for dimension, length in enumerate(shape):
            if entries[dimension] in (None, ()) and length and length % size == 0:
                entries[dimension] = AXIS
                break
    return PartitionSpec(*entries)


def _adamw(
    gradient: jax.Array,
    parameter: jax.Array,
    mu: jax.Array,
    nu: jax.Array,
    count: jax.Array,
    learning_rate: float,
    b1: float,
    b2: float,
    epsilon: float,
    weight_decay: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    wide = jnp.promote_types(parameter.dtype, jnp.float32)
    g, p, m, v = (array.astype(wide) for array in (gradient, parameter, mu, nu))
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g**2
    done = count.astype(wide) + 1
    # Corrected before they are rounded: a moment kept in bfloat16 is rounded for the next step only.
    direction = m / (1 - b1**done) / (jnp.sqrt(v / (1 - b2**done)) + epsilon)
    p = p - learning_rate * (direction + weight_decay * p)
    return p.astype(parameter.dtype), m.astype(mu.dtype), v.astype(nu.dtype)


# How arrays lie on the mesh.


def _explicit() -> bool:
    return AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


def _layouts(leaves: list[jax.Array], layout: list[Any] | None) -> list[tuple[PartitionSpec, PartitionSpec]]:
    """How each parameter lies whole, and split over `data`: by its type in explicit mode, else by the layout."""
    mesh = jax.sharding.get_abstract_mesh()
    size = mesh.shape.get(AXIS, 1)
    if _explicit():
        specs = [jax.typeof(array).sharding.spec for array in leaves]
    elif layout is not None:
        specs = [PartitionSpec(*(_known(entry, mesh.axis_names) for entry in spec)) for spec in layout]
    else:
        parts = [moment_spec(array.shape, (), size) for array in leaves]
        # Of the other dimensions nothing is known: they stay as they are.
        return [
            (
                PartitionSpec(*(None if entry else FREE for entry in part)),
                PartitionSpec(*(entry or FREE for entry in part)),
            )
            for part in parts
        ]
    return [(spec, moment_spec(array.shape, spec, size)) for array, spec in zip(leaves, specs, strict=True)]


def _known(entry: Any, there: tuple[str, ...]) -> Any:
    """An entry of a spec without the axes that the mesh lacks."""
    if isinstance(entry, tuple):
        return tuple(axis for axis in entry if axis in there) or None
    return entry if entry in there else None


def _laid(array: jax.Array, spec: PartitionSpec) -> jax.Array:
    """An array lying as the spec says."""
    if jax.sharding.get_abstract_mesh().empty:
        return array
    return jax.reshard(array, spec) if _explicit() else jax.lax.with_sharding_constraint(array, spec)
