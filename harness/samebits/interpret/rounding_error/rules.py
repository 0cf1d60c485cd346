"""The error bound of each operation: the propagated errors of its operands, and its own rounding.

A rule gets the exact operands with a bound on the error of each and says what becomes of the bound (`ErrorChange`).
Assumed of the program: it does these operations in their dtypes, or wider; FMA and extra digits in between are allowed.
So are a product with a rounded inverse for a division, and exp(a + b) for exp(a) exp(b), which XLA makes of them. Not
covered is its merging of constants, (x + a) + b to x + (a + b), where x + a cancels (jax 0.10.2 on CPU, not 0.12.0).

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 2 and 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.host.numpy_threads import in_threads, matmul, uses_threads
from samebits.interpret import dot_general
from samebits.interpret.arrays import evaluate
from samebits.interpret.equation import Array, Step, Type
from samebits.numerics import floats

# How matrix units take float32: on GPUs and TPUs in fewer digits, unless a program asks for all of them.
PASSES: dict[str, dict[str, tuple[int, int, float]]] = {
    "cpu": {"DEFAULT": (1, 24, 0.0), "HIGH": (1, 24, 0.0), "HIGHEST": (1, 24, 0.0)},
    "gpu": {"DEFAULT": (1, 11, 2.0**-10), "HIGH": (1, 11, 2.0**-10), "HIGHEST": (1, 24, 0.0)},
    "tpu": {"DEFAULT": (1, 8, 2.0**-8), "HIGH": (3, 8, 2.0**-15), "HIGHEST": (6, 8, 2.0**-22)},
}
"""By platform and precision: in how many passes, up to how many digits without loss, and what they lose of a longer
operand. A GPU takes TensorFloat-32, which may be cut off; a TPU one, two or three pieces of bfloat16. Float64 is taken
as it is. The rows of the CPU and, on an H100 (jax 0.11.2), of the GPU have been held against execution."""

_TAKEN_AS = {"gpu": "TensorFloat-32", "tpu": "bfloat16"}


def precision_of(step: Step) -> str:
    """The lower of the precisions that a product asks for.

    Raises:
        NotCovered: it asks for a `DotAlgorithm`.
    """
    precision, known = step.params.get("precision"), list(PASSES["cpu"])
    names = [
        getattr(choice, "name", choice) or "DEFAULT"
        for choice in (precision if type(precision) is tuple else [precision])
    ]
    if not all(name in known for name in names):
        raise NotCovered(f"{step}: the algorithm {precision} has no bound")
    return min(names, key=known.index)


def taken_as(step: Step, platform: str) -> str | None:
    """What float32 operands are taken as, such as `TensorFloat-32` or `3 x bfloat16`; None where no digit is lost.

    Args:
        step: any operation; `dot_general` alone is for a matrix unit.
        platform: `cpu`, `gpu` or `tpu`.

    Raises:
        NotCovered: the product asks for a `DotAlgorithm`.
    """
    if step.name != "dot_general" or any(kind.dtype.name != "float32" for kind in (*step.inputs, step.output)):
        return None
    passes, digits, _ = PASSES[platform][precision_of(step)]
    if digits >= 24:
        return None
    return f"{passes} x {_TAKEN_AS[platform]}" if passes > 1 else _TAKEN_AS[platform]


Growth = Callable[[Any, float], Any]
"""From a number of roundings and their unit to the relative error that they can make together."""

_FLOAT32, _FLOAT64 = 2.0**-24, 2.0**-53


@dataclass(frozen=True, slots=True)
class FormatRounding:
    """What rounding to a dtype does.

    Args:
        unit: largest relative error of one operation; computing in float32 and rounding the result again is allowed
            for, and so is the error of the float64 value that it is held against.
        digits: of the significand.
        tiny: below it the relative error may be larger, and the absolute one is at most `flush`.
        largest: the largest finite number.
    """

    unit: float
    digits: int
    tiny: float
    flush: float
    largest: float

    def holds(self, value: Array) -> Any:
        """Whether numbers have so few digits that rounding leaves them as they are."""
        left = (1 << 53 - self.digits) - 1
        return np.equal(value.view(np.int64) & left, 0)


@functools.cache
def format_of(dtype: Any) -> FormatRounding:
    """The format of a dtype.

    Raises:
        NotCovered: it is not a float, or has no sign and no zero (`float8_e8m0fnu`).
    """
    if not floats.is_float(dtype) or not floats.has_sign(dtype):
        raise NotCovered(f"rounding to {np.dtype(dtype).name} has no bound")
    info = ml_dtypes.finfo(dtype)
    unit, tiny = float(info.eps) / 2, float(info.smallest_normal)
    # The subnormal numbers of the shorter formats are normal in float32, in which they are computed: none are flushed.
    flush = tiny if tiny <= 2.0**-126 else float(info.smallest_subnormal)
    unit += (_FLOAT32 if unit > _FLOAT32 else 0.0) + _FLOAT64
    return FormatRounding(unit, floats.digits(dtype), tiny, flush, float(info.max))


BLOCK, WIDE_BLOCK = 1 << 14, 1 << 17
"""Elements of an array that are taken at once, so that what is made of them on the way stays in the cache.

