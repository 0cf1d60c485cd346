"""Runs a reference as it is and rewritten, and measures how far that moves its results.

First with every parameter changed by one ulp, which is rounding whatever the training is. The other rewrites, other
orders of rows and another mesh, widen the envelope only where they are rounding beside these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from samebits.errors import CouldNotRun
from samebits.numerics.floats import from_ordinals, is_float, ordinals
from samebits.train.distance import first_parting, loss_ulps, perplexity_ulps, step_arrays
from samebits.train.envelope import ONE_DEVICE, ROWS_PERMUTED, Envelope, Forced, distances, forced
from samebits.train.record import Recorded, RunRecord
from samebits.train.trainer import Trainer

REPEATED = "repeated"
"""The name of the same run once more."""

DITHER, DITHERS = "one ulp of dither", 3
"""The name of that rewrite, and how often it is run."""


def measure(reference: Trainer, recorded: Recorded, steps: int, elsewhere: Trainer | None) -> tuple[Envelope, Forced]:
    """Return the envelope of a reference, and its own forced steps.

    Args:
        recorded: its run, with the states before the forced steps.
        elsewhere: the same configuration on one device, where the reference has more.

    Raises:
        CouldNotRun: the reference is not reproducible, or its loss is not finite.
    """
    envelope = Envelope(config=reference.config.name, dtype=reference.config.dtype)
    base = forced(reference, recorded.states)
    again = reference.run(steps).run
    require_same(recorded.run, again, "nothing can be said about others (are nondeterministic kernels allowed?)")
    bad = [step.step for step in recorded.run.steps if not np.isfinite(step.loss)]
    if bad:
        raise CouldNotRun(f"config '{reference.config.name}': the loss is not finite at step {bad[0]}")
    envelope.add(REPEATED, [0] * steps, [])
    for name, run, apart in rewrites(reference, recorded, elsewhere):
        if name == DITHER or not envelope.leaves_out(name, recorded.run, run):
            far = list(distances(base, apart).values())
            envelope.add(name, loss_ulps(recorded.run, run), far, perplexity_ulps(recorded.run, run))
            envelope.add_norms(name, recorded.run, run)
    return envelope, base


def rewrites(
    trainer: Trainer, recorded: Recorded, elsewhere: Trainer | None
) -> Iterator[tuple[str, RunRecord, Forced]]:
    """Run a training in ways that leave its mathematics unchanged, each with its single steps from the same states.

    Args:
        elsewhere: the same configuration on one device, where the run has more.
    """
    steps, permuted = len(recorded.run.steps), rows_permuted(trainer)
    for seed in range(DITHERS):
        dither = functools.partial(dithered_state, seed=seed)
        run = trainer.run(steps, start=dither(trainer.start)).run
        yield DITHER, run, forced(trainer, recorded.states, dither)
    run = trainer.run(steps, order=permuted).run
    yield ROWS_PERMUTED, run, _permuted(trainer, recorded.states, permuted)
    if elsewhere is not None:
        yield ONE_DEVICE, elsewhere.run(steps).run, forced(elsewhere, recorded.states)


def require_same(run: RunRecord, again: RunRecord, so: str) -> None:
    """Reject a training that does not repeat its own bits."""
    parted = first_parting(run, again)
    if parted is not None:
        raise CouldNotRun(
            f"config '{run.config}' does not repeat its own bits: {parted[1]} differs at step {parted[0]} of two equal "
            f"runs; {so}"
        )


def rows_permuted(trainer: Trainer) -> Callable[[Any], Any]:
    """Return a function that puts the rows of a batch of a training into another order, always the same."""
    order = np.random.default_rng(0).permutation(next(iter(trainer.training.batch(1).values())).shape[0])
    return lambda batch: {name: array[order] for name, array in batch.items()}


def dithered_state(state: Any, seed: int) -> Any:
    """Return a state with every parameter `dithered`."""
    names = enumerate(state["parameters"].items())
    moved = {name: dithered(array, np.random.default_rng([seed, i])) for i, (name, array) in names}
    return {**state, "parameters": moved}


def dithered(array: Any, rng: np.random.Generator) -> Any:
    """Return every number moved to one of its neighbours; integers and zeros stay."""
    array = np.asarray(array)
    if not is_float(array.dtype):
        return array
    moved = from_ordinals(ordinals(array) + rng.choice([-1, 1], array.shape), array.dtype)
    return np.where(array == 0, array, moved).astype(array.dtype)


def _permuted(trainer: Trainer, states: Mapping[int, Any], order: Callable[[Any], Any]) -> Forced:
    arrays = {}
    for number, state in states.items():
        arrays[number] = step_arrays(*trainer.single_step(state, number, order(trainer.training.batch(number))))
    return arrays
