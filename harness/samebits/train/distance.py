"""Distances between two runs: losses in ulps, arrays relative to their norm, and where bits first differ.

Few steps have their arrays compared whole. A record has the norms of each gradient and each parameter of every step: a
gradient that is lost or wrong at one step moves them at once, and the loss later or never.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from samebits.errors import DeclarationError
from samebits.numerics.floats import distance, is_float
from samebits.train.record import LeafRecord, RunRecord, StepRecord

Array = Any

SCALARS = ("loss", "perplexity")
"""The numbers of a step, in the order of computation; their distances are in float32 ulps."""

KINDS = ("gradient", "mu", "nu", "parameter", "state")
"""The kinds of arrays that a step computes, in the order of computation; `state` is all else that a run carries."""

ALL = {"gradient": "norm of all gradients", "parameter": "norm of all parameters"}
"""The names of the norms over all arrays of a kind."""

ORDER = (*SCALARS, "gradient", ALL["gradient"], "mu", "nu", "parameter", ALL["parameter"], "state")
"""All that runs are compared by, in the order of computation; an array is named before the norm of all."""

ONLY = (" (only in the first run)", " (only in the second run)")
"""What follows the name of an array that only one of two runs has."""

LENGTH = "number of steps"
"""What runs of different lengths differ in first, where all common steps are equal."""

FAR = 2**32
"""The distance of a NaN or an infinity from another number, in ulps: larger than that of any two numbers."""


def loss_ulps(a: RunRecord, b: RunRecord) -> list[int]:
    """Return the distance of two runs' losses at each step, in float32 ulps; that of a NaN is the maximum."""
    return [ulps(step.loss, other.loss) for step, other in zip(a.steps, b.steps, strict=False)]


def ulps(a: Any, b: Any) -> int:
    """Return the distance of two numbers in float32 ulps; of a NaN or an infinity, the maximum."""
    x, y = np.asarray(a, np.float32), np.asarray(b, np.float32)
    if np.isfinite(x) and np.isfinite(y):
        return int(distance(x, y))
    return 0 if x.tobytes() == y.tobytes() else FAR


def perplexity_ulps(a: RunRecord, b: RunRecord) -> list[int]:
    """Return the distance of two runs' perplexities at each step, in float32 ulps, beyond what their losses moved them.

    `perplexity = exp(loss)` multiplies a relative change of the loss by the loss, and the loss has a bound of its own.
    """
    return [
        perplexity_distance(step.loss, step.perplexity, other.loss, other.perplexity)
        for step, other in zip(a.steps, b.steps, strict=False)
    ]


def perplexity_distance(loss: float, perplexity: float, other_loss: float, other_perplexity: float) -> int:
    """Return as `perplexity_ulps`, of one step."""
    whole, moved = ulps(perplexity, other_perplexity), other_loss - loss
    return min(whole, ulps(perplexity * math.exp(moved), other_perplexity)) if abs(moved) < 1 else whole


def relative(a: Array, b: Array, scale: float = 0.0) -> float:
    """Return `||a - b|| / ||a||` in float64; infinite if one is not finite.

    Args:
        scale: what takes the place of `||a||` where that is zero; if it is zero too, the distance is infinite.
    """
    wide, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not (np.isfinite(wide).all() and np.isfinite(other).all()):
        return 0.0 if np.array_equal(wide, other, equal_nan=True) else float("inf")
    apart, norm = float(np.linalg.norm((wide - other).ravel())), float(np.linalg.norm(wide.ravel())) or scale
    return apart / norm if norm else float("inf") if apart else 0.0


