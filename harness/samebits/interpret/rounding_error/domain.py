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
from typing import Any

import numpy as np

from samebits.interpret import literals
from samebits.interpret.arrays import evaluate
from samebits.interpret.data_movement import Move, owned
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.rounding_error.rules import (
    PASSES,
    RULES,
    RuleOperands,
    extreme,
    flushed,
    format_of,
    likely,
    taken_as,
    worst,
)
from samebits.interpret.rounding_error.step_bounds import (
    Blame,
    BoundedValue,
    NarrowSum,
    blamed,
    lifted,
    longest_sum,
    settle,
)
from samebits.interpret.sorting import ORDERED
from samebits.numerics import floats

WIDE = 24
"""Binary digits of a type that sums are made in; one of fewer is narrow."""
_SUMS = frozenset({"cumsum", "reduce_sum", "scatter-add"})
_ADDS = _SUMS | {"add", "add_any", "sub"}
_OVER_DEVICES = frozenset({"psum", "psum2", "psum_invariant", "reduce_scatter", "psum_scatter"})

SPREAD = ("cummax", "cummin", "reduce_max", "reduce_min", "sort", "top_k")
"""Choices whose result is one of the elements, whichever it is, so that it has one of their errors."""


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

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> BoundedValue:
        """Elements with their errors; between devices a move may be a sum with zeros, which flushes."""
        bounded = [lifted(value) for value in values]

        def part(name: str) -> Array:
            return owned(move([getattr(value, name) for value in bounded]))

        value, moved = part("value"), part("error")
        flushes = None if all(each.normal for each in bounded) else kind
        error = flushed(value, moved, flushes)
        usual = flushed(value, part("likely"), flushes) if self.usual else error
        return BoundedValue(value, error, usual, blamed(bounded), longest_sum(bounded), error is moved)

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
        ops = RuleOperands(step, exact, [each.error for each in bounds], y, worst, self.platform)
        error, share, summands, normal = settle(ops, [each.normal for each in bounds])
        blame, narrow = blamed(values), _narrow_sum(step, values, summands)
        if share > (blame.share if blame else 0):
            blame = Blame(share, summands, step, taken_as(step, self.platform))
        if not self.usual:
            return BoundedValue(y, error, error, blame, narrow, normal)
        ops = ops._replace(e=[each.likely for each in bounds], growth=likely)
        usual = settle(ops, [False for _ in bounds]).error
        return BoundedValue(y, error, np.minimum(usual, error), blame, narrow, normal)

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
