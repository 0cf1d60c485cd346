"""Whether a training uses its mesh: a mesh over which nothing is split is an error, not a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from samebits.errors import DeclarationError, MeshNotUsed
from samebits.programs.captured_values import equations
from samebits.programs.placement import idle_axes
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Model, Training
from samebits.schema.validate import expected

_NAMED_AXES = ("axes", "axis_name")
"""Parameters of collectives and of `axis_index` that name axes of the mesh."""


def require_known_axes(model: Model, config: Config, training: Training) -> None:
    """Reject a spec with an axis that no mesh of the model has; on every mesh it would be left out.

    Args:
        model: whose configurations and presets say which axes there are.
        config: the configuration; its mesh may be another one than any of the model's.
        training: as built for it.

    Raises:
        DeclarationError: there is such an axis.
    """
    runs = (config, *model.all_configs().values(), *(run for preset in model.presets for run in preset.runs))
    known = tuple(dict.fromkeys(axis for run in runs for axis in MeshSpec.parse(run.mesh).names))
    for where, specs in (("state_spec", training.state_spec), ("batch_spec", training.batch_spec)):
        for name, spec in _leaves(specs):
            for axis in _axes(spec):
                if axis not in known:
                    raise DeclarationError(
                        f"config '{config.name}': {where} of '{name}' names axis '{axis}', which no mesh of the model "
                        f"has; {expected(axis, known)}"
                    )


def require_axes_used(config: Config, arguments: Any, jaxpr: Any) -> None:
    """Reject a mesh of which an axis splits neither the state nor a batch, nor anything within the step.

    Args:
        config: the configuration.
        arguments: the state and a batch, as a tree of types with shardings.
        jaxpr: of the step.

    Raises:
        MeshNotUsed: there is such an axis.
    """
    import jax

    mesh = MeshSpec.parse(config.mesh)
    idle = idle_axes(jax.tree.leaves(arguments), mesh)
    if not idle:
        return
    inside: set[str] = set()
    for equation in equations(jaxpr):
        if equation.primitive.name == "custom_partitioning":  # what it splits is known when it is compiled
            return
        for key, value in equation.params.items():
            inside.update(_split_over(value, key in _NAMED_AXES))
    idle = [axis for axis in idle if axis not in inside]
    if idle:
        raise MeshNotUsed(
            f"config '{config.name}': mesh '{mesh.id}': nothing is split over '{idle[0]}', neither the state nor a "
            f"batch nor anything within the step; give state_spec or batch_spec with '{idle[0]}', or leave the axis out"
        )


def _split_over(value: Any, names: bool) -> Iterator[str]:
    """The axes in a parameter of an equation: of specs and shardings, and names where the parameter is of names."""
    import jax

    if isinstance(value, jax.sharding.NamedSharding):
        value = value.spec
    if isinstance(value, jax.sharding.PartitionSpec):
        yield from _axes(value)
    elif isinstance(value, str):
        if names:
            yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _split_over(entry, names)


def _axes(spec: Any) -> Iterator[str]:
    for entry in spec:
        for axis in entry if isinstance(entry, tuple | list) else (entry,):
            if isinstance(axis, str):
                yield axis


def _leaves(specs: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every spec of a tree by its path; a spec may be a plain tuple, so that jax would take it apart."""
    if isinstance(specs, Mapping):
        for key, inner in specs.items():
            yield from _leaves(inner, f"{name}/{key}" if name else str(key))
    else:
        yield name, specs
