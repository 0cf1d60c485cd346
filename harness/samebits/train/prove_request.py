"""The request of `samebits prove model`, which training steps to prove, and the result for one output. No jax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from samebits.errors import RequestError
from samebits.schema.meshes import MODES
from samebits.schema.model import Config, Defect, Model
from samebits.train.request import choice_of, defect_of, named, require_axes


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
    elif (defect := defect_of(model, request.defect)) is not None:
        steps_to_prove = [(defect.run, defect)]
    else:
        steps_to_prove = [(config, None) for config in _configs(model, request)]
    for config, _ in steps_to_prove:
        model.check(config)
    return steps_to_prove


def replay_words(model: Model, request: ProveRequest, config: Config, defect: Defect | None) -> list[str]:
    """Return the options that select one step again."""
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


Verdict = Literal["rounding", "different", "error"]
"""As in `Finding`: the same formulas, refuted, or neither."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLeaf:
    """The result for one output of a step; published as JSON, so keys keep their meaning.

    Args:
        config, mesh, shard_mode, choice: of the configuration.
        defect: the planted defect, if any.
        sizes: the sizes at which the step was interpreted, the smallest of the model.
        leaf: `loss`, `perplexity`, `gradients/NAME`, `parameters/NAME`, ...
        verdict: `rounding` (the same formulas), `different` (refuted), or `error` (neither).
        elements: of the leaf.
        log2_error: the base-two logarithm of the probability that different formulas are taken for equal.
        points, degree, unknown: random points, the degree of the polynomials, calls of uninterpreted functions.
        gap: the largest difference in float64, relative to the largest value, at the weights and inputs of the seed.
        witness: an element that differs, with both values in float64.
        reason: why nothing was proved.
        seed: of the weights and inputs; the proof is for the routing that they take.
        seconds: of the whole step.
        replay: the command that proves this step again; empty in documents of older versions.
    """

    config: str
    mesh: str
    shard_mode: str
    choice: Mapping[str, str]
    defect: str | None
    sizes: Mapping[str, int]
    leaf: str
    verdict: Verdict
    elements: int = 0
    log2_error: float | None = None
    points: int = 0
    degree: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    gap: float | None = None
    witness: str | None = None
    reason: str | None = None
    seed: int = 0
    seconds: float = 0.0
    replay: str = ""


def reference_step(small: Config) -> Config:
    """Return what a configuration at its smallest sizes is compared with: all references, on one device."""
    return replace(small.on_one_device("reference"), choice={})


def step_head(config: Config, small: Config, defect: Defect | None) -> StepLeaf:
    """Return what all leaves of a step have in common, as one undecided leaf."""
    return StepLeaf(
        config=config.name, mesh=config.mesh, shard_mode=config.shard_mode, choice=dict(config.choice),
        defect=defect.name if defect else None, sizes=dict(small.sizes), leaf="*", verdict="error", seed=small.seed,
    )  # fmt: skip


def in_order(names: tuple[str, ...]) -> list[str]:
    """Return the leaves in the order of computation: losses, gradients, moments, parameters."""
    order = ("loss", "perplexity", "gradients", "mu", "nu", "parameters")

    def place(name: str) -> int:
        first = name.split("/")[0]
        return order.index(first) if first in order else len(order)

    return sorted(names, key=place)
