"""A golden: an accepted training run, what its bits depend on, the evidence for its bounds, and its sealed file.

A golden is self-contained. It holds the configuration's values, the environment, every loss exactly, a digest of every
array, how far rounding alone moved the run, and who accepted it, when and why. Its rules are verified each time.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from samebits.errors import DeclarationError
from samebits.host.environment import Environment
from samebits.host.sealed_file import Sealed
from samebits.schema.json_text import content_digest
from samebits.schema.model import Config, Model
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


def broken_rule(golden: Golden) -> str | None:
    """Return the first broken rule of a golden, as one line that names the field; None if all hold."""
    return next(_broken(golden), None)


def _broken(golden: Golden) -> Iterator[str]:
    if golden.window < WINDOW:
        yield f"window is {golden.window} steps; expected at least {WINDOW}"
    if [step.step for step in golden.steps] != list(range(1, golden.window + 1)):
        yield f"steps are not 1 to {golden.window}, as window says"
    if golden.environment_digest != golden.environment.digest():
        yield f"environment_digest is not that of environment ({golden.environment.digest()})"
    yield from _steps(golden)
    yield from _evidence(golden.evidence, golden)
    for place, acceptance in (
        ("accepted", golden.accepted),
        *((f"history[{i}]", x) for i, x in enumerate(golden.history)),
    ):
        for name in ("date", "commit", "author", "reason", "last_loss"):
            if not getattr(acceptance, name).strip():
                yield f"{place}.{name} is empty; it is mandatory"


def _steps(golden: Golden) -> Iterator[str]:
    kept, names = recorded_steps(golden.window), golden.steps[0].leaves.keys() if golden.steps else ()
    for index, step in enumerate(golden.steps):
        place = f"steps[{index}]"
        yield from _numbers(step, place)
        if step.step in kept and not step.leaves:
            yield f"{place}.leaves is empty; at step {step.step} every array is recorded"
        if step.step in kept and step.leaves.keys() != names:
            yield f"{place}.leaves are not those of steps[0]: {sorted(step.leaves.keys() ^ names)[0]}"
        for name, leaf in step.leaves.items():
            if not (math.isfinite(leaf.l1) and math.isfinite(leaf.l2)):
                yield f"{place}.leaves.{name} is not finite"


def _numbers(step: GoldenStep, place: str) -> Iterator[str]:
    for name in ("loss", "perplexity", "grad_norm", "param_norm"):
        pair = name in ("loss", "perplexity")
        try:
            exact = float.fromhex(getattr(step, f"{name}_hex" if pair else name))
        except (ValueError, OverflowError):
            yield f"{place}.{name}{'_hex' if pair else ''} is not a hexadecimal float"
            continue
        if not math.isfinite(exact):
            yield f"{place}.{name} is not finite"
        elif pair and exact != getattr(step, name):
            yield f"{place}.{name} is {getattr(step, name)!r} and {name}_hex says {exact!r}"


def _evidence(evidence: GoldenEvidence, golden: Golden) -> Iterator[str]:
    if not evidence.seen:
        yield "evidence.seen is empty; the environment of the run itself belongs there"
    if evidence.runs < 3:
        yield f"evidence.runs is {evidence.runs}; a spread needs at least 3"
    for kind in ("loss", "perplexity"):
        spread, bound = getattr(evidence, f"{kind}_spread"), getattr(evidence, f"{kind}_bound")
        for name, values in ((f"{kind}_spread", spread), (f"{kind}_bound", bound)):
            if len(values) != golden.window:
                yield f"evidence.{name} has {len(values)} numbers; expected one per step, {golden.window}"
        for index, (noise, limit) in enumerate(zip(spread, bound, strict=False)):
            if limit < noise:
                yield (
                    f"evidence.{kind}_bound[{index}] is {limit} ulps, tighter than the spread of {noise} seen at step "
                    f"{index + 1}"
                )
    leaves = golden.steps[0].leaves if golden.steps else {}
    for name in leaves:
        if name not in evidence.leaf_bound or name not in evidence.leaf_spread:
            yield f"evidence.leaf_bound has no '{name}'"
        elif not evidence.leaf_bound[name] >= evidence.leaf_spread[name]:
            yield (
                f"evidence.leaf_bound.{name} is {evidence.leaf_bound[name]:.3g}, tighter than the spread of "
                f"{evidence.leaf_spread[name]:.3g}"
            )


FOLDER = "goldens"


class DamagedGolden(DeclarationError):
    """The file of a golden is damaged: truncated, edited by hand, or of another schema."""


def golden_path(model: Model, here: Environment, matrix: str, config: str) -> Path:
    """Return the file of a golden."""
    return model.origin / FOLDER / here.folder / f"{_stem(matrix, config)}.json"


def require_own_name(path: Path, golden: Golden) -> None:
    """Reject a golden that is in the file of another."""
    if path.stem != _stem(golden.matrix, golden.config):
        expected = path.stem.replace("__", "/", 1)
        raise DamagedGolden(f"golden {path}: config is '{golden.name}'; expected '{expected}', as in the file's name")


def _stem(matrix: str, config: str) -> str:
    return f"{matrix}__{config}" if matrix else config


def golden_paths(model: Model, platform: str | None = None) -> list[Path]:
    """Return the files of all goldens of one platform, or of all; drafts are hidden files and do not count."""
    paths = (model.origin / FOLDER).glob(f"{platform or '*'}/*.json")
    return sorted(path for path in paths if not path.name.startswith("."))


_FILES = Sealed(
    what="golden",
    kind=Golden,
    schema=SCHEMA,
    damaged=DamagedGolden,
    command="samebits golden accept",
    broken=broken_rule,
)


def read_golden(path: Path) -> Golden:
    """Read and verify a golden.

    Raises:
        DamagedGolden: it is truncated, edited, of another schema, or breaks a rule; the message names the field.
        CouldNotRun: it cannot be read.
    """
    return _FILES.read(path)


def sealed(golden: Golden) -> Golden:
    """Return a golden with the digest of its content."""
    broken = broken_rule(golden)
    if broken:
        raise DamagedGolden(f"golden '{golden.name}' is not written: {broken}")
    return replace(golden, content=content_digest(msgspec.to_builtins(golden)))


def write_golden(path: Path, golden: Golden) -> None:
    """Write a golden atomically; call it inside `locked(path.parent)`.

    Raises:
        DamagedGolden: it breaks a rule.
        CouldNotRun: the file cannot be written; the old one is unchanged.
    """
    _FILES.write(path, sealed(golden))
