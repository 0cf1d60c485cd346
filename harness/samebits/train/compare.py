"""Compares two recorded runs: equal bits, equal up to rounding, or different, and where.

In: two `RunRecord`s, their single steps from the same states, and the envelope of the reference. Out: a `Pairing`.
The other run may be of another document, as of one process, or of another git revision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from samebits.errors import RequestError
from samebits.train.distance import (
    first_parting,
    kind_of_norm,
    lacks,
    loss_ulps,
    norm_distances,
    perplexity_ulps,
    place,
    with_run,
)
from samebits.train.envelope import Distances, Envelope
from samebits.train.record import RunRecord

Verdict = Literal["bitwise", "rounding", "different"]
ORDER: tuple[Verdict, ...] = ("different", "rounding", "bitwise")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairing:
    """The comparison of two runs of a matrix.

    Args:
        a, b: the names of the runs; the bounds come from `a`.
        expected: the lowest verdict accepted, from the contracts of the parts that differ.
        reason: why that is expected.
        verdict: what was found; `rounding` is inside the envelope, `different` outside.
        first_step, first_leaf: where bits first part; of `different`, the first step and array beyond its bound.
        max_ulp: the largest distance of the losses, in float32 ulps.
        envelope: the bound of the loss at the last step, in ulps.
        headroom: the least of bound over distance, over all losses and forced arrays; None where nothing differs.
        worst_leaf, distance, bound: the array with the least headroom, how far it is off, and how far it may be.
        ok: whether the verdict is not below what is expected.
        loss_distances, loss_bounds: of the loss at each step, in float32 ulps, and how far it may be.
    """

    a: str
    b: str
    expected: Verdict
    reason: str
    verdict: Verdict
    first_step: int | None
    first_leaf: str | None
    max_ulp: int
    envelope: int
    headroom: float | None
    worst_leaf: str | None
    distance: float | None
    bound: float | None
    ok: bool
    loss_distances: tuple[int, ...] = ()
    loss_bounds: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncompared:
    """A run that was trained and is in no comparison, so that nothing can be said about it.

    Args:
        run: its name.
        reason: why it is in none.
    """

    run: str
    reason: str


@dataclass(frozen=True, slots=True)
class BoundedDistance:
    """The distance of one loss, of one array of a single step, or of a norm of any step, between two runs.

    Args:
        step, leaf: the step and the array; the leaf of a loss is `loss`.
        distance, bound: in float32 ulps for a loss, relative to its norm for an array of a single step, and for a norm
            relative to that of all arrays of its kind.
    """

    step: int
    leaf: str
    distance: float
    bound: float

    @property
    def ratio(self) -> float:
        """Distance over bound; above 1 it exceeds the bound."""
        return self.distance / self.bound


def judge_runs(
    a: RunRecord, b: RunRecord, apart: Distances, envelope: Envelope, expected: Verdict, reason: str
) -> Pairing:
    """Compare two runs, of which `a` is the reference.

    Args:
        apart: the distances of their single steps from the same states.
        expected, reason: the lowest verdict accepted, and why.
    """
    parting = first_parting(a, b) or _first_apart(apart)
    ulps = loss_ulps(a, b)
    moved = bounded(a, b, apart, envelope)
    beyond = [distance for distance in moved if distance.ratio > 1]
    worst = max(moved, key=lambda distance: distance.ratio)
    if parting is None and not beyond:
        verdict: Verdict = "bitwise"
    else:
        verdict = "different" if beyond or len(a.steps) != len(b.steps) else "rounding"
        if beyond:
            worst = first_beyond(beyond)
            parting = worst.step, worst.leaf
    return Pairing(
        a=a.config,
        b=b.config,
        expected=expected,
        reason=reason,
        verdict=verdict,
        first_step=None if parting is None else parting[0],
        first_leaf=None if parting is None else parting[1],
        max_ulp=max(ulps, default=0),
        envelope=envelope.loss_bound(max(1, min(len(ulps), len(envelope.loss)))),
        headroom=1 / worst.ratio if worst.ratio else None,
        worst_leaf=worst.leaf if worst.ratio else None,
        distance=worst.distance if worst.ratio else None,
        bound=worst.bound if worst.ratio else None,
        ok=ORDER.index(verdict) >= ORDER.index(expected),
        loss_distances=tuple(ulps),
        loss_bounds=tuple(envelope.loss_bound(step) for step in range(1, min(len(ulps), len(envelope.loss)) + 1)),
    )


def _first_apart(apart: Distances) -> tuple[int, str] | None:
    """Return the first array of a single step that differs: moments are not among what is recorded of a run."""
    return next(((step, leaf) for step, leaves in apart.items() for leaf, far in leaves.items() if far), None)


def bounded(a: RunRecord, b: RunRecord, apart: Distances, envelope: Envelope) -> list[BoundedDistance]:
    """Return the distances of all losses, perplexities and norms of two runs and of their single steps, with bounds.

    An array that is finite in one run alone, or that one run lacks, is infinitely far.
    """
    moved = [
        BoundedDistance(step, leaf, far, envelope.leaf_bound(leaf))
        for step, leaves in apart.items()
        for leaf, far in leaves.items()
    ]
    losses = [
        BoundedDistance(step, "loss", far, envelope.loss_bound(step)) for step, far in enumerate(loss_ulps(a, b), 1)
    ]
    perplexities = [
        BoundedDistance(step, "perplexity", far, envelope.perplexity_bound(step, a.steps[step - 1].loss))
        for step, far in enumerate(perplexity_ulps(a, b), 1)
    ]
    norms = [
        BoundedDistance(number, leaf, far, envelope.norm_bound(leaf, number))
        for number, both in enumerate(zip(a.steps, b.steps, strict=False), 1)
        for leaf, far in norm_distances(*both).items()
        if kind_of_norm(leaf) in envelope.norms or math.isinf(far)  # older documents say nothing of norms
    ]
    every = moved + losses + perplexities + norms
    return [replace(distance, leaf=with_run(distance.leaf, a.config, b.config)) for distance in every]


def first_beyond(beyond: Sequence[BoundedDistance]) -> BoundedDistance:
    """Return the first distance beyond its bound: earliest step, then first kind of array computed, then largest ratio.

    An array that one run lacks comes before all others: what else differs follows from it.
    """
    step = min(distance.step for distance in beyond)
    here = [distance for distance in beyond if distance.step == step]
    lacking = [distance for distance in here if lacks(distance.leaf)]
    kind = min(place(distance.leaf) for distance in lacking or here)
    return max(
        (distance for distance in lacking or here if place(distance.leaf) == kind), key=lambda distance: distance.ratio
    )


def clusters(runs: Sequence[RunRecord]) -> list[list[str]]:
    """Group runs with identical bits, ordered by the first run of each."""
    names_by_bits: dict[str, list[str]] = {}
    for run in runs:
        names_by_bits.setdefault(run.bits, []).append(run.config)
    return list(names_by_bits.values())


REASON = "the same run of another document; collectives between processes may sum in another order"


def compare_beside(
    runs: Mapping[str, RunRecord], others: Sequence[RunRecord], envelope: Envelope | None, where: str
) -> list[Pairing]:
    """Return every run beside the run of the same configuration in another document, `where`.

    Raises:
        RequestError: a run is not in it, or is of another configuration or length.
    """
    known = {run.config: run for run in others}
    pairings = []
    for name, run in runs.items():
        other = known.get(name)
        if other is None:
            raise RequestError(f"--beside {where}: has no run '{name}'; it must be of the same matrix")
        unlike = other_request(run, other)
        if unlike is not None:
            raise RequestError(f"--beside {where}: run '{name}' {unlike}")
        if envelope is not None:
            pairings.append(judge_beside(other, run, envelope, where))
    return pairings


def other_request(run: RunRecord, other: RunRecord) -> str | None:
    """Say what another document was asked for where that is another configuration or length."""
    if (other.digest, len(other.steps)) == (run.digest, len(run.steps)):
        return None
    return f"has {len(other.steps)} steps of configuration {other.digest}; here it has {len(run.steps)} of {run.digest}"


def judge_at(revision: str, other: RunRecord, run: RunRecord, envelope: Envelope) -> Pairing:
    """Judge a run beside the same run at another git revision, whose envelope it is: no run bounds itself."""
    then = replace(other, config=f"{other.config}@{revision}")
    return judge_runs(then, run, {}, envelope, "rounding", f"the same configuration at {revision}")


def judge_beside(other: RunRecord, run: RunRecord, envelope: Envelope, where: str) -> Pairing:
    """Judge a run beside the same run of another document, by this one's envelope."""
    return judge_runs(replace(other, config=f"{run.config} of {where}"), run, {}, envelope, "rounding", REASON)
