"""Turns a run into a golden, with the history of the previous golden, and writes its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.permit import Permit, permit_in
from samebits.host.sealed_file import locked
from samebits.schema.model import Config, Model
from samebits.train.golden.check import GoldenCurveStep, changes, check_golden, curve
from samebits.train.golden.record import (
    FOLDER,
    WINDOW,
    ConfirmedEnvironment,
    Golden,
    GoldenAcceptance,
    GoldenEvidence,
    config_values,
    first_not_finite,
    full_name,
    golden_path,
    golden_steps,
    read_golden,
    write_golden,
)
from samebits.train.record import RunRecord


def permit(
    model: Model,
    root: Path,
    *,
    reason: str,
    author_given: str | None,
    steps: int,
    variables: Mapping[str, str] = os.environ,
) -> Permit:
    """Check everything that can be checked before anything runs.

    Raises:
        RequestError: CI is set, the tree is dirty, there is no reason or author, or the window is too short.
    """
    if not variables.get("CI") and reason.strip() and steps < WINDOW:
        raise RequestError(f"--steps {steps}: a golden needs at least {WINDOW}; slow faults take several to show")
    return permit_in(
        root, model.origin / FOLDER, things="goldens", reason=reason, author_given=author_given, variables=variables
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedGolden:
    """The result of accepting one golden.

    Args:
        name: `MATRIX/RUN`.
        change: `new`, `changed`, `same bits` (but another environment, configuration or window), `unchanged` (nothing
            was written) or `confirmed` (this environment was added to the evidence).
        old_loss, new_loss: at the last step, as `float.hex`.
        first_step, leaves: the first step with changed bits, and the arrays that changed at any step.
        max_relative: the largest relative change of a loss or a norm.
        steps: the previous and the new numbers at each step; empty where there was no golden.
    """

    name: str
    path: str
    change: Literal["new", "changed", "same bits", "unchanged", "confirmed"]
    new_loss: str
    old_loss: str | None = None
    first_step: int | None = None
    leaves: tuple[str, ...] = ()
    max_relative: float | None = None
    steps: tuple[GoldenCurveStep, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCandidate:
    """A run that may become a golden.

    Args:
        matrix, config: the configuration, and the matrix that it is in; empty if it is in none.
    """

    matrix: str
    config: Config
    run: RunRecord
    evidence: GoldenEvidence
    here: Environment

    @property
    def name(self) -> str:
        """`MATRIX/RUN`, or the name of the configuration."""
        return full_name(self.matrix, self.config.name)


def make_golden(
    model: Model, candidate: GoldenCandidate, allowed: Permit, before: Golden | None
) -> tuple[Golden, AcceptedGolden]:
    """Return a golden of a run, with the history of the previous golden.

    Raises:
        RequestError: the run is shorter than the previous golden, or lacks one of its arrays.
        CouldNotRun: a number is not finite.
    """
    _require_complete(candidate, before)
    config, here, steps = candidate.config, candidate.here, golden_steps(candidate.run)
    differences = [] if before is None else list(changes(before, steps[: before.window]))
    relative = (difference.relative for difference in differences if difference.relative is not None)
    max_relative = None if before is None else max(relative, default=0.0)
    first = differences[0].step if differences else None
    change: Literal["new", "changed", "same bits"] = "changed" if differences else "same bits"
    seen = candidate.evidence.seen
    if before is not None and not differences:
        seen = (*(known for known in before.evidence.seen if known.environment != here.digest()), *seen)
    golden = Golden(
        model=model.name,
        matrix=candidate.matrix,
        config=config.name,
        config_digest=config.digest(),
        values=config_values(config),
        environment=here,
        environment_digest=here.digest(),
        window=len(steps),
        steps=steps,
        evidence=replace(candidate.evidence, seen=seen),
        accepted=GoldenAcceptance(
            date=allowed.date,
            commit=allowed.commit,
            author=allowed.author,
            reason=allowed.reason,
            last_loss=steps[-1].loss_hex,
            first_changed_step=first,
            max_relative_change=max_relative,
        ),
        history=() if before is None else (*before.history, before.accepted),
    )
    return golden, AcceptedGolden(
        name=candidate.name,
        path=str(golden_path(model, here, candidate.matrix, config.name)),
        change="new" if before is None else change,
        old_loss=None if before is None else before.steps[-1].loss_hex,
        new_loss=steps[-1].loss_hex,
        first_step=first,
        leaves=tuple(dict.fromkeys(difference.leaf for difference in differences)),
        max_relative=max_relative,
        steps=() if before is None else curve(before, steps, exact=True),
    )


def accept(
    model: Model,
    matrix: str,
    config: Config,
    run: RunRecord,
    evidence: GoldenEvidence,
    here: Environment,
    allowed: Permit,
) -> AcceptedGolden:
    """Write the golden of a run, unless the existing one is the same.

    Raises:
        RequestError: the tree changed meanwhile, or the run has fewer steps or arrays than before.
        DamagedGolden: the existing file is damaged (and not overwritten: it holds the history), or a rule is broken.
        CouldNotRun: a number is not finite, or the file cannot be written.
    """
    path = golden_path(model, here, matrix, config.name)
    with locked(path.parent):
        before = read_golden(path) if path.exists() else None
        candidate = GoldenCandidate(matrix=matrix, config=config, run=run, evidence=evidence, here=here)
        golden, accepted = make_golden(model, candidate, allowed, before)
        if before is not None and accepted.change == "same bits" and _as_before(before, golden):
            return replace(accepted, change="unchanged")
        allowed.still()
        write_golden(path, golden)
    return accepted


def confirm(
    model: Model, matrix: str, config: Config, run: RunRecord, here: Environment, allowed: Permit
) -> AcceptedGolden:
    """Add this environment to the evidence of a golden that today's run agrees with; its numbers do not change.

    Raises:
        RequestError: there is no golden, or the run does not agree with it.
        DamagedGolden: the file is damaged.
        CouldNotRun: it cannot be written.
    """
    path, name = golden_path(model, here, matrix, config.name), full_name(matrix, config.name)
    with locked(path.parent):
        if not path.exists():
            raise RequestError(f"golden '{name}' is missing: there is nothing to confirm; accept it first")
        before = read_golden(path)
        checked = check_golden(before, run, here)
        if not checked.ok:
            raise RequestError(f"golden '{name}' is not confirmed: {checked.message}")
        known = any(environment.environment == here.digest() for environment in before.evidence.seen)
        if not known:
            seen = (*before.evidence.seen, seen_now(here, allowed.date, checked.max_ulp or 0))
            allowed.still()
            write_golden(path, replace(before, evidence=replace(before.evidence, seen=seen)))
    return AcceptedGolden(
        name=name,
        path=str(path),
        change="unchanged" if known else "confirmed",
        old_loss=before.steps[-1].loss_hex,
        new_loss=run.steps[-1].loss_hex,
    )


def seen_now(here: Environment, date: str, max_ulp: int = 0) -> ConfirmedEnvironment:
    """Return this environment, as it is recorded in the evidence."""
    versions = " ".join(f"{name} {here.versions[name]}" for name in ("jax", "jaxlib", "numpy"))
    about = f"{here.devices} x {here.platform} ({here.device_kind}), {here.machine}, {versions}"
    return ConfirmedEnvironment(environment=here.digest(), about=about, date=date, max_ulp=max_ulp)


def _require_complete(candidate: GoldenCandidate, before: Golden | None) -> None:
    name, run = candidate.name, candidate.run
    infinite = first_not_finite(run)
    if infinite:
        raise CouldNotRun(f"golden '{name}' is not written: {infinite} is not finite")
    if len(run.steps) < WINDOW:
        raise RequestError(f"golden '{name}' is not written: {len(run.steps)} steps; expected at least {WINDOW}")
    if before is None:
        return
    if len(run.steps) < before.window:
        raise RequestError(
            f"golden '{name}' is not written: {len(run.steps)} steps, and the golden has {before.window}; "
            f"give --steps {before.window}"
        )
    lost = sorted(before.steps[0].leaves.keys() - run.steps[0].digests.keys())
    if lost:
        raise RequestError(
            f"golden '{name}' is not written: the run has no '{lost[0]}' any more "
            f"({len(lost)} lost); where that is meant, remove the file and accept"
        )


def _as_before(before: Golden, after: Golden) -> bool:
    same = ("environment_digest", "config_digest", "window", "matrix", "config", "model")
    return all(getattr(before, name) == getattr(after, name) for name in same)
