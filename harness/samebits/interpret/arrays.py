"""Arithmetic primitives on NumPy arrays: integers wrap as in jax, floats are float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.host.numpy_threads import matmul
from samebits.interpret import dot_general, windows
from samebits.interpret.equation import Array, Step
from samebits.numerics import floats

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
    from samebits.interpret.jax_evaluation import sampled  # here, because most programs need none of it

    return sampled(step, [keys, np.asarray(alpha, step.inputs[1].dtype)])


ORDER = ("le_to", "lt_to", "eq_to")
"""Comparisons in the total order of floats, in which -0.0 comes before 0.0 and NaN comes last or first, by its sign."""


def _in_total_order(step: Step, x: Array, y: Array) -> list[Array]:
    if step.inputs[0].is_float and np.any(np.isnan(x) & np.isnan(y)):
        raise NotCovered(f"{step} orders one NaN after another by their bits")
    return by_jax(step, x, y)


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
    "log2": lambda step, x: np.log2(x),
    "random_gamma": _random_gamma,
    **dict.fromkeys(ORDER, _in_total_order),
    **dict.fromkeys(("clz", "mulhi", "population_count", *BY_JAX, *_REAL_MATRICES), by_jax),
    **dict.fromkeys(MATRICES - _REAL_MATRICES, _by_parts),
}
"""By primitive, its value on concrete arrays."""


def evaluate(step: Step, values: Sequence[Array]) -> list[Array]:
    """The outputs of an equation on concrete arrays.

    Equivalent to `equation.primitive.bind(*values, **params)` with every float of the program widened to float64.
    """
    rule = ARITHMETIC.get(step.name)
    if rule is None:
        raise NotCovered(f"{step} has no rule")
    with np.errstate(all="ignore"):
        result = rule(step, *values)
    outputs = result if isinstance(result, list) else [result]
    return [_as(array, kind) for array, kind in zip(outputs, step.outputs, strict=True)]


def _as(array: Any, kind: Any) -> Array:
    return np.asarray(array, np.float64 if kind.is_float else kind.dtype).reshape(kind.shape)


def _plain(function: Callable[..., Any]) -> Rule:
    """A function of the arrays alone."""
    return lambda step, *values: function(*values)


def _div(step: Step, x: Array, y: Array) -> Any:
    if step.output.is_float:
        return np.divide(x, y)
    safe = np.where(y == 0, 1, y)  # XLA gives -1 for a division by zero
    up = (x % safe != 0) & ((x < 0) != (safe < 0))  # towards zero, where NumPy goes down
    return np.where(y == 0, -1, (x // safe + up).astype(np.int64))


def _round(step: Step, x: Array) -> Any:
    away = step.params["rounding_method"].name == "AWAY_FROM_ZERO"
    return np.copysign(np.floor(np.abs(x) + 0.5), x) if away else np.round(x)


def to_integers(x: Array, dtype: Any) -> Array:
    """Floats as XLA converts them: towards zero, no further than the range of the integers, and 0 for NaN."""
    info = ml_dtypes.iinfo(dtype)  # of int4 too
    whole, end = np.trunc(np.where(np.isnan(x), 0, x)), float(info.max)  # which is 2^63 for int64
    inside = np.clip(whole, float(info.min), np.nextafter(end, 0)).astype(dtype)
    return np.where(whole >= end, np.array(info.max, dtype), inside)


def _convert(step: Step, x: Array) -> Any:
    if step.output.dtype.kind == "b":
        return x != 0
    return x if step.output.is_float or x.dtype.kind != "f" else to_integers(x, step.output.dtype)


def _shift(left: bool, arithmetic: bool = False) -> Rule:
    def rule(step: Step, x: Array, y: Array) -> Any:
        bits = floats.width(x.dtype)
        if bits < 8:  # NumPy holds each in a byte
            return by_jax(step, x, y)
        over = y.astype(np.int64) >= bits
        y = np.where(over, 0, y).astype(x.dtype)
        if left:
            return np.where(over, 0, x << y)
        if arithmetic:
            signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
            return np.where(over, np.where(signed < 0, -1, 0), signed >> y.view(signed.dtype)).astype(x.dtype)
        unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}"))
        return np.where(over, 0, (unsigned >> y.view(unsigned.dtype)).view(x.dtype))

    return rule


def _reduce(function: Any) -> Rule:
    return lambda step, x: function(x, axis=tuple(step.params["axes"]))


def running(function: Any) -> Rule:
    """A function of all elements up to each, along an axis and from either end."""

    def rule(step: Step, x: Array) -> Any:
        axis, back = step.params["axis"], step.params["reverse"]
        return np.flip(function(np.flip(x, axis), axis=axis), axis) if back else function(x, axis=axis)

    return rule


def _dot_general(step: Step, x: Array, y: Array) -> Any:
    wide = np.float64 if step.output.is_float else np.int64
    a, b, finish = dot_general.matrix_form(step, x.astype(wide), y.astype(wide))
    return finish(matmul(a, b))


def _scatter_add(step: Step, operand: Array, indices: Array, updates: Array) -> Any:
    targets, inside = windows.of_scatter(step, indices)
    result = operand.reshape(-1).copy()
    np.add.at(result, targets[inside], updates[inside])
    return result


def _iota(step: Step) -> Any:
    shape, axis = step.params["shape"], step.params["dimension"]
    return np.broadcast_to(
        np.arange(shape[axis]).reshape([-1 if dim == axis else 1 for dim in range(len(shape))]), shape
    )


def _bitcast(step: Step, x: Array) -> Any:
    if step.output.is_float or x.dtype.kind == "f":
        raise NotCovered(f"{step}: bits are read as another type, which real numbers do not have")
    return by_jax(step, x)


_BINARY: dict[str, Any] = {
    "add": np.add,
    "add_any": np.add,
    "and": np.bitwise_and,
    "atan2": np.arctan2,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "nextafter": np.nextafter,
    "or": np.bitwise_or,
    "pow": np.power,
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}

_UNARY: dict[str, Any] = {
    "abs": np.abs,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": lambda x: np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))),
    "neg": np.negative,
    "not": lambda x: np.logical_not(x) if x.dtype.kind == "b" else np.invert(x),
    "one_minus_square": lambda x: (1 + x) * (1 - x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
}

ARITHMETIC: dict[str, Rule] = {
    **SPECIAL,
    **{name: _plain(function) for name, function in {**_BINARY, **_UNARY}.items()},
    "bitcast_convert_type": _bitcast,
    "clamp": lambda step, low, x, high: np.minimum(np.maximum(x, low), high),
    "convert_element_type": _convert,
    "cumprod": running(np.cumprod),
    "cumsum": running(np.cumsum),
    "div": _div,
    "dot_general": _dot_general,
    "integer_pow": lambda step, x: (
        np.power(x, step.params["y"]) if step.params["y"] >= 0 else 1 / np.power(x, -step.params["y"])
    ),
    "iota": _iota,
    "reduce_and": _reduce(np.bitwise_and.reduce),
    "reduce_or": _reduce(np.bitwise_or.reduce),
    "reduce_precision": lambda step, x: x,
    "reduce_prod": _reduce(np.prod),
    "reduce_sum": _reduce(np.sum),
    "reduce_xor": _reduce(np.bitwise_xor.reduce),
    "rem": lambda step, x, y: (
        np.fmod(x, y) if step.output.is_float else np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))
    ),
    "round": _round,
    "scatter-add": _scatter_add,
    "shift_left": _shift(left=True),
    "shift_right_arithmetic": _shift(left=False, arithmetic=True),
    "shift_right_logical": _shift(left=False),
}
"""Every arithmetic primitive that the interpreter covers; each domain has its own rules for these names."""
