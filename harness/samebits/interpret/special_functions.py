"""Integer and special functions on concrete arrays: bit counts by NumPy, functions of statistics by jax in float64.

jax's own float64 forms of `lgamma`, `erf_inv` and their kin are off by about 1e-15, which is far below what any
training dtype resolves; `tests/interpret/test_special_functions.py` holds them against SciPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step

Rule = Callable[..., Any]


def by_jax(step: Step, *values: Array) -> list[Array]:
    """The outputs of an equation as jax computes them in float64."""
    from samebits.interpret.jax_evaluation import in_float64  # here, because most programs need none of it

    return in_float64(step, values)


OF_PARTS = " of parts"
"""Ends the name of a factorisation whose complex operands and results are given as real and imaginary parts."""


def _by_parts(step: Step, *parts: Array) -> list[Array]:
    """The parts of the results of a factorisation of complex matrices, or with complex results."""
    from samebits.interpret.jax_evaluation import in_float64

    rest, operands = iter(parts), []
    for var in step.equation.invars:
        real = next(rest)
        operands.append(real + 1j * next(rest) if np.dtype(var.aval.dtype).kind == "c" else real)
    results = in_float64(step.like(step.name.removesuffix(OF_PARTS), (), (), **step.params), operands)
    each = [[result.real, result.imag] if result.dtype.kind == "c" else [result] for result in results]
    return [part for result in each for part in result]


def _random_gamma(step: Step, keys: Array, alpha: Array) -> Array:
    """Samples in the dtype of the program: in another one the sampler draws other numbers."""
    from samebits.interpret.random_keys import sampled  # here, because most programs need none of it

    return sampled(step, [keys, np.asarray(alpha, step.inputs[1].dtype)])


def _population_count(step: Step, x: Array) -> Array:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _clz(step: Step, x: Array) -> Array:
    """Leading zeros: the bits of the dtype less those up to the highest one."""
    spread, bits = _unsigned(x), 8 * x.dtype.itemsize
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < bits:
            spread = spread | (spread >> spread.dtype.type(shift))
    return (bits - np.bitwise_count(spread).astype(np.int64)).astype(x.dtype)


def _mulhi(step: Step, x: Array, y: Array) -> Array:
    """The upper half of the double-width product."""
    bits = 8 * x.dtype.itemsize
    product = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.asarray(product // (1 << bits)).astype(x.dtype)


def _unsigned(x: Array) -> Array:
    if x.dtype.kind not in "iu" or f"{x.dtype.kind}{8 * x.dtype.itemsize}" not in _WHOLE_BYTES:
        raise NotCovered(f"bits of {x.dtype.name} are not counted")
    return np.asarray(x).view(np.dtype(f"u{x.dtype.itemsize}"))


_WHOLE_BYTES = frozenset(f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64))

ORDER = ("le_to", "lt_to", "eq_to")
"""Comparisons in the total order of floats, in which -0.0 comes before 0.0 and NaN comes last or first, by its sign."""


def _in_total_order(name: str) -> Rule:
    def rule(step: Step, x: Array, y: Array) -> Array:
        if step.inputs[0].is_float:
            if np.any(np.isnan(x) & np.isnan(y)):
                raise NotCovered(f"{step} orders one NaN after another by their bits")
            keys = [np.where(np.isnan(v), np.copysign(np.inf, v), v) for v in (x, y)]
            last = [np.where(np.isnan(v), np.copysign(1, v), 0) for v in (x, y)]  # beyond the infinities
            zero = [np.where(v == 0, np.where(np.signbit(v), -1, 0), 0) for v in (x, y)]
            first = np.where(keys[0] != keys[1], np.sign(_difference(*keys)), 0)
            order = np.where(first != 0, first, np.sign(last[0] - last[1]) * 2 + np.sign(zero[0] - zero[1]))
        else:
            order = np.where(x < y, -1, np.where(x > y, 1, 0))
        return np.asarray({"le_to": order <= 0, "lt_to": order < 0, "eq_to": order == 0}[name])

    return rule


def _difference(x: Array, y: Array) -> Array:
    return np.where(x < y, -1.0, 1.0)


BY_JAX = frozenset(
    {"bessel_i0e", "bessel_i1e", "digamma", "erf_inv", "igamma", "igamma_grad_a", "igammac", "lgamma", "polygamma"}
    | {"regularized_incomplete_beta", "zeta"}
)
"""Functions of each element alone."""

_REAL_MATRICES = frozenset(
    {"cholesky_update", "eigh", "geqrf", "hessenberg", "householder_product", "ormqr", "qr", "schur", "svd"}
    | {"tridiagonal", "tridiagonal_solve"}
)
_COMPLEX_MATRICES = frozenset({"eig", "eigh", "hessenberg", "householder_product", "qr", "schur", "svd"})
MATRICES = _REAL_MATRICES | {f"{name}{OF_PARTS}" for name in _COMPLEX_MATRICES}
"""Factorisations: functions of whole matrices. Their signs are those of jax's own CPU routines."""

SPECIAL: dict[str, Rule] = {
    "acosh": lambda step, x: np.arccosh(x),
    "asinh": lambda step, x: np.arcsinh(x),
    "atanh": lambda step, x: np.arctanh(x),
    "clz": _clz,
    "log2": lambda step, x: np.log2(x),
    "mulhi": _mulhi,
    "population_count": _population_count,
    "random_gamma": _random_gamma,
    **{name: _in_total_order(name) for name in ORDER},
    **dict.fromkeys((*BY_JAX, *_REAL_MATRICES), by_jax),
    **dict.fromkeys(MATRICES - _REAL_MATRICES, _by_parts),
}
"""By primitive, its value on concrete arrays."""
