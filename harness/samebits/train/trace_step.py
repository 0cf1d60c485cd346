"""Traces one training step of a configuration for its mesh, of any size, without devices and without compiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from samebits.errors import CouldNotRun, SamebitsError
from samebits.programs.placement import sharding
from samebits.programs.program_cache import CompileSetup
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.model import Config, Defect, Model, Training
from samebits.train.parts import chosen_parts
from samebits.user_errors import one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedStep:
    """A traced training step.

    Args:
        jaxpr: the closed jaxpr; its inputs are the flat state and batch, its outputs those of `names`.
        state, batch: the initial state and the first batch, in NumPy.
    """

    jaxpr: Any
    training: Training
    state: Any
    batch: Mapping[str, Any]
    inputs: tuple[str, ...]
    names: tuple[str, ...]


def trace_training_step(model: Model, config: Config, root: Path, defect: Defect | None = None) -> TracedStep:
    """Return the step of a configuration, traced for a mesh without devices.

    Raises:
        DeclarationError: the configuration cannot be built.
        CouldNotRun: the step cannot be traced.
    """
    model.check(config)
    mesh = MeshSpec.parse(config.mesh)
    built = _abstract(mesh, config.shard_mode)
    parts = chosen_parts(model, config, root)
    try:
        training = model.build(config, defect.plant(parts) if defect else parts)
        state, batch = training.initial(), training.batch(1)
        places = (
            shardings(training.state_spec, state, mesh, built),
            shardings(training.batch_spec, batch, mesh, built),
        )
        with CompileSetup(mesh=built).active(), jax.default_matmul_precision("highest"):
            program = jax.jit(training.step, keep_unused=True).trace(*(map(types, (state, batch), places)))
    except SamebitsError:
        raise
    except Exception as error:
        raise CouldNotRun(f"config '{config.name}' {one_line(error)}") from error
    return TracedStep(
        jaxpr=program.jaxpr,
        training=training,
        state=state,
        batch=batch,
        inputs=tuple(_names((state, batch), ("", "batch/"))),
        names=tuple(_names(program.out_info, ("", ""))),
    )


def _abstract(mesh: MeshSpec, mode: Mode) -> AbstractMesh:
    """Return a mesh without devices that states the kind of its devices, for parts that query it."""
    plain = mesh.abstract(mode)
    assert plain is not None, "a configuration has a mesh"
    kind = jax.make_mesh((1,), ("data",), devices=jax.local_devices()[:1]).abstract_mesh.abstract_device
    return AbstractMesh(plain.axis_sizes, plain.axis_names, axis_types=plain.axis_types, abstract_device=kind)


def shardings(specs: Any, arrays: Any, mesh: MeshSpec, built: Mesh | AbstractMesh, name: str = "state") -> Any:
    """Return the sharding of every array of a tree, from the tree of partition specs."""
    if isinstance(arrays, Mapping):
        return {key: shardings(specs[key], value, mesh, built, key) for key, value in arrays.items()}
    return sharding(specs, arrays.shape, name, mesh, built)


def replicated(built: Mesh | AbstractMesh) -> NamedSharding:
    """Return the sharding of a replicated array."""
    return NamedSharding(built, PartitionSpec())


def types(arrays: Any, places: Any) -> Any:
    """Return the `jax.ShapeDtypeStruct`s of a tree of arrays or types, with shardings."""
    return jax.tree.map(lambda x, at: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=at), arrays, places)


def _names(trees: Any, prefixes: tuple[str, ...]) -> list[str]:
    names = []
    for tree, prefix in zip(trees, prefixes, strict=True):
        for path, _ in jax.tree_util.tree_leaves_with_path(tree):
            names.append(prefix + "/".join(str(entry.key) for entry in path))
    return names
