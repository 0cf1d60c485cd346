"""Measures how far rounding alone moves a run: repeated, with rows permuted, changed by one ulp, and on one device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.errors import CouldNotRun
from samebits.train.distance import first_parting
from samebits.train.envelope import (
    FLOOR,
    LEAF_FACTOR,
    LOSS_FACTOR,
    LOSS_FLOOR,
    ONE_DEVICE,
    ROWS_PERMUTED,
    Envelope,
    loss_limit,
    perplexity_floor,
    require_bounded,
    require_finite,
)
from samebits.train.golden.curve import norm_change, ulps
from samebits.train.golden.record import ConfirmedEnvironment, GoldenEvidence, recorded_steps
from samebits.train.measure import DITHER, DITHERS, dithered_state, rows_permuted
from samebits.train.record import RunRecord
from samebits.train.trainer import Trainer

BASIS = (
    f"loss: {LOSS_FACTOR:g} times the running maximum of its distance over all rewrites, plus 1 ulp, at least "
    f"{LOSS_FLOOR} ulps; perplexity: the "
    f"same, plus what 1 ulp of the loss is in it; norms of arrays: {LEAF_FACTOR:g} times the largest relative change, "
    "at least two ulps of the activations' dtype"
)


def rewrites(trainer: Trainer, run: RunRecord, elsewhere: Trainer | None) -> list[tuple[str, RunRecord]]:
    """Run the same training in ways that preserve its mathematics.

    Args:
        trainer: of the run.
        run: the run.
        elsewhere: the same configuration on one device, if the run has more.

    Returns:
        The name of each rewrite, with its run; without those that change more than rounding does.

    Raises:
        CouldNotRun: the run is not reproducible.
    """
    steps = len(run.steps)
    again = trainer.run(steps).run
    parted = first_parting(run, again)
    if parted is not None:
        raise CouldNotRun(
            f"config '{run.config}' does not repeat its own bits: {parted[1]} differs at step {parted[0]} of two equal "
            "runs; a golden would differ from itself"
        )
    runs, measured = [("repeated", again)], Envelope(config=run.config, dtype=run.dtype)
    measured.add("repeated", [0] * steps, [])
    for seed in range(DITHERS):
        runs.append((DITHER, trainer.run(steps, start=dithered_state(trainer.start, seed)).run))
        measured.add_norms(DITHER, run, runs[-1][1])
    others = {ROWS_PERMUTED: trainer.run(steps, order=rows_permuted(trainer)).run}
    if elsewhere is not None:
        others[ONE_DEVICE] = elsewhere.run(steps).run
    return runs + [(name, other) for name, other in others.items() if not measured.leaves_out(name, run, other)]


def evidence_of(
    run: RunRecord, others: Sequence[tuple[str, RunRecord]], seen: Sequence[ConfirmedEnvironment]
) -> GoldenEvidence:
    """Return the evidence of a run and its rewrites.

    Args:
        run: the run that becomes a golden.
        others: names of rewrites, and their runs.
        seen: the environments that have produced these bits.
    """
    steps, kept = len(run.steps), recorded_steps(len(run.steps))
    spread = {"loss": np.zeros(steps, np.int64), "perplexity": np.zeros(steps, np.int64)}
    tried: dict[str, int] = {}
    leaves = dict.fromkeys(run.steps[0].digests, 0.0)
    for name, other in others:
        for kind, noise in spread.items():
            far = [
                ulps(getattr(a, f"{kind}_hex"), getattr(b, f"{kind}_hex"))
                for a, b in zip(run.steps, other.steps, strict=True)
            ]
            if kind == "loss":
                require_finite(run.config, name, far)
            spread[kind] = np.maximum.accumulate(np.maximum(noise, far))
            if kind == "loss":
                tried[name] = max(tried.get(name, 0), *far)
        for a, b in zip(run.steps, other.steps, strict=True):
            if a.step in kept:
                for leaf in leaves:
                    of_kind = a.grad_norm if leaf.startswith("gradient/") else a.param_norm
                    changed = norm_change(a.digests[leaf].l2, b.digests[leaf].l2, of_kind)
                    require_bounded(run.config, name, leaf, changed)
                    leaves[leaf] = max(leaves[leaf], changed)
    one_ulp = [perplexity_floor(step.loss) for step in run.steps]
    return GoldenEvidence(
        runs=1 + len(others),
        rewrites=tried,
        seen=tuple(seen),
        loss_spread=tuple(int(x) for x in spread["loss"]),
        loss_bound=tuple(loss_limit(int(x)) for x in spread["loss"]),
        perplexity_spread=tuple(int(x) for x in spread["perplexity"]),
        perplexity_bound=tuple(
            int(LOSS_FACTOR * x) + ulps_of_loss for x, ulps_of_loss in zip(spread["perplexity"], one_ulp, strict=True)
        ),
        leaf_spread=leaves,
        leaf_bound={name: max(LEAF_FACTOR * far, FLOOR[run.dtype]) for name, far in leaves.items()},
        basis=BASIS,
    )