Threads take the wide ones: with 2^14 elements they mostly wait for the interpreter's lock (two cores, NumPy 2.4).
"""


def blocks(size: int) -> Iterator[slice]:
    """The blocks of so many elements; one, if there are none."""
    block = WIDE_BLOCK if uses_threads(size) else BLOCK
    return (slice(start, start + block) for start in range(0, max(size, 1), block))


def flushed(value: Array, error: Array, kind: Type | None) -> Array:
    """The error of an operand, which may be taken as zero where it is subnormal; of no kind, where none can be."""
    tiny = format_of(kind.dtype).tiny if kind is not None and kind.is_float else 0.0
    if kind is None or not tiny or format_of(kind.dtype).flush < tiny:
        return error
    result, flat, errors = error, value.reshape(-1), error.reshape(-1)

    def at_block(block: slice) -> tuple[slice, Array] | None:
        size, own = np.abs(flat[block]), errors[block]
        with np.errstate(invalid="ignore"):  # of infinite numbers with infinite bounds, which stay as they are
            nearest = size - own
            if np.min(nearest, initial=np.inf) >= tiny:
                return None
            small = (nearest < tiny) & (size + own > 0)
        return (block, np.where(small, own + np.minimum(size + own, tiny), own)) if small.any() else None

    for changed in filter(None, in_threads(at_block, blocks(flat.size), flat.size)):
        result = error.copy() if result is error else result
        result.reshape(-1)[changed[0]] = changed[1]
    return result


class ErrorChange(NamedTuple):
    """What one step does to the bound.

    Args:
        propagated: the error that those of the operands make, exactly computed.
        units: roundings of the result itself.
        correct: one correct rounding, so none where the operands are exact and the result fits.
        summands: how many each result has.
        reach: the largest number on the way, which must not overflow; None for the result itself.
        format: that of the result; None for its dtype's.
    """

    propagated: Any
    units: Any = 0.0
    absolute: Any = 0.0
    correct: bool = False
    summands: Any = 0
    reach: Any = None
    format: FormatRounding | None = None


class RuleOperands(NamedTuple):
    """A step with its exact operands `x`, the bounds `e` of their errors, and its exact result `y`."""

    step: Step
    x: Sequence[Array]
    e: Sequence[Array]
    y: Array
    growth: Growth
    platform: str

    @property
    def format(self) -> FormatRounding:
        """That of the result."""
        return format_of(self.step.output.dtype)

    def again(self, *arrays: Any) -> Array:
        """The step done to other numbers, which follow the rules of exact arithmetic; in a block, to those there."""
        step, shape = self.step, self.y.shape
        if step.output.shape != shape:
            step = replace(step, outputs=(Type(shape, step.output.dtype),))
        return evaluate(step, arrays)[0]


Rule = Callable[[RuleOperands], ErrorChange]


def compounded(n: Any, unit: float) -> Any:
    """The units that n roundings of a product make together."""
    return np.expm1(-n * np.log1p(-unit)) / unit


def _nearest(x: Array, e: Array) -> Any:
    """The distance from zero of the number nearest to it within the bound."""
    return np.maximum(np.abs(x) - e, 0)


def _bounded(slope: Callable[[Array, Array], Any], spread: float) -> Callable[..., Any]:
    """A function with this largest slope, whose values lie within `spread` of each other; x itself may be infinite."""
    return lambda x, e, y: np.where(np.isinf(e), np.inf, np.minimum(slope(x, e) * e, spread))


def _logistic_slope(x: Array, e: Array) -> Any:
    small = np.exp(-_nearest(x, e))
    return small / (1 + small) ** 2


def _grown(x: Array, e: Array, y: Array) -> Any:
    """What an error of the argument makes of an exponential `y`; at most the largest, where the product overflows."""
    moved = y * np.expm1(e)
    return moved if np.isfinite(np.max(moved, initial=0.0)) else np.fmin(moved, np.exp(x + e))


def _tan(x: Array, e: Array, y: Array) -> Any:
    turned = np.where(e < np.pi / 2, np.tan(e), np.inf)
    left = 1 - np.abs(y) * turned
    return np.where(left > 0, turned * (1 + y**2) / left, np.inf)


def _arc(x: Array, e: Array, y: Array) -> Any:
    return e / np.sqrt(1 - np.minimum(np.abs(x) + e, 1) ** 2) + np.where(np.abs(x) + e > 1, np.inf, 0)


MOVED: dict[str, Callable[[Array, Array, Array], Any]] = {
    **dict.fromkeys(("abs", "neg"), lambda x, e, y: e),
    **dict.fromkeys(("acos", "asin"), _arc),
    "atan": _bounded(lambda x, e: 1 / (1 + _nearest(x, e) ** 2), np.pi),
    "cbrt": lambda x, e, y: np.minimum(np.cbrt(4 * e), np.divide(e, 3 * np.cbrt(_nearest(x, e)) ** 2)),
    "cos": _bounded(lambda x, e: np.minimum(np.abs(np.sin(x)) + e, 1), 2),
    "cosh": lambda x, e, y: np.sinh(np.abs(x) + e) * e,
    **dict.fromkeys(("erf", "erfc"), _bounded(lambda x, e: 2 / np.sqrt(np.pi) * np.exp(-(_nearest(x, e) ** 2)), 2)),
    "exp": lambda x, e, y: _grown(x, e, y),
    "expm1": lambda x, e, y: _grown(x, e, np.exp(x)),
    "exp2": lambda x, e, y: np.fmin(y * np.expm1(e * np.log(2)), np.exp2(x + e)),
    "log": lambda x, e, y: -np.log1p(-e / x),
    "log1p": lambda x, e, y: -np.log1p(-e / (1 + x)),
    "logistic": _bounded(_logistic_slope, 1),
    "rsqrt": lambda x, e, y: y * np.expm1(-np.log1p(-e / x) / 2),
    "sin": _bounded(lambda x, e: np.minimum(np.abs(np.cos(x)) + e, 1), 2),
    "sinh": lambda x, e, y: np.cosh(np.abs(x) + e) * e,
    "sqrt": lambda x, e, y: -y * np.expm1(np.log1p(-e / x) / 2),
    "square": lambda x, e, y: (2 * np.abs(x) + e) * e,
    "tan": _tan,
    "tanh": _bounded(lambda x, e: 1 / np.cosh(_nearest(x, e)) ** 2, 2),
}
"""Each gives the largest |f(x + d) - f(x)| for |d| <= e; NaN or infinite where there is none, as below a root."""


_APPROXIMATE = 8.0
UNITS: dict[str, Callable[[Array], Any]] = {
    **dict.fromkeys(("abs", "neg"), lambda x: 0.0),
    "square": lambda x: 1.0,
    "sqrt": lambda x: 2.0,
    "rsqrt": lambda x: 4.0,
    # The argument times a constant, rounded; or two exponentials merged into that of the sum of their arguments.
    "exp": lambda x: 4 + np.abs(x),
    "exp2": lambda x: 4 + 2 * np.abs(x),
    "sinh": lambda x: 8 + np.abs(x),
    "cosh": lambda x: 8 + np.abs(x),
    "erfc": lambda x: 16 + 2 * np.maximum(x, 0) ** 2,
}
"""Units that a function's approximation adds; `_APPROXIMATE` where none are given.

