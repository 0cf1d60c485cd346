"""How far the norms of all arrays move at every step of two runs, beside the few steps whose arrays are compared whole.

A record has the norms of each gradient and each parameter of every step. A gradient that is lost or wrong at one step
moves them at once, and the loss later or never.
"""

from __future__ import annotations

import math

from samebits.train.distance import ALL, in_one_run
from samebits.train.record import LeafRecord, StepRecord

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
    """How far the norms of each array of a step moved, relative to the same norm of all arrays of its kind.

    Of the sum of absolute values and the root of the sum of squares it is the larger distance; that of an array which
    one run lacks, or of a norm which is finite in one run alone, is infinite.

    Args:
        a, b: the step of two runs.
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
    """`gradient` or `parameter`, of a name of `norm_distances`."""
    return next((kind for kind, name in ALL.items() if name == leaf), leaf.split("/")[0])


def _of_kind(step: StepRecord, kind: str) -> dict[str, LeafRecord]:
    return {leaf: norms for leaf, norms in step.digests.items() if leaf.startswith(f"{kind}/")}


def _moved(a: float, b: float, scale: float) -> float:
    """The distance of two norms, relative to that of all arrays."""
    if a == b or not (math.isfinite(a) or math.isfinite(b)):
        return 0.0
    return abs(a - b) / scale if scale and math.isfinite(a) and math.isfinite(b) else math.inf
