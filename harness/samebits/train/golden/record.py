"""A golden: a training run as it once was, with all that its bits depended on and the evidence for what else may be.

A golden describes itself. It holds the configuration's values, the environment, every loss exactly, a digest of every
array, how far rounding alone moved the run, and who accepted it when and why.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from samebits.host.environment import Environment
from samebits.host.libtpu import package_version
from samebits.schema.model import Config
from samebits.train.record import LeafRecord, RunRecord, StepRecord

SCHEMA: Literal["samebits-golden/1"] = "samebits-golden/1"

WINDOW = 20
"""The least number of steps: a fault in an optimizer's state takes several to reach the loss."""

LEAF_STEPS = (1, 10, 20)
"""Steps of which every array is recorded by itself; of the others there is one digest over all arrays."""

_COUNT_FLAG = re.compile(r"--xla_force_host_platform_device_count=\S+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a run's bits depend on beside its configuration.

    Args:
        versions: of samebits, Python, jax, jaxlib, libtpu, NumPy, flax and optax; None where a package is missing.
        platform, device_kind, devices: of the backend.
        machine, instruction_sets: of the host.
        flags, settings: as in `environment.Environment`.
        cpus: of the host; recorded, and not part of the digest.
    """

    versions: dict[str, str | None]
    platform: str
    device_kind: str
    devices: int
    machine: str
    instruction_sets: tuple[str, ...]
    flags: dict[str, str]
    settings: dict[str, str]
    cpus: int

    @classmethod
    def of(cls, environment: Environment) -> Surroundings:
        """Those of an environment."""
        values = {name: getattr(environment, name) for name in cls.__dataclass_fields__}
        packages = {name: package_version(name) for name in ("flax", "optax")}
        return cls(**{**values, "versions": {**environment.versions, **packages}})

    def decisive(self) -> dict[str, Any]:
        """What the digest is made of: all but what moves no bits.

        Left out are the number of processors, samebits' own version (what it changes must show), libtpu where no TPU
        runs, and the flag for the number of devices, which is recorded as such.
        """
        values = asdict(self)
        del values["cpus"], values["versions"]["samebits"]
        if self.platform != "tpu":
            del values["versions"]["libtpu"]
            values["flags"].pop("LIBTPU_INIT_ARGS", None)
        values["flags"] = {name: " ".join(_COUNT_FLAG.sub("", text).split()) for name, text in values["flags"].items()}
        return values

    def digest(self) -> str:
        """A short digest of what the bits depend on."""
        return hashlib.sha256(canonical(self.decisive()).encode()).hexdigest()[:16]

    def unlike(self, other: Surroundings) -> list[str]:
        """What differs between two environments, as `jax 0.10.2 -> 0.11.0`."""
        mine, theirs = _flat(self.decisive()), _flat(other.decisive())
        return [
            f"{name} {_short(mine.get(name))} -> {_short(theirs.get(name))}"
            for name in sorted({*mine, *theirs})
            if mine.get(name) != theirs.get(name)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenStep:
    """One step.

    Args:
        step: counted from 1.
        loss, loss_hex, perplexity, perplexity_hex: in decimal, and exactly.
        grad_norm, param_norm: exactly, as `float.hex`.
        all_leaves: one digest over all arrays.
        leaves: every array by itself, at the steps of `LEAF_STEPS` and the last.
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
    """An environment in which this run was seen.

    Args:
        environment: its digest.
        about: platform, processor and versions in one line.
        date: of the first time.
        max_ulp: how far the loss was from the recorded one at most.
    """

    environment: str
    about: str
    date: str
    max_ulp: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenEvidence:
    """How far the run may move and still be the same run.

    Args:
        runs: how many runs the spread comes from.
        rewrites: what was tried, each with the largest distance of the loss that it gave, in ulps.
        seen: the environments that confirmed this golden.
        loss_spread, perplexity_spread: at each step, in float32 ulps; running maxima.
        loss_bound, perplexity_bound: what is accepted at each step in another environment.
        leaf_spread, leaf_bound: of the norm of each array, relative, over the steps of which arrays are recorded.
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
    """Who accepted which change, when and why.

    Args:
        date: the day.
        commit: of the tree that ran.
        author, reason: as given.
        last_loss: the loss at the last step, as `float.hex`.
        first_changed_step, max_relative_change: against the golden before; None in the first acceptance.
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
    """What one file holds.

    Args:
        schema: a published key never changes its meaning within it.
        model, matrix, config: names; `matrix` is empty for a configuration of its own.
        config_digest, values: of the configuration.
        environment, environment_digest: where the run was made.
        window: how many steps.
        steps: in order.
        evidence: for other environments.
        accepted: the last acceptance.
        history: those before, oldest first.
        content: a digest of all the rest, which shows edits by hand.
    """

    schema: Literal["samebits-golden/1"] = SCHEMA
    model: str
    matrix: str
    config: str
    config_digest: str
    values: dict[str, Any]
    environment: Surroundings
    environment_digest: str
    window: int
    steps: tuple[GoldenStep, ...]
    evidence: GoldenEvidence
    accepted: GoldenAcceptance
    history: tuple[GoldenAcceptance, ...] = ()
    content: str = ""

    @property
    def name(self) -> str:
        """As `--config` takes it."""
        return full_name(self.matrix, self.config)


def full_name(matrix: str, config: str) -> str:
    """`MATRIX/RUN`, or the name of a configuration of its own."""
    return f"{matrix}/{config}" if matrix else config


def canonical(value: Any) -> str:
    """JSON with one form for each value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def content_digest(plain: Mapping[str, Any]) -> str:
    """The digest of a golden read as plain JSON, over everything but `content`."""
    return hashlib.sha256(canonical({k: v for k, v in plain.items() if k != "content"}).encode()).hexdigest()


def config_values(config: Config) -> dict[str, Any]:
    """Everything that a configuration says, as JSON holds it."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(config), sort_keys=True, default=str))
    return values


def kept_steps(window: int) -> set[int]:
    """The steps of which a golden records every array."""
    return {*LEAF_STEPS, window}


def golden_steps(run: RunRecord) -> tuple[GoldenStep, ...]:
    """A run as a golden keeps it."""
    kept = kept_steps(len(run.steps))
    return tuple(_golden_step(step, step.step in kept) for step in run.steps)


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


def not_finite(run: RunRecord) -> str | None:
    """The first number of a run that is NaN or infinite, as `loss at step 3`."""
    for step in run.steps:
        for name in ("loss", "perplexity", "grad_norm", "param_norm"):
            if not math.isfinite(getattr(step, name)):
                return f"{name} at step {step.step}"
        for leaf, record in step.digests.items():
            if not (math.isfinite(record.l1) and math.isfinite(record.l2)):
                return f"{leaf} at step {step.step}"
    return None


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {k: v for name, item in value.items() for k, v in _flat(item, f"{place}.{name}".strip(".")).items()}
    return {place.removeprefix("versions.").removeprefix("settings."): value}


def _short(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