XLA has its own approximations. The most that they were off on CPU (jax 0.10.2 and 0.12.0, 700 thousand arguments each)
in units of float32: exp 1.4, exp2 69 at 125, expm1 5.8, log 2.0, log1p 3.4, tanh 4.5, logistic 2.4, erf 5.0,
erfc 35 at 5.9, sin and cos 1.1, sqrt 1.0, rsqrt 2.6, cbrt 1.6, sinh and cosh 25 at 60, asin 2.8, acos 3.0, atan 3.3,
atan2 4.3 (float16), pow 1.0. Other backends were not measured."""


def _function(ops: RuleOperands) -> ErrorChange:
    """A function of one number."""
    name, (x,), (e,) = ops.step.name, ops.x, ops.e
    units, moved = UNITS[name](x) if name in UNITS else _APPROXIMATE, MOVED[name](x, e, ops.y)
    lost: Any = 0.0
    if name in ("cos", "sin", "tan"):  # the argument brought to [-pi, pi] is off by a unit, however small the result is
        lost = np.minimum(np.abs(x), 1) * ops.format.unit
    if name == "logistic":  # 1 / (1 + exp(-x)), which is zero where the exponential overflows
        lost = np.where(ops.y - moved < 2 / ops.format.largest, ops.y + moved, 0)
    return ErrorChange(moved, units, lost, correct=name == "square")


def _reduce_precision(ops: RuleOperands) -> ErrorChange:
    digits, exponent = ops.step.params["mantissa_bits"] + 1, 2.0 ** (ops.step.params["exponent_bits"] - 1)
    if digits >= ops.format.digits and 2.0 ** (2 - exponent) <= ops.format.tiny:
        return ErrorChange(ops.e[0])
    tiny = max(2.0 ** (2 - exponent), ops.format.tiny)
    largest = min((2 - 2.0 ** (1 - digits)) * 2.0 ** (exponent - 1), ops.format.largest)
    kind = FormatRounding(2.0**-digits + ops.format.unit, min(digits, ops.format.digits), tiny, tiny, largest)
    return ErrorChange(ops.e[0], 1.0, correct=True, format=kind)


def _convert(ops: RuleOperands) -> ErrorChange:
    source = ops.step.inputs[0]
    if source.is_float:
        own, to = format_of(source.dtype), ops.format
        if own.digits <= to.digits and own.tiny >= to.tiny and own.largest <= to.largest:
            return ErrorChange(ops.e[0])
    return ErrorChange(ops.e[0], 1.0, correct=True)


def _stepped(ops: RuleOperands) -> ErrorChange:
    """A function that rises in steps."""
    (x,), (e,) = ops.x, ops.e
    return ErrorChange(np.where(e == 0, 0, np.maximum(ops.again(x + e) - ops.y, ops.y - ops.again(x - e))))


def _integer_pow(ops: RuleOperands) -> ErrorChange:
    (x,), (e,), n = ops.x, ops.e, ops.step.params["y"]
    size, power = np.abs(x), abs(n)
    if n >= 0:
        moved = np.where(x == 0, e**power, size**power * np.expm1(power * np.log1p(e / size))) if n else 0 * e
        return ErrorChange(moved, compounded(max(power - 1, 0), ops.format.unit))
    moved = np.where(e < size, size**n * np.expm1(n * np.log1p(-e / size)), np.where(e > 0, np.inf, 0))
    # The power whose inverse this is may be subnormal, or flushed to zero and its inverse infinite.
    out = np.abs(ops.y) + moved
    share = np.where(out > 1 / ops.format.tiny, out * ops.format.flush, 0)
    lost = np.where(share < 1, out * share / (1 - share), np.inf)
    return ErrorChange(moved, compounded(power + 2, ops.format.unit), lost)


def _mul(ops: RuleOperands) -> ErrorChange:
    (x, y), (ex, ey) = ops.x, ops.e
    if not ey.any():
        return ErrorChange(np.abs(y) * ex, 1.0, correct=True)
    moved = np.abs(x) * ey
    if ex.any():
        moved += (np.abs(y) + ey) * ex
    return ErrorChange(moved, 1.0, correct=True)


def _one_minus_square(ops: RuleOperands) -> ErrorChange:
    size, e = np.abs(ops.x[0]), ops.e[0]
    return ErrorChange((2 * size + e) * e, 1.0, (size + e) ** 2 * ops.format.unit)


def _div(ops: RuleOperands) -> ErrorChange:
    (x, y), (ex, ey) = ops.x, ops.e
    size, divisor = np.abs(x), np.abs(y)
    nearest = divisor - ey
    moved = (size * ey + divisor * ex) / (divisor * nearest)
    if not np.min(nearest, initial=np.inf) > 0:
        moved = np.where((ex == 0) & (ey == 0), 0, np.where(ey < divisor, moved, np.inf))
    inverse: Any = 0.0
    if not np.max(largest := divisor + ey, initial=0.0) <= 1 / ops.format.tiny:
        # The inverse of a constant beyond 1 / tiny is rounded as a subnormal number.
        inverse = np.where(largest > 1 / ops.format.tiny, (size + ex) * ops.format.flush, 0)
    return ErrorChange(moved, 3.0, inverse)


def _pow(ops: RuleOperands) -> ErrorChange:
    (x, y), (ex, ey), out = ops.x, ops.e, np.abs(ops.y)
    size = np.abs(x)
    base = -np.log1p(-ex / size)
    exponent = np.abs(y) * base + np.abs(np.log(size)) * ey + base * ey
    moved = np.where((ex < size) & ((x > 0) | (ey == 0)), out * np.expm1(exponent), np.inf)
    # Below the error of x only the largest power is known; that of zero itself is zero or one.
    moved = np.where((ex >= size) & (ey == 0) & (y > 0) & (y == np.trunc(y)), (size + ex) ** y + out, moved)
    moved = np.where((ex == 0) & ((ey == 0) | ((x == 0) & (y > ey))), 0, moved)
    scale = np.where(out > 0, np.abs(y * np.log(size)), 0)
    return ErrorChange(moved, _APPROXIMATE + 2 * scale)


def _atan2(ops: RuleOperands) -> ErrorChange:
    (y, x), (ey, ex) = ops.x, ops.e
    left = np.hypot(x, y) - ex - ey
    cut = (np.abs(y) <= ey) & (x - ex < 0) & (ex + ey > 0)
    moved = np.where(cut | (left <= 0), 2 * np.pi, np.minimum((ex + ey) / left, 2 * np.pi))
    return ErrorChange(np.where(np.isinf(ex + ey), np.inf, np.where(ex + ey == 0, 0, moved)), _APPROXIMATE)


def extreme(x: Array, e: Array, axis: int | tuple[int, ...], sign: int = 1) -> Array:
    """The error of the largest along axes (of the smallest for sign -1): that of those that can be it."""
    signed = x if sign > 0 else -x
    end = np.asarray(signed - e)
    certain = np.fmax.reduce(end, axis=axis, keepdims=True)
    return np.asarray(np.max(np.where(np.add(signed, e, out=end) < certain, 0, e), axis=axis))


def _larger(ops: RuleOperands) -> ErrorChange:
    (x, y), (ex, ey), sign = ops.x, ops.e, 1 if ops.step.name == "max" else -1
    certain = np.fmax(sign * x - ex, sign * y - ey)
    moved = (np.where(sign * each + e < certain, 0, e) for each, e in ((x, ex), (y, ey)))
    return ErrorChange(np.maximum(*moved))


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
"""The special functions: monotone ones by their values at the ends of the bound, others by slopes.

