"""The request of `samebits prove model`: which training steps to prove. No jax."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.errors import RequestError
from samebits.schema.meshes import MODES
from samebits.schema.model import Config, Defect, Model
from samebits.train.request import choice_of, named, require_axes


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveRequest:
    """The options of `samebits prove model` that select the steps."""

    matrix: str | None = None
    config: str | None = None
    defect: str | None = None
    meshes: tuple[str, ...] = ()
    shard_modes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


def steps(model: Model, request: ProveRequest) -> list[tuple[Config, Defect | None]]:
    """Return the selected configurations, each with the defect that is planted into it.

    Raises:
        RequestError: a name is unknown, or options contradict each other.
        DeclarationError: a configuration cannot be built.
    """
    options = [f"--{name}" for name in ("matrix", "config", "defect") if getattr(request, name) is not None]
    if len(options) > 1:
        raise RequestError(f"{' and '.join(options)}: give one of them")
    changes = [
        option
        for option, values in (
            ("--mesh", request.meshes),
            ("--shard-mode", request.shard_modes),
            ("--choice", request.choices),
        )
        if values
    ]
    if changes and options in (["--matrix"], ["--defect"]):
        raise RequestError(f"{changes[0]} changes one configuration; it does not go with {options[0]}")
    steps_to_prove: list[tuple[Config, Defect | None]]
    if request.matrix is not None:
        matrices = {matrix.name: matrix for matrix in model.matrices}
        steps_to_prove = [(run, None) for run in named("matrix", request.matrix, matrices).runs]
    elif request.defect is not None:
        defect = named("defect", request.defect, {defect.name: defect for defect in model.defects()})
        steps_to_prove = [(defect.run, defect)]
    else:
        steps_to_prove = [(config, None) for config in _configs(model, request)]
    for config, _ in steps_to_prove:
        model.check(config)
    return steps_to_prove


def replay_words(model: Model, request: ProveRequest, config: Config, defect: Defect | None) -> list[str]:
    """Return the options that select one step again.

    Args:
        model: of the request.
        request: as given.
        config, defect: one of its `steps`.
    """
    if defect is not None:
        return ["--defect", defect.name]
    if request.matrix is not None:
        return ["--config", f"{request.matrix}/{config.name}"]
    words = ["--config", request.config or model.configs[0].name, "--mesh", config.mesh]
    words += ["--shard-mode", config.shard_mode]
    return [*words, *(word for text in request.choices for word in ("--choice", text))]


def _configs(model: Model, request: ProveRequest) -> list[Config]:
    """Return one configuration on each mesh and in each mode; the model's first one by default."""
    known = model.all_configs()
    config = model.configs[0] if request.config is None else named("config", request.config, known)
    config = config.having(choice=dict(choice_of(text) for text in request.choices))
    configs = []
    for mesh in request.meshes:
        require_axes(model, mesh)
    for mesh in request.meshes or (config.mesh,):
        for mode in request.shard_modes or (config.shard_mode,):
            if mode not in MODES:
                raise RequestError(f"--shard-mode {mode}: expected {' or '.join(MODES)}")
            configs.append(config.having(mesh=mesh, shard_mode=mode))
    return configs
