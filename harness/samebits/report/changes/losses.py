"""Runs of two `train` documents held against each other, as `samebits train --beside` does: whether a loss moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samebits.report.changes.diff_records import MovedLoss
from samebits.report.changes.rows import PARTS, EnvelopedRun, ResultPlace
from samebits.report.train import nearest
from samebits.train.beside import judge_beside, other_request
from samebits.train.compare import Pairing
from samebits.train.distance import SCALARS
from samebits.train.record import StepRecord


def moved_losses(
    before: Mapping[ResultPlace, EnvelopedRun], after: Mapping[ResultPlace, EnvelopedRun]
) -> list[MovedLoss]:
    """The runs whose losses moved, those that moved further than rounding first.

    Args:
        before, after: the runs of two documents.
    """
    both = [(place, before[place], run) for place, run in after.items() if place in before]
    moved = [loss for loss in (moved_loss(*run) for run in both) if loss is not None]
    return sorted(moved, key=lambda loss: loss.verdict != "different")


def moved_loss(place: ResultPlace, before: EnvelopedRun, after: EnvelopedRun) -> MovedLoss | None:
    """How far the loss of one run moved; None where it did not, or where the two runs cannot be judged.

    Args:
        place: the run.
        before, after: it in two documents.
    """
    if why_not(before, after) is not None or after.envelope is None:
        return None
    pairing = judge_beside(before.record, after.record, after.envelope, "the old document")
    if pairing.verdict != "different" and not pairing.max_ulp:
        return None
    old, new = _shown_step(before, after)
    return MovedLoss(
        **{name: getattr(place, name) for name in PARTS},
        step=new.step,
        before=_text(old.loss, new.loss),
        after=_text(new.loss, old.loss),
        max_ulp=pairing.max_ulp,
        bound=pairing.envelope,
        verdict=pairing.verdict,
        reason=_reason(pairing),
    )


def why_not(before: EnvelopedRun, after: EnvelopedRun) -> str | None:
    """Why two runs with other bits cannot be judged; None where they can, or where their bits are equal."""
    if before.record.bits == after.record.bits:
        return None
    other = other_request(after.record, before.record)
    if other is not None:
        return other
    if after.envelope is None or len(after.envelope.loss) < len(after.record.steps):
        return "the new document has no envelope that says how far rounding alone moves it"
    return None


def not_judged(before: Mapping[ResultPlace, EnvelopedRun], after: Mapping[ResultPlace, EnvelopedRun]) -> Iterable[str]:
    """A line for each run of two documents whose losses are not compared.

    Args:
        before, after: the runs of two documents.
    """
    for place, run in after.items():
        why = why_not(before[place], run) if place in before else None
        if why is not None:
            yield f"losses of run '{run.record.config}' are not compared: {why}"


def _shown_step(before: EnvelopedRun, after: EnvelopedRun) -> tuple[StepRecord, StepRecord]:
    """The last step whose loss moved, or else the last one, in both runs."""
    steps = list(zip(before.record.steps, after.record.steps, strict=True))
    return next((both for both in reversed(steps) if both[0].loss_hex != both[1].loss_hex), steps[-1])


def _text(loss: float, other: float) -> str:
    """A loss with as many digits as tell it from another."""
    short = f"{loss:.6g}"
    return short if short != f"{other:.6g}" else f"{loss:.9g}"


def _reason(pairing: Pairing) -> str:
    where = f"first at step {pairing.first_step}, {pairing.first_leaf}"
    if pairing.distance is None:
        return where
    if pairing.worst_leaf not in SCALARS:
        return f"{where}: {nearest(pairing).removeprefix(f'{pairing.first_leaf} ')}"
    return f"{where}: {pairing.distance:.0f} ulp, and rounding alone explains {pairing.bound:.0f}"
