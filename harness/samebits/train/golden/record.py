"""The record of a golden: an accepted training run, what its bits depend on, and the evidence for its bounds.

A golden is self-contained. It holds the configuration's values, the environment, every loss exactly, a digest of every
array, how far rounding alone moved the run, and who accepted it, when and why.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from samebits.host.environment import Environment
from samebits.schema.model import Config
from samebits.train.record import LeafRecord, RunRecord, StepRecord

SCHEMA: Literal["samebits-golden/1"] = "samebits-golden/1"

WINDOW = 20
"""The smallest number of steps: a fault in the optimizer's state takes several steps to reach the loss."""

LEAF_STEPS = (1, 10, 20)
"""Steps at which every array has its own record; at the others there is one digest over all arrays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenStep:
    """One step.

    Args:
        step: counted from 1.
        loss, loss_hex, perplexity, perplexity_hex: in decimal, and exactly.
        grad_norm, param_norm: exactly, as `float.hex`.
        all_leaves: one digest over all arrays.
        leaves: the record of every array, at the steps of `LEAF_STEPS` and the last one.
    """

    step: int
    loss: float
    loss_hex: str
    perplexity: float
    perplexity_hex: str
    grad_norm: str
    param_norm: str
    all_leaves: str
    leaves: dict[str, LeafRecord] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfirmedEnvironment:
    """An environment that has reproduced a golden.

    Args:
        environment: its digest.
        about: platform, processor and versions in one line.
        date: of the first time.
        max_ulp: the largest distance of the loss from the recorded one.
    """

    environment: str
    about: str
    date: str
    max_ulp: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenEvidence:
    """How far a run may differ from a golden in another environment, and the measurements behind these bounds.

    Args:
        runs: the number of runs behind the spread.
        rewrites: for each rewrite, the largest distance of the loss, in ulps.
        seen: the environments that have confirmed the golden.
        loss_spread, perplexity_spread: at each step, in float32 ulps; running maxima.
        loss_bound, perplexity_bound: the accepted distance at each step in another environment.
        leaf_spread, leaf_bound: of the norm of each array, relative, over the steps at which arrays are recorded.
        basis: how the bounds follow from the spreads.
    """

    runs: int
    rewrites: dict[str, int]
    seen: tuple[ConfirmedEnvironment, ...]
    loss_spread: tuple[int, ...]
    loss_bound: tuple[int, ...]
    perplexity_spread: tuple[int, ...]
    perplexity_bound: tuple[int, ...]
    leaf_spread: dict[str, float]
    leaf_bound: dict[str, float]
    basis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenAcceptance:
    """Who accepted a change, when and why.

    Args:
        date: the day.
        commit: of the tree that ran.
        author, reason: as given.
        last_loss: the loss at the last step, as `float.hex`.
        first_changed_step, max_relative_change: compared with the previous golden; None in the first acceptance.
    """

    date: str
    commit: str
    author: str
    reason: str
    last_loss: str
    first_changed_step: int | None = None
    max_relative_change: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Golden:
    """The content of one golden file.

    Args:
        schema: of the file; published keys never change their meaning within a schema.
        model, matrix, config: names; `matrix` is empty for a configuration outside matrices.
        config_digest, values: of the configuration.
        environment, environment_digest: where the run was made.
        window: how many steps.
        steps: in order.
        evidence: for other environments.
        accepted: the last acceptance.
        history: the earlier acceptances, oldest first.
        content: a digest of everything else, which detects edits by hand.
    """

    schema: Literal["samebits-golden/1"] = SCHEMA
    model: str
    matrix: str
    config: str
    config_digest: str
    values: dict[str, Any]
    environment: Environment
    environment_digest: str
    window: int
    steps: tuple[GoldenStep, ...]
    evidence: GoldenEvidence
    accepted: GoldenAcceptance
    history: tuple[GoldenAcceptance, ...] = ()
    content: str = ""

    @property
    def name(self) -> str:
        """The name that `--config` takes."""
        return full_name(self.matrix, self.config)


def full_name(matrix: str, config: str) -> str:
    """Return `MATRIX/RUN`, or the name of a configuration outside matrices."""
    return f"{matrix}/{config}" if matrix else config


def config_values(config: Config) -> dict[str, Any]:
    """Return all values of a configuration, as JSON values."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(config), sort_keys=True, default=str))
    return values


def recorded_steps(window: int) -> set[int]:
    """Return the steps at which a golden records every array."""
    return {*LEAF_STEPS, window}


def golden_steps(run: RunRecord) -> tuple[GoldenStep, ...]:
    """Return the steps of a run as a golden stores them."""
    recorded = recorded_steps(len(run.steps))
    return tuple(_golden_step(step, step.step in recorded) for step in run.steps)


def _golden_step(step: StepRecord, whole: bool) -> GoldenStep:
    text = "\n".join(f"{name} {leaf.digest}" for name, leaf in sorted(step.digests.items()))
    return GoldenStep(
        step=step.step,
        loss=step.loss,
        loss_hex=step.loss_hex,
        perplexity=step.perplexity,
        perplexity_hex=step.perplexity_hex,
        grad_norm=step.grad_norm.hex(),
        param_norm=step.param_norm.hex(),
        all_leaves=hashlib.sha256(text.encode()).hexdigest()[:16],
        leaves=dict(step.digests) if whole else {},
    )


def first_not_finite(run: RunRecord) -> str | None:
    """Return the first number of a run that is NaN or infinite, as `loss at step 3`."""
    for step in run.steps:
        for name in ("loss", "perplexity", "grad_norm", "param_norm"):
            if not math.isfinite(getattr(step, name)):
                return f"{name} at step {step.step}"
        for leaf, record in step.digests.items():
            if not (math.isfinite(record.l1) and math.isfinite(record.l2)):
                return f"{leaf} at step {step.step}"
    return None