def step_arrays(after: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return every array that a step computes, as `kind/leaf`, in the order of `KINDS`, then floats of other state."""
    trees = {"gradient": outputs["gradients"], "parameter": after["parameters"]}
    trees |= {name: after[name] for name in ("mu", "nu") if name in after}
    others = {name: entry for name, entry in after.items() if name not in ("parameters", "mu", "nu")}
    trees["state"] = {name: array for name, array in _flat(others) if is_float(np.asarray(array).dtype)}
    return {f"{kind}/{name}": trees[kind][name] for kind in KINDS if kind in trees for name in trees[kind]}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Array]]:
    for name, entry in tree.items():
        if isinstance(entry, Mapping):
            yield from _flat(entry, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", entry


def step_distances(a: Mapping[str, Array], b: Mapping[str, Array]) -> dict[str, float]:
    """Return the relative distance of every array of one step; of zeros, relative to all arrays of the kind.

    Rounding may take a zero to another number, so that what is relative to the zero has no bound. An array that only
    one of the steps computes is infinitely far, but for other entries of its state, which a run may have for itself.

    Raises:
        DeclarationError: an array has another size in the other step.
    """
    alone = [leaf for leaf in in_one_run(a, b) if not leaf.startswith("state/")]
    distances = dict.fromkeys(alone, math.inf)
    for name in (name for name in a if name in b):
        x, y = np.asarray(a[name]), np.asarray(b[name])
        require_size(name, x.size, y.size)
        zero = not x.any() and bool(y.any())
        distances[name] = relative(x.reshape(-1), y.reshape(-1), _norm_of_kind(a, name) if zero else 0.0)
    return distances


def require_size(name: str, size: int, other: int) -> None:
    """Reject two runs of which an array has different sizes."""
    if size != other:
        raise DeclarationError(
            f"the two runs have different parameters: {name} has {size} elements on one side and {other} on the other"
        )


def in_one_run(a: Iterable[str], b: Iterable[str]) -> list[str]:
    """Return the names of the arrays that only one of two runs has, each with which of them it is."""
    mine, others = dict.fromkeys(a), dict.fromkeys(b)
    first = [f"{name}{ONLY[0]}" for name in mine if name not in others]
    return first + [f"{name}{ONLY[1]}" for name in others if name not in mine]


def with_run(leaf: str, a: str, b: str) -> str:
    """Return a name of `in_one_run` with that of the run; all other names as they are."""
    for words, run in zip(ONLY, (a, b), strict=True):
        if leaf.endswith(words):
            return f"{leaf.removesuffix(words)} (only in {run})"
    return leaf


def lacks(leaf: str) -> bool:
    """Return whether a name is that of an array which only one of two runs has."""
    return " (only in " in leaf


def place(leaf: str) -> int:
    """Return the place of a loss, a norm or an array in the order of computation."""
    return ORDER.index(leaf.split("/")[0])


def _norm_of_kind(arrays: Mapping[str, Array], name: str) -> float:
    kind = name.split("/")[0]
    same = (np.asarray(array, np.float64) for leaf, array in arrays.items() if leaf.split("/")[0] == kind)
    squares = (float(np.square(array).sum()) for array in same)
    return math.sqrt(sum(square for square in squares if math.isfinite(square)))


def first_parting(a: RunRecord, b: RunRecord) -> tuple[int, str] | None:
    """Return the first step and leaf whose bits differ, in the order of computation; None where all bits are equal."""
    for step, other in zip(a.steps, b.steps, strict=False):
        if step.loss_hex != other.loss_hex:
            return step.step, "loss"
        if step.perplexity_hex != other.perplexity_hex:
            return step.step, "perplexity"
        for name in leaf_order({**step.digests, **other.digests}):
            if name not in step.digests or name not in other.digests:
                return step.step, name
            if step.digests[name].digest != other.digests[name].digest:
                return step.step, name
    if len(a.steps) != len(b.steps):
        return min(len(a.steps), len(b.steps)) + 1, f"{LENGTH}: {len(a.steps)} and {len(b.steps)}"
    return None


def leaf_order(names: Iterable[str]) -> list[str]:
    """Order gradients before parameters, and each from the head down, as a backward pass computes them."""
    return sorted(
        names, key=lambda name: (not name.startswith("gradient/"), "layers/" in name, "embedding" in name, name)
    )


NORM_FACTOR = 32.0
"""Bound over noise: how far the rewrites of the reference move the norms at that step or before."""

NORM_FLOOR = {
    "float32": {"gradient": 2.0**-16, "parameter": 2.0**-19},
    "bfloat16": {"gradient": 2.0**-4, "parameter": 2.0**-11},
}
"""The smallest bound of a norm, by the dtype of the activations.

Measured over 20 steps, the largest distances of gradients and of parameters in any comparison at any step:

- float32, all within rounding: 1.5e-7 and 1.3e-9 (`moe_parallelism`), 6.9e-8 and 1.2e-9 (`hybrid`), 2.3e-7 and 5.8e-9
  (`pipeline_sharding`), 5.8e-7 and 3.3e-8 (`everything`, whose rewrites move as far: there the noise gives the bound).
  A gradient that is lost at one step is 0.11, the moments lost before one 4e-5 of the parameters, one parameter that is
  not updated 1.6e-5.
- bfloat16, within rounding: 9.6e-8 and 3.9e-10 (sparse for dense experts), 4.5e-3 and 7.2e-7 (replicated for split
  moments; there the noise gives the bound). With all parts optimized, which single steps tell apart already: 4.4e-3 and
  1.4e-5 (`moe_parallelism`), 2.2e-3 and 1.2e-5 (`hybrid`), 5.3e-3 and 4.5e-6 (`pipeline_sharding`). Rewrites say little
  in early steps there: an ulp of a float32 parameter is lost in its first cast.

The bound is at least 32 times what any run within rounding moved, at every step. On another processor (AVX-512 for
AVX2), the norms of all arrays of four goldens moved by 2.4e-7 and 2.4e-9.
"""


def norm_distances(a: StepRecord, b: StepRecord) -> dict[str, float]:
    """Return how far the norms of each array of a step moved, relative to the same norm of all arrays of its kind.

    Of the sum of absolute values and the root of the sum of squares it is the larger distance; that of an array which
    one run lacks, or of a norm which is finite in one run alone, is infinite.
    """
    far: dict[str, float] = {}
    for kind, field in (("gradient", "grad_norm"), ("parameter", "param_norm")):
        mine, others = (_of_kind(step, kind) for step in (a, b))
        l1 = sum(leaf.l1 for leaf in mine.values() if math.isfinite(leaf.l1))
        l2 = math.sqrt(sum(leaf.l2**2 for leaf in mine.values() if math.isfinite(leaf.l2)))
        for leaf, norms in mine.items():
            if leaf in others:
                other = others[leaf]
                far[leaf] = max(_moved(norms.l1, other.l1, l1), _moved(norms.l2, other.l2, l2))
        far |= dict.fromkeys(in_one_run(mine, others), math.inf)
        far[ALL[kind]] = _moved(getattr(a, field), getattr(b, field), l2)
    return far


def kind_of_norm(leaf: str) -> str:
    """Return `gradient` or `parameter`, of a name of `norm_distances`."""
    return next((kind for kind, name in ALL.items() if name == leaf), leaf.split("/")[0])


def _of_kind(step: StepRecord, kind: str) -> dict[str, LeafRecord]:
    return {leaf: norms for leaf, norms in step.digests.items() if leaf.startswith(f"{kind}/")}


def _moved(a: float, b: float, scale: float) -> float:
    """Return the distance of two norms, relative to that of all arrays."""
    if a == b or not (math.isfinite(a) or math.isfinite(b)):
        return 0.0
    return abs(a - b) / scale if scale and math.isfinite(a) and math.isfinite(b) else math.inf
