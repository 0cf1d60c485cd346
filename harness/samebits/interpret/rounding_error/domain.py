"""The abstract domain of running error bounds: each float64 value has a bound on the error of the computed number.

The bound is an array computed from the inputs: large where numbers cancel, tight elsewhere. It holds for any order of
summation; the rules in `rules` state the error of each operation. Inputs are exact; a constant has the error of its
literal. Comparisons are assumed to have the same result as in float64; `RoundingDomain.near_ties` counts those whose
result may differ.

Sources: a sum of n terms is off by at most (n - 1) u sum|x|, an inner product by n u |x|.|y|, in any order and without
restriction on n (Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", SIAM J.
Matrix Anal. Appl. 34, 2013); the square root of n that is likely is from Higham and Mary, "A new approach to
probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019, theorem 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samebits.interpret import dot_general, literals
from samebits.interpret.arrays import evaluate
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.rounding_error.rules import (
    ELEMENTWISE,
    PASSES,
    ErrorChange,
    FormatRounding,
    Growth,
    Rule,
    RuleOperands,
    compounded,
    extreme,
    format_of,
    precision_of,
    taken_as,
)
from samebits.interpret.rounding_error.value import Blame, BoundedValue, NarrowSum, blamed, lifted, longest_sum
from samebits.interpret.sorting import ORDERED
from samebits.numerics import floats

WIDE = 24
"""Binary digits of a type that sums are made in; one of fewer is narrow."""
_SUMS = frozenset({"cumsum", "reduce_sum", "scatter-add"})
_ADDS = _SUMS | {"add", "add_any", "sub"}
_OVER_DEVICES = frozenset({"psum", "psum2", "psum_invariant", "reduce_scatter", "psum_scatter"})

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


def _dot_general(ops: RuleOperands) -> ErrorChange:
    (ea, eb), operands = ops.e, [format_of(kind.dtype) for kind in ops.step.inputs]
    a, b = (np.abs(x) for x in ops.x)
    moved = ops.again(a, eb) + ops.again(ea, b + eb) if ea.any() or eb.any() else np.zeros(ops.y.shape)
    reach, nonzero = ops.again(a, b) + moved, [a + ea > 0, b + eb > 0]
    count = np.full(ops.y.shape, float(dot_general.length(ops.step)))
    if not all(array.all() for array in nonzero):
        count = ops.again(*(array.astype(np.float64) for array in nonzero))
    sums = _accumulator(ops, operands)
    passes, digits, loss = PASSES[ops.platform][precision_of(ops.step)]
    lost = sum(loss for kind in operands if digits < kind.digits <= 24)
    # Products of short numbers are exact in a long format, those with the ones of a one-hot matrix in any.
    ones = any(not e.any() and bool(((x == 0) | (x == 1)).all()) for x, e in ((a, ea), (b, eb)))
    exact = ones or sum(kind.digits for kind in operands) <= sums.digits
    roundings = np.maximum(count * (passes if lost else 1) - exact, 0)
    smallest = np.min((a + ea)[nonzero[0]], initial=np.inf) * np.min((b + eb)[nonzero[1]], initial=np.inf)
    absolute = (ops.growth(roundings, sums.unit) + lost * (1 + lost)) * reach
    absolute += (roundings + count * (smallest < sums.tiny)) * sums.flush
    rounded = float(sums.digits > ops.format.digits)
    return ErrorChange(moved, rounded, np.where(count > 0, absolute, 0), summands=count, reach=reach)


RULES: dict[str, Rule] = {
    **ELEMENTWISE,
    **dict.fromkeys(("cumsum", "reduce_sum", "scatter-add"), _sum),
    **dict.fromkeys(("cumprod", "reduce_prod"), _product),
    "dot_general": _dot_general,
}
"""What every covered operation on floats does to the bound."""

SPREAD = ("cummax", "cummin", "reduce_max", "reduce_min", "sort", "top_k")
"""Choices whose result is one of the elements, whichever it is, so that it has one of their errors."""


BLOCK = 1 << 14
"""Elements that a rule of elementwise operations takes at once: what it makes on the way stays in the cache."""


class _Settled(NamedTuple):
    """The new bound of some elements; the largest result, reach, error of the operands, and error that is added."""

    error: Array
    largest: Array
    summands: int
    kind: FormatRounding


def settle(
    step: Step, x: Sequence[Array], errors: Sequence[Array], y: Array, growth: Growth, platform: str
) -> tuple[Array, float, int]:
    """The new bound, the largest part of it that a step adds relative to its result, and the number of summands.

    Args:
        step, x, y: the operation, its exact operands and its exact result.
        errors: the bounds of the operands.
        growth, platform: as of `RuleOperands`.
    """

    def part(x: Sequence[Array], errors: Sequence[Array], y: Array) -> _Settled:
        flushed = [_flushed(*operand) for operand in zip(x, errors, step.inputs, strict=True)]
        return _settled(RuleOperands(step, x, flushed, y, growth, platform))

    if step.name in ELEMENTWISE and y.size > 2 * BLOCK and all(each.shape in ((), y.shape) for each in x):
        flat, bounds = ([each.reshape(-1) if each.shape else each for each in arrays] for arrays in (x, errors))
        slices = [slice(start, start + BLOCK) for start in range(0, y.size, BLOCK)]
        parts = [part(_at(flat, where), _at(bounds, where), y.reshape(-1)[where]) for where in slices]
        error = np.concatenate([each.error for each in parts]).reshape(y.shape)
    else:
        parts = [part(x, errors, y)]
        error = parts[0].error
    largest, whole, inherited, local = np.max([each.largest for each in parts], axis=0).tolist()
    kind = parts[0].kind
    # What is zero but for inherited errors or the roundings of float64 has no largest value; subnormal numbers have no
    # digits to lose.
    scale = max(largest if largest > max(1e-12 * whole, inherited) else whole, kind.tiny / kind.unit)
    return error, local / scale, max(each.summands for each in parts)


def _at(arrays: Sequence[Array], where: slice) -> list[Array]:
    return [array[where] if array.shape else array for array in arrays]


def _settled(ops: RuleOperands) -> _Settled:
    change, y = RULES[ops.step.name](ops), ops.y
    kind, finite, size_of_y = change.format or ops.format, np.isfinite(y), np.abs(y)
    elementwise = ops.step.name in ELEMENTWISE
    unsure = sum(ops.e, np.zeros(())) > 0 if elementwise else np.asarray(any(e.any() for e in ops.e))
    moved = np.broadcast_to(change.propagated, y.shape)
    if np.isnan(moved).any():
        moved = np.where(np.isnan(moved), np.where(unsure, np.inf, 0), moved)
    size = size_of_y + moved
    # A function may be computed from a quarter of its argument, which is flushed earlier.
    small = (size_of_y - moved < 4 * kind.tiny) & (np.asarray(change.units) > 0)
    rounded = np.where(size > 0, change.units * kind.unit * size + np.where(small, 4 * kind.flush, 0), 0)
    if change.correct:
        rounded = np.where(~unsure & kind.holds(y) & (size_of_y >= kind.tiny), 0, rounded)
    local = rounded + change.absolute
    reach = size if change.reach is None else change.reach
    local = np.where(np.isnan(local) | (np.maximum(reach, size) + local > kind.largest), np.inf, local)
    # An exact infinity stays one.
    error = moved + local if finite.all() else np.where(finite, moved + local, np.where(np.isfinite(moved), 0, np.inf))
    largest = [_largest(each, finite) for each in (size_of_y, reach, moved, local)]
    return _Settled(error, np.array(largest), int(np.max(change.summands, initial=0)), kind)


def _largest(sizes: Any, where: Array) -> float:
    """The largest of some sizes, at least 0."""
    if np.shape(sizes) != where.shape:
        sizes = np.broadcast_to(sizes, where.shape)
    return float(np.maximum.reduce(sizes, axis=None, initial=0.0, where=where))


def own_error(step: Step, exact: Sequence[Array], y: Array, platform: str) -> tuple[Array, float, int]:
    """What a step adds to the bound by itself, of operands without error; its share and summands as for `settle`."""
    return settle(step, exact, [np.zeros(np.shape(array)) for array in exact], y, worst, platform)


class RoundingDomain:
    """The domain of numbers with error bounds.

    Args:
        platform: whose matrix products are bounded: `cpu`, `gpu` or `tpu`; any other is a `ValueError`.
        usual: whether the likely errors are evaluated too, which takes as long again; else they are the bounds.
    """

    name = "rounding"
    keeps_constants = False
    covers = frozenset((*RULES, *SPREAD, "eq", "eq_to", "ge", "gt", "is_finite", "le", "le_to", "lt", "lt_to", "ne"))

    def __init__(self, platform: str = "cpu", *, usual: bool = True) -> None:
        if platform not in PASSES:
            raise ValueError(f"platform is '{platform}'; expected one of {', '.join(PASSES)}")
        self.platform, self.usual = platform, usual
        self.near_ties: dict[str, int] = {}
        self.jumps = False
        """Whether an integer was made of a number that rounding can take to the next one: then no bound holds."""

    def lift(self, array: Array, kind: Type) -> BoundedValue:
        """The number that a constant stands for; that it had to be rounded to its dtype is its error."""
        value = np.asarray(literals.meant(array))
        with np.errstate(invalid="ignore"):  # infinities
            error = np.abs(value - np.asarray(array, np.float64))
        error = np.where(np.isfinite(value), error, 0.0)
        return BoundedValue(value, error, error)

    def take(self, values: Sequence[Any], index: Array, kind: Type) -> BoundedValue:
        """Elements with their errors; between devices a move may be a sum with zeros, which flushes."""
        bounded = [lifted(value) for value in values]

        def moved(name: str) -> Array:
            return np.asarray(np.concatenate([getattr(value, name).reshape(-1) for value in bounded])[index])

        value = moved("value")
        error = _flushed(value, moved("error"), kind)
        usual = _flushed(value, moved("likely"), kind) if self.usual else error
        return BoundedValue(value, error, usual, blamed(bounded), longest_sum(bounded))

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """The numbers themselves."""
        value = lifted(value)
        if step.name in ("argmax", "argmin", "top_k") or (step.name == "sort" and len(step.inputs) > 1):
            order = np.argsort(value.value, axis)
            rows, errors = (
                np.moveaxis(np.take_along_axis(a, order, axis), axis, -1) for a in (value.value, value.error)
            )
            with np.errstate(invalid="ignore"):  # infinities next to each other
                gaps = np.diff(rows)
            self._note(step, gaps, errors[..., 1:] + errors[..., :-1])
        return np.asarray(value.value)

    def concrete(self, step: Step, value: Any) -> Array:
        """The exact numbers, which stand for what decides control flow."""
        return np.asarray(value.value if isinstance(value, BoundedValue) else value)

    def same(self, first: Any, second: Any) -> bool:
        """Equal, or apart by no more than two orders of adding in float64 can be."""
        left, right = lifted(first).value, lifted(second).value
        return left.shape == right.shape and bool(np.allclose(left, right, rtol=1e-12, atol=0, equal_nan=True))

    def apply(self, step: Step, values: Sequence[Any]) -> list[Any]:
        """The exact outputs, and what the step makes of the errors."""
        values = [lifted(value) if kind.is_float else value for value, kind in zip(values, step.inputs, strict=True)]
        with np.errstate(all="ignore"):
            if step.name in ORDERED:
                return self._choose(step, values)
            exact = [self.concrete(step, value) for value in values]
            (y,) = evaluate(step, exact)
            return [self._bounded(step, values, exact, y) if step.output.is_float else self._decide(step, values, y)]

    def _bounded(self, step: Step, values: Sequence[Any], exact: Sequence[Array], y: Array) -> BoundedValue:
        bounds = [lifted(value) for value in values]
        error, share, summands = settle(step, exact, [each.error for each in bounds], y, worst, self.platform)
        blame, narrow = blamed(values), _narrow_sum(step, values, summands)
        if share > (blame.share if blame else 0):
            blame = Blame(share, summands, step, taken_as(step, self.platform))
        if not self.usual:
            return BoundedValue(y, error, error, blame, narrow)
        usual, _, _ = settle(step, exact, [each.likely for each in bounds], y, likely, self.platform)
        return BoundedValue(y, error, np.minimum(usual, error), blame, narrow)

    def _decide(self, step: Step, values: Sequence[Any], y: Array) -> Array:
        """Integers and booleans as the exact numbers give them."""
        operands = [lifted(value) for value in values]
        x, doubt = operands[0].value, operands[0].error
        if len(operands) == 2:
            self._note(step, x - operands[1].value, doubt + operands[1].error)
        elif step.name == "convert_element_type":  # towards zero, so the next jump is at an integer
            predicate = y.dtype.kind == "b"
            self._note(step, x if predicate else x - np.round(x), doubt)
            self.jumps |= not predicate and bool(np.any((np.abs(x - np.round(x)) <= doubt) & (doubt > 0)))
        return y

    def _note(self, step: Step, difference: Array, doubt: Array) -> None:
        if count := int(np.sum((np.abs(difference) <= doubt) & (doubt > 0))):
            self.near_ties[str(step)] = self.near_ties.get(str(step), 0) + count

    def _choose(self, step: Step, values: Sequence[Any]) -> list[Any]:
        """One of the elements, with the largest error of those that it can be."""
        outputs, x = ORDERED[step.name](self, step, values), values[0]
        if not isinstance(x, BoundedValue):
            return outputs
        errors, kind = [_spread(step, x.value, e) for e in (x.error, x.likely)], format_of(step.inputs[0].dtype)
        if step.name == "top_k" and kind.digits < 24:
            # XLA:CPU (jax 0.12.0) takes products of bfloat16 as float32 and cuts them off: one unit more.
            errors = [e + np.where(e > 0, kind.unit * np.abs(outputs[0].value), 0) for e in errors]
        error, usual = (np.broadcast_to(e, outputs[0].shape) for e in errors)
        return [BoundedValue(outputs[0].value, error, usual, x.blame, x.narrow_sum), *outputs[1:]]


def _narrow_sum(step: Step, values: Sequence[Any], summands: int) -> NarrowSum:
    """The longest sum in a narrow type with this step.

    Not counted are the sums over devices, whose number is that of the mesh, and those that jax makes of a broadcast or
    a gather in a gradient: no program has them in another type than its arrays.
    """
    before = longest_sum(values)
    if step.name not in _ADDS or floats.digits(step.output.dtype) >= WIDE:
        return before
    uncounted = step.equation is not None and (
        step.equation.primitive.name in _OVER_DEVICES
        or (step.name in _SUMS and "transpose" in str(step.equation.source_info.name_stack))
    )
    added = 0 if uncounted else max(summands - 1, 0) if step.name in _SUMS else 1
    return NarrowSum(before.additions + added, step) if added else before


def _spread(step: Step, x: Array, e: Array) -> Array:
    params = step.params
    if step.name.startswith("reduce"):
        return extreme(x, e, tuple(params["axes"]), -1 if step.name == "reduce_min" else 1)
    if step.name.startswith("cum"):
        axis, turned = params["axis"], (np.flip(e, params["axis"]) if params["reverse"] else e)
        running = np.asarray(np.maximum.accumulate(turned, axis))
        return np.flip(running, axis) if params["reverse"] else running
    return np.asarray(np.max(e, params.get("dimension", params.get("axis", -1)), keepdims=True))


def _flushed(value: Array, error: Array, kind: Type) -> Array:
    """The error of an operand, which may be taken as zero where it is subnormal."""
    tiny = format_of(kind.dtype).tiny if kind.is_float else 0.0
    if not tiny or format_of(kind.dtype).flush < tiny:
        return error
    size = np.abs(value)
    with np.errstate(invalid="ignore"):  # of infinite numbers with infinite bounds, which stay as they are
        return np.where((size - error < tiny) & (size + error > 0), error + np.minimum(size + error, tiny), error)
