"""Which steps `samebits prove model` was asked to prove. No jax."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.errors import RequestError
from samebits.schema.meshes import MODES
from samebits.schema.model import Config, Defect, Model
from samebits.train.request import choice_of, named


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveRequest:
    """The options of `samebits prove model` that say what is proved."""

    matrix: str | None = None
    config: str | None = None
    defect: str | None = None
    meshes: tuple[str, ...] = ()
    shard_modes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


def steps(model: Model, asked: ProveRequest) -> list[tuple[Config, Defect | None]]:
    """The configurations, each with the defect that is planted into it.

    Raises:
        RequestError: an unknown name, or options that do not fit together.
        DeclarationError: a configuration cannot be built.
    """
    given = [f"--{name}" for name in ("matrix", "config", "defect") if getattr(asked, name) is not None]
    if len(given) > 1:
        raise RequestError(f"{' and '.join(given)}: give one of them")
    changes = [
        option
        for option, said in (("--mesh", asked.meshes), ("--shard-mode", asked.shard_modes), ("--choice", asked.choices))
        if said
    ]
    if changes and given in (["--matrix"], ["--defect"]):
        raise RequestError(f"{changes[0]} changes one configuration; it does not go with {given[0]}")
    found: list[tuple[Config, Defect | None]]
    if asked.matrix is not None:
        matrices = {matrix.name: matrix for matrix in model.matrices}
        found = [(run, None) for run in named("matrix", asked.matrix, matrices).runs]
    elif asked.defect is not None:
        defect = named("defect", asked.defect, {defect.name: defect for defect in model.defects()})
        found = [(defect.run, defect)]
    else:
        found = [(config, None) for config in _configs(model, asked)]
    for config, _ in found:
        model.check(config)
    return found


def _configs(model: Model, asked: ProveRequest) -> list[Config]:
    """One configuration on each mesh and in each mode; the model's first without a name."""
    known = model.all_configs()
    config = model.configs[0] if asked.config is None else named("config", asked.config, known)
    config = config.having(choice=dict(choice_of(text) for text in asked.choices))
    found = []
    for mesh in asked.meshes or (config.mesh,):
        for mode in asked.shard_modes or (config.shard_mode,):
            if mode not in MODES:
                raise RequestError(f"--shard-mode {mode}: expected {' or '.join(MODES)}")
            found.append(config.having(mesh=mesh, shard_mode=mode))
    return found