XLA's approximations were off by at most these units of float32 on CPU (jax 0.10.2 and 0.12.0, 700 thousand arguments
each): log2 2.6, asinh 3.8, acosh 4.3, atanh 3.2, erf_inv 98, bessel_i0e 6.0, bessel_i1e 19; lgamma 14 of |x| + |y| + 1,
and digamma 20 of |y| + 1. The incomplete gamma and beta functions, off by thousands, have no bound.
"""


ELEMENTWISE: dict[str, Rule] = {
    **SPECIAL_RULES,
    **dict.fromkeys(MOVED, _function),
    **dict.fromkeys(("ceil", "floor", "round", "sign"), _stepped),
    **dict.fromkeys(("add", "add_any", "sub"), lambda ops: ErrorChange(ops.e[0] + ops.e[1], 1.0, correct=True)),
    "atan2": _atan2,
    "clamp": lambda ops: ErrorChange(functools.reduce(np.maximum, ops.e)),
    "convert_element_type": _convert,
    "div": _div,
    "integer_pow": _integer_pow,
    "iota": lambda ops: ErrorChange(np.zeros(ops.y.shape), 1.0, correct=True),
    **dict.fromkeys(("max", "min"), _larger),
    "mul": _mul,
    "nextafter": lambda ops: ErrorChange(ops.e[0], 4.0),
    "one_minus_square": _one_minus_square,
    "pow": _pow,
    "reduce_precision": _reduce_precision,
    # Of two remainders nothing more is known than that each is smaller than its divisor.
    "rem": lambda ops: ErrorChange(np.where(ops.e[0] + ops.e[1] > 0, 2 * (np.abs(ops.x[1]) + ops.e[1]), 0)),
}
"""What each element of the result owes to the elements in its own place."""


_LAMBDA = 5.0  # a likely bound of a sum of n terms fails with probability below 2 n exp(-12.5), about 7e-6 n


def worst(n: Any, unit: float) -> Any:
    """The relative error of n roundings, all at their largest and of one sign."""
    return n * unit


def likely(n: Any, unit: float) -> Any:
    """The relative error of n roundings of random signs."""
    return np.minimum(n * unit, np.expm1(_LAMBDA * np.sqrt(n) * unit + n * unit**2 / (1 - unit)))


def _sum(ops: RuleOperands) -> ErrorChange:
    """Terms that are zero cost nothing. A `scatter-add` is a sum at each of its targets."""
    places = (0, 2) if ops.step.name == "scatter-add" else (0,)

    def total(terms: list[Array]) -> Array:
        return ops.again(terms[0], ops.x[1], terms[1]) if len(places) == 2 else ops.again(*terms)

    sizes = [np.abs(ops.x[place]) + ops.e[place] for place in places]
    reach, count = total(sizes), total([(size > 0).astype(np.float64) for size in sizes])
    roundings, kind = np.maximum(count - 1, 0), ops.format
    absolute = ops.growth(roundings, kind.unit) * reach + roundings * kind.flush
    return ErrorChange(total([ops.e[place] for place in places]), 0.0, absolute, summands=count, reach=reach)


def _product(ops: RuleOperands) -> ErrorChange:
    (x,), (e,), kind, params = ops.x, ops.e, ops.format, ops.step.params
    size, count = np.abs(x) + e, x.shape[params["axis"]] if "axis" in params else x.size // max(ops.y.size, 1)
    grown, reach = ops.again(size), ops.again(np.maximum(size, 1))
    # A product of some of the factors may be flushed to zero, and the others may be large.
    lost = np.where((ops.again(np.minimum(size, 1)) < kind.tiny) & (grown > 0), kind.flush * reach, 0)
    return ErrorChange(grown - np.abs(ops.y), compounded(count, kind.unit), lost, summands=count, reach=reach)


def _accumulator(ops: RuleOperands, operands: list[FormatRounding]) -> FormatRounding:
    """The format in which products are added up: matrix units do so in at least float32.

    XLA:CPU may add in the dtype of the result: with jax 0.12.0 the product of a one-hot and a bfloat16 matrix adds
    4096 times 0.01 up to 32. A GPU's tensor cores cut off where they align terms; of float8 they keep 14 bits or so.
    """
    if ops.platform == "cpu":
        return ops.format
    wide = max(ops.format, format_of(np.dtype(np.float32)), key=lambda kind: kind.digits)
    short = ops.platform == "gpu" and any(kind.digits <= 4 for kind in operands)
    return replace(wide, unit=2.0**-13 if short else 2 * wide.unit)


def _is_of_ones(x: Array) -> bool:
    """Whether there are only zeros and ones, which a corner denies of most large arrays."""
    corner = x[tuple(slice(8) for _ in x.shape)]
    return all(bool(((part == 0) | (part == 1)).all()) for part in (corner, x))


def _dot_general(ops: RuleOperands) -> ErrorChange:
    (ea, eb), operands = ops.e, [format_of(kind.dtype) for kind in ops.step.inputs]
    a, b = (np.abs(x) for x in ops.x)
    sizes = [x + e if e.any() else x for x, e in ((a, ea), (b, eb))]
    moved: Any = ops.again(a, eb) if eb.any() else 0.0
    if ea.any():
        moved = moved + ops.again(ea, sizes[1])
    reach, least = ops.again(a, b) + moved, [float(np.min(size, initial=np.inf)) for size in sizes]
    count: Any = float(dot_general.length(ops.step))
    if not all(each > 0 for each in least):
        nonzero = [size > 0 for size in sizes]
        least = [float(np.min(size, initial=np.inf, where=some)) for size, some in zip(sizes, nonzero, strict=True)]
        dtype = np.float32 if count <= 2**24 else np.float64  # in which they are counted exactly
        left, right, finish = dot_general.matrix_form(ops.step, *(array.astype(dtype) for array in nonzero))
        count = finish(matmul(left, right)).astype(np.float64)
    sums = _accumulator(ops, operands)
    passes, digits, loss = PASSES[ops.platform][precision_of(ops.step)]
    lost = sum(loss for kind in operands if digits < kind.digits <= 24)
    # Products of short numbers are exact in a long format, those with the ones of a one-hot matrix in any.
    ones = any(not e.any() and _is_of_ones(x) for x, e in ((a, ea), (b, eb)))
    exact = ones or sum(kind.digits for kind in operands) <= sums.digits
    roundings = np.maximum(count * (passes if lost else 1) - exact, 0)
    absolute = (ops.growth(roundings, sums.unit) + lost * (1 + lost)) * reach
    absolute += (roundings + count * (math.prod(least) < sums.tiny)) * sums.flush
    if not np.all(count):
        absolute = np.where(np.greater(count, 0), absolute, 0)
    rounded = float(sums.digits > ops.format.digits)
    return ErrorChange(moved, rounded, absolute, summands=count, reach=reach)


RULES: dict[str, Rule] = {
    **ELEMENTWISE,
    **dict.fromkeys(("cumsum", "reduce_sum", "scatter-add"), _sum),
    **dict.fromkeys(("cumprod", "reduce_prod"), _product),
    "dot_general": _dot_general,
}
"""What every covered operation on floats does to the bound."""
