"""Distances between two runs: losses in ulps, arrays relative to their norm, and where bits first differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from samebits.errors import DeclarationError
from samebits.numerics.floats import distance
from samebits.train.record import RunRecord

Array = Any

KINDS = ("gradient", "mu", "nu", "parameter")
"""The kinds of arrays that a step computes, in the order of computation."""


FAR = 2**32
"""The distance of a NaN or an infinity from another number, in ulps: larger than that of any two numbers."""


def loss_ulps(a: RunRecord, b: RunRecord) -> list[int]:
    """The distance of two runs' losses at each step, in float32 ulps; that of a NaN is the maximum."""
    return [ulps(step.loss, other.loss) for step, other in zip(a.steps, b.steps, strict=False)]


def ulps(a: Any, b: Any) -> int:
    """The distance of two numbers in float32 ulps; that of a NaN or an infinity from another number is the maximum."""
    x, y = np.asarray(a, np.float32), np.asarray(b, np.float32)
    if np.isfinite(x) and np.isfinite(y):
        return int(distance(x, y))
    return 0 if x.tobytes() == y.tobytes() else FAR


def relative(a: Array, b: Array) -> float:
    """`||a - b|| / ||a||` in float64; infinite if only `a` is zero, or one is not finite."""
    wide, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not (np.isfinite(wide).all() and np.isfinite(other).all()):
        return 0.0 if np.array_equal(wide, other, equal_nan=True) else float("inf")
    apart, norm = float(np.linalg.norm((wide - other).ravel())), float(np.linalg.norm(wide.ravel()))
    return apart / norm if norm else float("inf") if apart else 0.0


def step_arrays(after: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Every array that a step computes, as `kind/leaf`, in the order of `KINDS`."""
    trees = {"gradient": outputs["gradients"], "parameter": after["parameters"]}
    trees |= {name: after[name] for name in KINDS if name in after}
    return {f"{kind}/{name}": trees[kind][name] for kind in KINDS if kind in trees for name in trees[kind]}


def step_distances(a: Mapping[str, Array], b: Mapping[str, Array]) -> dict[str, float]:
    """The relative distance of every array of one step.

    Raises:
        DeclarationError: the two steps do not compute the same arrays.
    """
    if a.keys() != b.keys():
        raise DeclarationError(
            "the two runs have different parameters: one side "
            f"computes {sorted(a.keys() ^ b.keys())[0]}, and the other does not"
        )
    distances = {}
    for name in a:
        x, y = np.asarray(a[name]), np.asarray(b[name])
        if x.size != y.size:
            raise DeclarationError(
                f"the two runs have different parameters: {name} has {x.size} elements on one side and {y.size} on the "
                "other"
            )
        distances[name] = relative(x.reshape(-1), y.reshape(-1))
    return distances


def first_parting(a: RunRecord, b: RunRecord) -> tuple[int, str] | None:
    """The first step and leaf whose bits differ, in the order of computation; None where all bits are equal."""
    for step, other in zip(a.steps, b.steps, strict=False):
        if step.loss_hex != other.loss_hex:
            return step.step, "loss"
        for name in leaf_order(step.digests):
            if step.digests[name].digest != other.digests.get(name, step.digests[name]).digest:
                return step.step, name
    if len(a.steps) != len(b.steps):
        return min(len(a.steps), len(b.steps)) + 1, "loss"
    return None


def leaf_order(names: Iterable[str]) -> list[str]:
    """Gradients before parameters, and each from the head down, as a backward pass computes them."""
    return sorted(
        names, key=lambda name: (not name.startswith("gradient/"), "layers/" in name, "embedding" in name, name)
    )
