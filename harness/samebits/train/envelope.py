"""Measures how far rounding alone moves a run (A/A before A/B), and derives the bounds of comparisons from it.

The reference is compared with itself: repeated (which must give the same bits), and rewritten in ways that preserve the
mathematics (every parameter changed by one ulp, the rows of each batch permuted, on another mesh). The largest
distances are the envelope; the bounds follow Chen et al., "TTrace" (arXiv 2506.09280), section 5: a multiple of the
reference's own response, for each array, instead of numbers set by hand. One ulp is rounding whatever the training is;
the other rewrites widen the envelope only where they are rounding beside it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from samebits.errors import CouldNotRun
from samebits.numerics.floats import from_ordinals, is_float, ordinals
from samebits.train.distance import (
    FAR,
    NORM_FACTOR,
    NORM_FLOOR,
    first_parting,
    kind_of_norm,
    lacks,
    loss_ulps,
    norm_distances,
    perplexity_ulps,
    require_size,
    step_arrays,
    step_distances,
    with_run,
)
from samebits.train.record import Recorded, RunRecord
from samebits.train.trainer import Trainer

FORCED = (1, 10, 20)
"""Steps that are judged alone: each run restarts there from the reference's state."""

LEAF_FACTOR, LOSS_FACTOR = 3.0, 2.0
"""Bound over noise: for arrays of one step, and for losses along a run."""

LOSS_FLOOR = 4
"""The smallest bound of a loss, in float32 ulps. By chance the rewrites may not change a loss at all where other meshes
change it by 2 (seen in the healthy runs of the matrices); the smallest change by one of the ten planted defects is
14 288."""

FLOOR = {"float32": 2.0**-22, "bfloat16": 2.0**-7}
"""The smallest bound of an array, relative to its norm: two ulps of the activations' dtype."""

ROWS_PERMUTED, ONE_DEVICE = "rows permuted", "one device"
"""Rewrites that leave the mathematics unchanged only where the training depends on neither."""


