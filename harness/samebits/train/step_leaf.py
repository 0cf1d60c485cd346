"""The result of a proof for one output of a training step, and what the step is compared with. No jax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from samebits.schema.model import Config, Defect

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
    """Return what all leaves of a step have in common, as one undecided leaf.

    Args:
        config: as asked for.
        small: the same at its smallest sizes.
        defect: planted, if any.
    """
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
