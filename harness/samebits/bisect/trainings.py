"""Judges training runs against a good one: the distances of all losses and arrays of single steps, with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from samebits.bisect.search.trials import Judgement, failed, passed, untestable
from samebits.errors import SamebitsError
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Defect, Model
from samebits.train.compare import BoundedDistance, bounded
from samebits.train.distance import SCALARS, lacks, leaf_order, place
from samebits.train.envelope import Envelope, Forced, distances, forced, forced_steps, measure
from samebits.train.matrix import one_device
from samebits.train.record import Recorded, RunRecord
from samebits.train.trainer import Trainer, pool


class Trainings:
    """Judges configurations against a good one, which is run and measured on first use.

    Args:
        steps: of every run; may be lowered later.
    """

    def __init__(self, model: Model, root: Path, good: Config, steps: int) -> None:
        self.model, self.root, self.good, self.steps = model, root, good, steps
        self.restart_steps: tuple[int, ...] = forced_steps(steps)
        self._base: tuple[Recorded, Forced, Envelope] | None = None

    def base(self) -> tuple[Recorded, Forced, Envelope]:
        """Return the good run, its single steps, and the envelope due to rounding alone.

        Raises:
            SamebitsError: it cannot be run, or is not reproducible.
        """
        if self._base is None:
            with pool() as threads:
                alone = None
                if MeshSpec.parse(self.good.mesh).devices > 1:
                    alone = Trainer(self.model, one_device(self.good), self.root, threads)
                trainer = Trainer(self.model, self.good, self.root, threads)
                recorded = trainer.run(self.steps, self.restart_steps)
                envelope, base = measure(trainer, recorded, self.steps, alone)
            self._base = recorded, base, envelope
        return self._base

    def judge(self, config: Config, defect: Defect | None = None) -> Judgement:
        """Judge one training: it fails at the first step and array beyond its bound."""
        recorded, base, envelope = self.base()
        try:
            with pool() as threads:
                trainer = Trainer(self.model, config, self.root, threads, defect)
                run = trainer.run(self.steps).run
                states = {step: state for step, state in recorded.states.items() if step <= self.steps}
                apart = forced(trainer, states)
        except SamebitsError as error:
            return untestable(str(error))
        good = replace(recorded.run, steps=recorded.run.steps[: self.steps])
        moved = bounded(good, run, distances({step: base[step] for step in states}, apart), envelope)
        return judge_training(good, run, moved)


def judge_training(good: RunRecord, run: RunRecord, moved: Sequence[BoundedDistance]) -> Judgement:
    """Judge a run; the signature of a failure is the first step beyond a bound and its first leaf."""
    worst = max(moved, key=lambda leaf: leaf.ratio)
    beyond = in_order([leaf for leaf in moved if leaf.ratio > 1])
    if not beyond:
        same = run.bits == good.bits
        words = "identical bits" if same else f"rounding: {worst.ratio:.2g} of its bound at most, {worst.leaf}"
        return passed(words, bits=same, ratio=worst.ratio)
    first = beyond[0]
    number = first.step - 1
    return failed(
        f"step {first.step}: {first.leaf}",
        f"step {first.step}: {first.leaf} off by {_far(first)}, bound {_bound(first)}",
        step=first.step,
        leaf=first.leaf,
        distance=first.distance,
        bound=first.bound,
        loss=run.steps[number].loss_hex,
        good_loss=good.steps[number].loss_hex,
    )


def in_order(moved: Sequence[BoundedDistance]) -> list[BoundedDistance]:
    """Order by step, then as computed: the loss, perplexity, gradients from the head down, the rest.

    An array that one run lacks comes before all others of its step.
    """
    order = {leaf: index for index, leaf in enumerate(leaf_order({distance.leaf for distance in moved}))}

    def key(distance: BoundedDistance) -> tuple[int, bool, int, int]:
        return distance.step, not lacks(distance.leaf), place(distance.leaf), order[distance.leaf]

    return sorted(moved, key=key)


def _far(distance: BoundedDistance) -> str:
    return f"{distance.distance:.0f} ulp" if distance.leaf in SCALARS else f"{distance.distance:.2e}"


def _bound(distance: BoundedDistance) -> str:
    return f"{distance.bound:.0f} ulp" if distance.leaf in SCALARS else f"{distance.bound:.2e}"