@dataclass(slots=True)
class Envelope:
    """How far the reference's own rewrites diverge.

    Args:
        loss, perplexity: the running maximum of their distances at each step, in ulps; of the perplexity, beyond what
            the loss moved it.
        leaves: for each array of one forced step, the largest relative distance.
        rewrites: for each rewrite, the largest distance of the loss.
        dtype: of the activations; the smallest bounds follow from it.
        norms: of the gradients and of the parameters, the running maximum at each step of the distances of their norms.
        left_out: rewrites that change more than rounding does, so that no bound may follow from them, and why.
    """

    config: str
    loss: list[int] = field(default_factory=list)
    leaves: dict[str, float] = field(default_factory=dict)
    rewrites: dict[str, int] = field(default_factory=dict)
    dtype: str = "float32"
    perplexity: list[int] = field(default_factory=list)
    norms: dict[str, list[float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def loss_bound(self, step: int) -> int:
        """Return the largest distance of the loss that is accepted at a step, in ulps."""
        return loss_limit(self.loss[step - 1])

    def perplexity_bound(self, step: int, loss: float) -> int:
        """Return the largest distance of the perplexity that is accepted at a step with a loss, in ulps."""
        noise = self.perplexity[step - 1] if self.perplexity else 0
        return int(LOSS_FACTOR * noise) + perplexity_floor(loss)

    def leaf_bound(self, leaf: str) -> float:
        """Return the largest relative distance of an array of one forced step."""
        return max(LEAF_FACTOR * self.leaves.get(leaf, 0.0), FLOOR[self.dtype])

    def norm_bound(self, leaf: str, step: int) -> float:
        """Return the largest distance of a norm of an array, or of all of a kind, that is accepted at a step."""
        kind = kind_of_norm(leaf)
        noise = self.norms.get(kind)
        return max(NORM_FACTOR * noise[step - 1] if noise else 0.0, NORM_FLOOR[self.dtype][kind])

    def add(
        self, name: str, losses: list[int], leaves: Sequence[Mapping[str, float]], perplexities: Sequence[int] = ()
    ) -> None:
        """Widen the envelope by one rewrite.

        Raises:
            CouldNotRun: its loss or one of its arrays is not finite; a bound of that would accept anything.
        """
        require_finite(self.config, name, losses)
        self.rewrites[name] = max([self.rewrites.get(name, 0), *losses])
        self.loss = _widened(self.loss, losses)
        self.perplexity = _widened(self.perplexity, perplexities or [0] * len(losses))
        for distances in leaves:
            for leaf, far in distances.items():
                require_bounded(self.config, name, leaf, far)
                self.leaves[leaf] = max(self.leaves.get(leaf, 0.0), far)

    def add_norms(self, name: str, run: RunRecord, other: RunRecord) -> None:
        """Widen the bounds of the norms by one rewrite.

        Raises:
            CouldNotRun: rounding alone decides whether a norm is finite, or zero.
        """
        for number, both in enumerate(zip(run.steps, other.steps, strict=True)):
            for leaf, far in norm_distances(*both).items():
                require_bounded(self.config, name, leaf, far)
                noise = self.norms.setdefault(kind_of_norm(leaf), [0.0] * len(run.steps))
                noise[number] = max(noise[number], far)
        self.norms = {kind: list(itertools.accumulate(noise, max)) for kind, noise in self.norms.items()}

    def leaves_out(self, name: str, run: RunRecord, other: RunRecord) -> bool:
        """Return whether a rewrite moves a norm further than rounding does by the rewrites so far; it is then noted.

        The reference on one device and on its mesh are two trainings where a collective is missing, and so are those
        of two orders of rows where dropout counts rows. A bound from that accepts any fault of that size.
        """
        for number, both in enumerate(zip(run.steps, other.steps, strict=True), 1):
            for leaf, far in norm_distances(*both).items():
                bound = self.norm_bound(leaf, number)
                if bound < far < math.inf:  # what is not finite has an error of its own
                    self.left_out[name] = (
                        f"{leaf} at step {number} moves by {far:.1e} of the norm of all {kind_of_norm(leaf)}s, and "
                        f"rounding explains {bound:.1e}"
                    )
                    return True
        return False


def require_finite(config: str, name: str, losses: Sequence[int]) -> None:
    """Reject a rewrite of a reference whose loss is not finite."""
    bad = next((step for step, ulps in enumerate(losses, 1) if ulps >= FAR), None)
    if bad is not None:
        raise CouldNotRun(
            f"config '{config}': with {name}, the loss of the reference is not finite at step {bad}: rounding alone "
            "decides whether it is, and no bound follows; give it another start or other batches"
        )


def require_bounded(config: str, name: str, leaf: str, far: float) -> None:
    """Reject an array of a reference of which rounding alone decides whether it is finite, or has any size."""
    if lacks(leaf):
        which = with_run(leaf, "the run as it is", "the rewrite")
        raise CouldNotRun(f"config '{config}': with {name}, the reference has other arrays: {which}; no bound follows")
    if not np.isfinite(far):
        raise CouldNotRun(
            f"config '{config}': with {name}, {leaf} of the reference is not finite, or differs from zero where all "
            "arrays of its kind are zero; no bound follows; give it another start or other batches"
        )


def perplexity_floor(loss: float) -> int:
    """Return how far an ulp of a mean loss moves its perplexity, in float32 ulps: `exp` multiplies it by the loss."""
    return 2 * int(max(1.0, abs(loss))) + 1 if np.isfinite(loss) else 1


def _widened(before: list[int], noise: Sequence[int]) -> list[int]:
    return [int(x) for x in np.maximum.accumulate(np.maximum(before or [0] * len(noise), noise))]


def loss_limit(noise: int) -> int:
    """Return the largest accepted distance of a loss, in float32 ulps, if rounding alone gave `noise`."""
    return max(int(LOSS_FACTOR * noise) + 1, LOSS_FLOOR)


Forced = Mapping[int, Mapping[str, Any]]
"""The arrays of single steps, each from the reference's state, by the number of the step."""


Distances = Mapping[int, Mapping[str, float]]
"""The relative distance of every array of single steps of two runs, by the number of the step."""


def forced_steps(steps: int) -> tuple[int, ...]:
    """Return the steps of a run that are judged alone."""
    return tuple(sorted({step for step in FORCED if step <= steps} | ({steps} if steps < FORCED[-1] else set())))


def forced(trainer: Trainer, states: Mapping[int, Any], change: Callable[[Any], Any] | None = None) -> Forced:
    """Run single steps from given states."""
    arrays = {}
    for number, state in states.items():
        like = reshaped_state(state, trainer.start)
        after, outputs = trainer.single_step(change(like) if change else like, number)
        arrays[number] = step_arrays(after, outputs)
    return arrays


def distances(a: Forced, b: Forced) -> dict[int, dict[str, float]]:
    """Return for each forced step the relative distance of every array."""
    return {number: step_distances(a[number], b[number]) for number in a}


def reshaped_state(state: Any, like: Any, name: str = "state") -> Any:
    """Return the state of another run with this one's shapes (such as stages) and dtypes, elements in C order.

    Args:
        state: of the other run; arrays that this one lacks are left out.
        like: the state that this run starts from; arrays that the other one lacks have their values there.

    Raises:
        DeclarationError: an array has another size.
    """
    if isinstance(like, Mapping):
        return {key: reshaped_state(state[key], like[key], key) if key in state else like[key] for key in like}
    array = np.asarray(state)
    require_size(name, array.size, like.size)
    return array.reshape(like.shape).astype(like.dtype)


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
