"""Recorded and today's numbers of a golden's run, step by step, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from samebits.train import distance
from samebits.train.distance import FAR, LENGTH
from samebits.train.golden.record import Golden, GoldenStep

MOST_ARRAYS = 40
"""How many changed arrays a result lists."""

_NUMBERS = ("loss", "perplexity", LENGTH)


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCurveStep:
    """One step of the recorded run and of today's.

    Args:
        step: counted from 1.
        recorded_loss, loss: then and today; None where a number is not finite, or a run has no such step.
        loss_ulps: their distance in float32 ulps.
        loss_bound: the accepted distance: 0 in the recorded environment.
        recorded_grad_norm, grad_norm: over all gradients before clipping.
        recorded_param_norm, param_norm: over all updated parameters.
    """

    step: int
    recorded_loss: float | None
    loss: float | None
    loss_ulps: int
    loss_bound: int
    recorded_grad_norm: float | None
    grad_norm: float | None
    recorded_param_norm: float | None
    param_norm: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenArrayChange:
    """An array that changed, at the first step where it did.

    Args:
        step: counted from 1.
        leaf: such as `gradient/final_norm`.
        relative: how far its norm moved; 0 where only its bits did, None where that is not known.
        bound: how far it may move; 0 in the recorded environment.
    """

    step: int
    leaf: str
    relative: float | None
    bound: float


@dataclass(frozen=True, slots=True)
class GoldenChange:
    """One number or digest that differs from the recorded one."""

    step: int
    leaf: str
    ulps: int | None
    relative: float | None
    bound: float = 0.0

    @property
    def beyond(self) -> bool:
        """Whether it exceeds the bound."""
        return self.bound < (self.ulps if self.ulps is not None else self.relative or 0.0)


def ulps(a: str, b: str) -> int:
    """Return the distance of two numbers in `float.hex` form, in float32 ulps; at least 1 if they differ."""
    return 0 if a == b else max(1, distance.ulps(float.fromhex(a), float.fromhex(b)))


def relative_change(old: float, new: float) -> float:
    """Return `|old - new|` over the larger magnitude: at most 2; 1 if one is zero, infinite if one is not finite."""
    if old == new:
        return 0.0
    if not (np.isfinite(old) and np.isfinite(new)):
        return float("inf")
    return abs(old - new) / max(abs(old), abs(new))


def norm_change(old: float, new: float, of_kind: float) -> float:
    """Return as `relative_change`, of norms; where the old one is zero, relative to all arrays of its kind."""
    if old or not np.isfinite(new):
        return relative_change(old, new)
    return new / of_kind if of_kind else float("inf") if new else 0.0


def curve(golden: Golden, today: tuple[GoldenStep, ...], *, exact: bool) -> tuple[GoldenCurveStep, ...]:
    """Return both runs, step by step.

    Args:
        exact: whether bits must be the same, as in the recorded environment.
    """
    steps = []
    for place in range(max(len(golden.steps), len(today))):
        old = golden.steps[place] if place < len(golden.steps) else None
        new = today[place] if place < len(today) else None
        bounds = golden.evidence.loss_bound
        steps.append(
            GoldenCurveStep(
                step=place + 1,
                recorded_loss=_number(old, "loss_hex"),
                loss=_number(new, "loss_hex"),
                loss_ulps=ulps(old.loss_hex, new.loss_hex) if old and new else FAR,
                loss_bound=0 if exact or place >= len(bounds) else bounds[place],
                recorded_grad_norm=_number(old, "grad_norm"),
                grad_norm=_number(new, "grad_norm"),
                recorded_param_norm=_number(old, "param_norm"),
                param_norm=_number(new, "param_norm"),
            )
        )
    return tuple(steps)


def first_changes(changes: Iterable[GoldenChange]) -> tuple[GoldenArrayChange, ...]:
    """Return the arrays that changed, each once, in the order in which they did."""
    changed: dict[str, GoldenArrayChange] = {}
    for change in changes:
        if change.leaf not in _NUMBERS:
            relative = None if change.relative is None or not math.isfinite(change.relative) else change.relative
            changed.setdefault(
                change.leaf,
                GoldenArrayChange(step=change.step, leaf=change.leaf, relative=relative, bound=float(change.bound)),
            )
    return tuple(changed.values())


def _number(step: GoldenStep | None, field: str) -> float | None:
    value = math.nan if step is None else float.fromhex(getattr(step, field))
    return value if math.isfinite(value) else None
