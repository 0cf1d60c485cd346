"""Compiles the training step of a configuration at production shape for a target, from shapes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samebits.compile.cache import CompileCache
from samebits.compile.compiler import compile_for
from samebits.compile.devices import target_mesh
from samebits.errors import CouldNotRun, SamebitsError
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Model
from samebits.schema.program_facts import Facts
from samebits.schema.target import Target
from samebits.train.parts import chosen_parts
from samebits.user_errors import one_line


def compile_step(model: Model, config: Config, root: Path, target: Target, cache: CompileCache | None) -> Facts:
    """Compile one training step for a target, with the old state donated as trainers do.

    Returns:
        The figures of the compiled step, per device.

    Raises:
        RequestError: the target has another number of devices.
        CouldNotRun: the step cannot be traced or compiled.
    """
    import jax

    from samebits.train.trainer import replicated, shardings, types

    model.check(config)
    mesh = MeshSpec.parse(config.mesh)
    built = target_mesh(target, mesh, config.shard_mode)
    training = model.build(config, chosen_parts(model, config, root))

    try:
        places = shardings(training.state_spec, training.state_types, mesh, built)
        batch_places = shardings(training.batch_spec, training.batch_types, mesh, built)
    except SamebitsError:
        raise
    except Exception as error:
        raise CouldNotRun(f"config '{config.name}' {one_line(error)}") from error
    state, batch = types(training.state_types, places), types(training.batch_types, batch_places)

    def step(state: Any, batch: Any) -> Any:
        # A trainer returns the state and the losses, not the gradients themselves.
        after, outputs = training.step(state, batch)
        return after, {name: outputs[name] for name in ("loss", "perplexity")}

    whole = replicated(built)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(places, {"loss": whole, "perplexity": whole}))
    return compile_for(jitted, state, batch, mesh=built, target=target, cache=cache, label=f"config '{config.name}'")
