"""The shardings of arrays on the mesh, in auto and in explicit mode."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

BATCH = ("data", "fsdp", "expert")
"""The axes that split the rows of a batch."""

TOKENS = (BATCH, "context")
HIDDEN = (BATCH, "context", None)

_LAYER = (None, "stage", None)  # of [repeats, stages, layers_per_stage, ...]

PARAMETERS: dict[str, tuple[Any, ...]] = {
    "embedding": ("tensor", "fsdp"),
    "final_norm": (None,),
    "head": ("fsdp", "tensor"),
    "layers/attention_norm": (*_LAYER, None),
    "layers/query": (*_LAYER, "fsdp", "tensor", None),
    "layers/key": (*_LAYER, "fsdp", "tensor", None),
    "layers/value": (*_LAYER, "fsdp", "tensor", None),
    "layers/out": (*_LAYER, "tensor", None, "fsdp"),
    "layers/mlp_norm": (*_LAYER, None),
    "layers/router": (*_LAYER, None, None),
    "layers/router_bias": (*_LAYER, None),
    "layers/w_gate": (*_LAYER, "expert", "fsdp", "tensor"),
    "layers/w_up": (*_LAYER, "expert", "fsdp", "tensor"),
    "layers/w_down": (*_LAYER, "expert", "tensor", "fsdp"),
    "layers/mlp_gate": (*_LAYER, "fsdp", "tensor"),
    "layers/mlp_up": (*_LAYER, "fsdp", "tensor"),
    "layers/mlp_down": (*_LAYER, "tensor", "fsdp"),
}
"""The mesh axes of every parameter as it is kept; `fsdp` is gathered where the parameter is used."""


def on_mesh(spec: tuple[Any, ...]) -> PartitionSpec:
    """A spec without the axes that the present mesh lacks."""
    names = jax.sharding.get_abstract_mesh().axis_names
    entries = []
    for entry in spec:
        axes = tuple(axis for axis in (entry if isinstance(entry, tuple) else (entry,)) if axis in names)
        entries.append(axes if len(axes) > 1 else axes[0] if axes else None)
    return PartitionSpec(*entries)


def lay(x: jax.Array, *spec: Any) -> jax.Array:
    """Put an array onto the mesh so: `reshard` where shardings are part of types, else a constraint."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return x
    if mesh.explicit_axes:
        return jax.sharding.reshard(x, on_mesh(spec))
    return jax.lax.with_sharding_constraint(x, on_mesh(spec))


def product(equation: str, x: jax.Array, kernel: jax.Array, *spec: Any) -> jax.Array:
    """An einsum whose result lies on the mesh so."""
    mesh = jax.sharding.get_abstract_mesh()
    if not mesh.empty and mesh.explicit_axes:
        return jnp.einsum(equation, x, kernel, out_sharding=on_mesh(spec))
    return lay(jnp.einsum(equation, x, kernel), *spec)


def gathered(name: str, parameter: jax.Array, dtype: Any) -> jax.Array:
    """A parameter as it is used: in the dtype of the activations, and not split over `fsdp`.

    Args:
        name: in `PARAMETERS`; of a parameter of layers, one layer's part.
        parameter: the array.
        dtype: of the activations.
    """
    spec = PARAMETERS[name][len(_LAYER) :] if name.startswith("layers/") else PARAMETERS[name]
    return lay(parameter.astype(dtype), *(None if entry == "fsdp" else entry for entry in spec))
