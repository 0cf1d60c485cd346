"""Today's run becomes the golden: who may do that, what is refused, and what is kept of the one before."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from samebits.errors import CouldNotRun, RequestError
from samebits.host.git import author, head_commit, is_dirty
from samebits.schema.model import Config, Model
from samebits.train.golden.check import changes, check_golden
from samebits.train.golden.files import FOLDER, golden_path, locked, read_golden, write_golden
from samebits.train.golden.record import (
    WINDOW,
    ConfirmedEnvironment,
    Golden,
    GoldenAcceptance,
    GoldenEvidence,
    Surroundings,
    config_values,
    full_name,
    golden_steps,
    not_finite,
)
from samebits.train.record import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Permit:
    """That a golden may be accepted now, and by whom.

    Args:
        root: the tree that runs.
        folder: of its goldens, which need not be committed.
        commit: of the tree.
        author, reason: as given.
        date: the day.
    """

    root: Path
    folder: Path
    commit: str
    author: str
    reason: str
    date: str

    def still(self) -> None:
        """Refuse what was changed or committed while it ran: the commit would not be the one that ran.

        Raises:
            RequestError: the tree is not as it was.
        """
        _clean(self.root, self.folder)
        if head_commit(self.root) != self.commit:
            raise RequestError(f"'{self.root}' is at another commit than when the run began; accept again")


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedGolden:
    """What became of one golden.

    Args:
        name: `MATRIX/RUN`.
        path: of the file.
        change: `new`, `changed`, `same bits` (of another environment, configuration or window), `unchanged` (nothing
            was written) or `confirmed` (another environment was added to the evidence).
        old_loss, new_loss: at the last step, as `float.hex`.
        first_step, leaves: where bits first changed, and the arrays that did, at any step.
        max_relative: the largest relative change of a loss or a norm.
    """

    name: str
    path: str
    change: Literal["new", "changed", "same bits", "unchanged", "confirmed"]
    new_loss: str
    old_loss: str | None = None
    first_step: int | None = None
    leaves: tuple[str, ...] = ()
    max_relative: float | None = None


def permit(
    model: Model,
    root: Path,
    *,
    reason: str,
    author_given: str | None,
    steps: int,
    variables: Mapping[str, str] = os.environ,
) -> Permit:
    """Ask everything that can be asked before anything runs.

    Raises:
        RequestError: CI is set, the tree is dirty, there is no reason or author, or the window is too short.
    """
    if not variables.get("CI") and reason.strip() and steps < WINDOW:
        raise RequestError(f"--steps {steps}: a golden needs at least {WINDOW}; slow faults take several to show")
    return permit_in(
        root, model.origin / FOLDER, things="goldens", reason=reason, author_given=author_given, variables=variables
    )


def permit_in(
    root: Path,
    folder: Path,
    *,
    things: str,
    reason: str,
    author_given: str | None,
    variables: Mapping[str, str] = os.environ,
) -> Permit:
    """Whether evidence may be accepted into a folder now.

    Args:
        root: the tree that runs.
        folder: of the files, which need not be committed.
        things: what is accepted, such as `goldens`.
        reason, author_given: as given.
        variables: of the environment.

    Raises:
        RequestError: CI is set, the tree is dirty, or there is no reason or author.
    """
    if variables.get("CI"):
        raise RequestError(
            f"CI={variables['CI']}: {things} are not accepted where nobody looks on; accept at a desk, and commit"
        )
    if not reason.strip():
        raise RequestError(f"--reason is empty; say in a sentence why today's run is right and the {things} are not")
    _clean(root, folder)
    who = (author_given or "").strip() or author(root)
    if not who:
        raise RequestError("git names no author; set user.name and user.email, or give --author 'Name <mail>'")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Permit(
        root=root,
        folder=folder,
        commit=head_commit(root),
        author=who,
        reason=" ".join(reason.split()),
        date=today,
    )


def make_golden(
    model: Model,
    matrix: str,
    config: Config,
    run: RunRecord,
    evidence: GoldenEvidence,
    here: Surroundings,
    allowed: Permit,
    before: Golden | None,
) -> tuple[Golden, AcceptedGolden]:
    """A golden of a run, with the history of the one before.

    Raises:
        RequestError: the run is shorter than before, or lost an array.
        CouldNotRun: a number is not finite.
    """
    name = full_name(matrix, config.name)
    bad = not_finite(run)
    if bad:
        raise CouldNotRun(f"golden '{name}' is not written: {bad} is not finite")
    if len(run.steps) < WINDOW:
        raise RequestError(f"golden '{name}' is not written: {len(run.steps)} steps; expected at least {WINDOW}")
    steps = golden_steps(run)
    change: Literal["new", "changed", "same bits"] = "new"
    first: int | None = None
    largest: float | None = None
    leaves: tuple[str, ...] = ()
    history: tuple[GoldenAcceptance, ...] = ()
    seen = evidence.seen
    if before is not None:
        _nothing_lost(name, before, run)
        differences = list(changes(before, steps[: before.window]))
        change = "changed" if differences else "same bits"
        first = differences[0].step if differences else None
        largest = max(
            (difference.relative for difference in differences if difference.relative is not None), default=0.0
        )
        leaves = tuple(dict.fromkeys(difference.leaf for difference in differences))
        history = (*before.history, before.accepted)
        if not differences:
            seen = (
                *(environment for environment in before.evidence.seen if environment.environment != here.digest()),
                *seen,
            )
    accepted = GoldenAcceptance(
        date=allowed.date,
        commit=allowed.commit,
        author=allowed.author,
        reason=allowed.reason,
        last_loss=steps[-1].loss_hex,
        first_changed_step=first,
        max_relative_change=largest,
    )
    golden = Golden(
        model=model.name,
        matrix=matrix,
        config=config.name,
        config_digest=config.digest(),
        values=config_values(config),
        environment=here,
        environment_digest=here.digest(),
        window=len(steps),
        steps=steps,
        evidence=replace(evidence, seen=seen),
        accepted=accepted,
        history=history,
    )
    return golden, AcceptedGolden(
        name=name,
        path=str(golden_path(model, here, matrix, config.name)),
        change=change,
        old_loss=None if before is None else before.steps[-1].loss_hex,
        new_loss=steps[-1].loss_hex,
        first_step=first,
        leaves=leaves,
        max_relative=largest,
    )


def accept(
    model: Model,
    matrix: str,
    config: Config,
    run: RunRecord,
    evidence: GoldenEvidence,
    here: Surroundings,
    allowed: Permit,
) -> AcceptedGolden:
    """Write the golden of a run, unless the one there says the same already.

    Raises:
        RequestError: the tree changed meanwhile, or the run lost steps or arrays.
        DamagedGolden: the file there is damaged (it holds the history, so it is not overwritten), or a rule is broken.
        CouldNotRun: a number is not finite, or the file cannot be written.
    """
    path = golden_path(model, here, matrix, config.name)
    with locked(path.parent):
        before = read_golden(path) if path.exists() else None
        golden, accepted = make_golden(model, matrix, config, run, evidence, here, allowed, before)
        if before is not None and accepted.change == "same bits" and _as_before(before, golden):
            return replace(accepted, change="unchanged")
        allowed.still()
        write_golden(path, golden)
    return accepted


def confirm(
    model: Model, matrix: str, config: Config, run: RunRecord, here: Surroundings, allowed: Permit
) -> AcceptedGolden:
    """Add this environment to the evidence of a golden that today's run agrees with; its numbers stay.

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


def seen_now(here: Surroundings, date: str, max_ulp: int = 0) -> ConfirmedEnvironment:
    """This environment, as evidence names it."""
    versions = " ".join(f"{name} {here.versions[name]}" for name in ("jax", "jaxlib", "numpy"))
    about = f"{here.devices} x {here.platform} ({here.device_kind}), {here.machine}, {versions}"
    return ConfirmedEnvironment(environment=here.digest(), about=about, date=date, max_ulp=max_ulp)


def _clean(root: Path, folder: Path) -> None:
    dirty = is_dirty(root, folder)
    if dirty:
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        raise RequestError(
            f"'{root}' is dirty ({dirty[0]}{more}): what is accepted names its commit; commit or stash first"
        )


def _nothing_lost(name: str, before: Golden, run: RunRecord) -> None:
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
