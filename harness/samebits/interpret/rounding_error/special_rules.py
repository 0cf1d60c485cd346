"""The error bounds of special functions: monotone ones by their values at the ends of the bound, others by slopes.

XLA's approximations were off by at most these units of float32 on CPU (jax 0.10.2 and 0.12.0, 700 thousand arguments
each): log2 2.6, asinh 3.8, acosh 4.3, atanh 3.2, erf_inv 98, bessel_i0e 6.0, bessel_i1e 19; lgamma 14 of |x| + |y| + 1,
and digamma 20 of |y| + 1. The incomplete gamma and beta functions, off by thousands, have no bound.
"""

from __future__ import annotations

import numpy as np

from samebits.interpret.equation import Array
from samebits.interpret.rounding_error.rules import ErrorChange, Rule, RuleOperands


def _ends(ops: RuleOperands) -> Array:
    """The largest change of a monotone or convex function within the bound; NaN where it is not defined."""
    (x,), (e,) = ops.x, ops.e
    if not e.any():
        return np.zeros(ops.y.shape)
    changes = np.abs(ops.again(x + e) - ops.y), np.abs(ops.again(x - e) - ops.y)
    return np.where(e == 0, 0, np.maximum(*changes))


def _monotone(units: float) -> Rule:
    return lambda ops: ErrorChange(_ends(ops), units)


def _sloped(slope: float, units: float) -> Rule:
    """A function whose derivative is nowhere larger than this, bounded by one."""
    return lambda ops: ErrorChange(np.where(np.isinf(ops.e[0]), np.inf, np.minimum(slope * ops.e[0], 2)), units)


def _lgamma(ops: RuleOperands) -> ErrorChange:
    """Convex for positive arguments; others are taken as they are only without error."""
    (x,), (e,) = ops.x, ops.e
    moved = np.where((e > 0) & (x - e <= 0), np.inf, _ends(ops))
    return ErrorChange(moved, 0.0, 32 * ops.format.unit * (np.abs(x) + np.abs(ops.y) + moved + 1))


def _digamma(ops: RuleOperands) -> ErrorChange:
    """Increasing between two poles, which are at zero and the negative integers."""
    (x,), (e,) = ops.x, ops.e
    pole = (e > 0) & (x - e <= 0) & (np.floor(x - e) != np.floor(x + e))
    moved = np.where(pole, np.inf, _ends(ops))
    # Near a pole the rounding of the reflected argument counts as much as its distance from there.
    near = np.where(x < 0, 1 / np.maximum(np.abs(x - np.round(x)), 1e-300), 0)
    return ErrorChange(moved, 0.0, 40 * ops.format.unit * (np.abs(ops.y) + moved + 1 + near))


SPECIAL_RULES: dict[str, Rule] = {
    "acosh": _monotone(8),
    "asinh": _monotone(8),
    "atanh": _monotone(8),
    "bessel_i0e": _sloped(1, 16),
    "bessel_i1e": _sloped(0.5, 40),
    "digamma": _digamma,
    "erf_inv": _monotone(200),
    "lgamma": _lgamma,
    "log2": _monotone(8),
}
"""What each element of the result owes to the element in its own place."""
