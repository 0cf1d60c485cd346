"""The step of a configuration at real size, compiled for a target from shapes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samebits.compile.cache import CompileCache
from samebits.compile.compiler import compile_for
from samebits.compile.devices import target_mesh
from samebits.errors import CouldNotRun, SamebitsError, one_line
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Model
from samebits.schema.program_facts import Facts
from samebits.schema.target import Target
from samebits.train.parts import chosen_parts


def compile_step(model: Model, config: Config, root: Path, target: Target, cache: CompileCache | None) -> Facts:
    """What the target's compiler makes of one training step; the old state is given away, as trainers do.

    Args:
        model, config: what and how; no array of its sizes is made.
        root: the tree with the pairs.
        target: such as `v5p:2x2x1`; it must have the devices of the configuration's mesh.
        cache: of compiled programs; None compiles anew.

    Raises:
        RequestError: the target has another number of devices.
        CouldNotRun: the step cannot be traced or compiled.
    """
    import jax

    from samebits.train.trace_step import replicated, shardings, types

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
        # What a trainer keeps of a step: the gradients themselves are not among it.
        after, outputs = training.step(state, batch)
        return after, {name: outputs[name] for name in ("loss", "perplexity")}

    whole = replicated(built)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(places, {"loss": whole, "perplexity": whole}))
    return compile_for(jitted, state, batch, mesh=built, target=target, cache=cache, label=f"config '{config.name}'")
