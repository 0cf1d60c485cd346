"""The dependence of operations on each element: what a known number cuts off, and under which condition.

A rule gets a domain, an equation and values of one shape, and returns the value of the result. Most operations depend
on all their operands; those here do not always.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from samebits.interpret.arrays import evaluate
from samebits.interpret.dependence.sets import SetTable
from samebits.interpret.dependence.value import FILLER, HIGH, KNOWN, LARGE, LOW, OPEN, Dependent, chosen, opened
from samebits.interpret.equation import Array, Step, Type

FINITE = "all numbers are finite"
NONZERO = "no number by which zero is divided is zero"
MASKS = "numbers beside masks are small against them"


class NotingDomain(Protocol):
    """The part of the domain that rules use."""

    table: SetTable

    def assume(self, condition: str, magnitude: float = 0.0) -> None:
        """Note a condition down, of masks with their magnitude."""


Rule = Callable[[NotingDomain, Step, Sequence[Dependent]], Dependent]


def elementwise(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    """Return the result of an operation on each element."""
    rule = RULES.get(step.name)
    return rule(domain, step, values) if rule is not None else plain(domain, step, values)


def plain(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    """Return a result that depends on all operands, and is known where all of them are."""
    sets = functools.reduce(domain.table.union, [value.sets for value in values])
    known = np.logical_and.reduce([value.known() for value in values])
    kind = step.output
    if not known.any():
        return opened(sets, Type(sets.shape, kind.dtype))
    kinds = tuple(Type(sets.shape, own.dtype) for own in step.inputs)
    inner = step.like(step.name, kinds, [Type(sets.shape, kind.dtype)], **step.params)
    (numbers,) = evaluate(inner, [value.numbers for value in values])
    return Dependent(sets, np.where(known, np.int8(KNOWN), np.int8(OPEN)), np.where(known, numbers, FILLER))


def _cut(result: Dependent, where: Array, numbers: Array | float) -> Dependent:
    """Return a result that is a known number at some places."""
    if not where.any():
        return result
    known = np.broadcast_to(np.asarray(numbers, result.numbers.dtype), result.shape)
    return chosen(where, Dependent(np.zeros_like(result.sets), np.full_like(result.states, KNOWN), known), result)


def _is_open(value: Dependent) -> Array:
    return np.asarray(value.states != KNOWN)


def _product(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    x, y = values
    result = plain(domain, step, values)
    if step.output.is_float:
        result = _scaled(result, x, y)
        result = _scaled(result, y, x)
    zero = (x.equals(0) & _is_open(y)) | (y.equals(0) & _is_open(x))
    if zero.any() and step.output.is_float:
        domain.assume(FINITE)
    return _cut(result, zero, 0)


def _scaled(result: Dependent, mask: Dependent, factor: Dependent, *, divided: bool = False) -> Dependent:
    """Return a result that is low or high where a masked number is multiplied by a known one, and stays large."""
    masked = (mask.states >= LOW) & factor.known() & (factor.numbers != 0)
    if not masked.any():
        return result
    with np.errstate(all="ignore"):
        numbers = mask.numbers / factor.numbers if divided else mask.numbers * factor.numbers
    return _large(result, masked & np.isfinite(numbers), numbers)


def _large(result: Dependent, where: Array, numbers: Array) -> Dependent:
    """Return a result that is about a number at some places, where this is large enough."""
    low, high = where & (numbers <= -LARGE), where & (numbers >= LARGE)
    states = np.where(low, np.int8(LOW), np.where(high, np.int8(HIGH), result.states))
    return Dependent(result.sets, states, np.where(low | high, numbers, result.numbers))


def _quotient(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    x, y = values
    result = plain(domain, step, values)
    if not step.output.is_float:
        return result
    result = _scaled(result, x, y, divided=True)
    zero = x.equals(0) & _is_open(y)
    if zero.any():
        domain.assume(FINITE)
        domain.assume(NONZERO)
    return _cut(result, zero, 0)


def _sum(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    x, y = values
    return _added(domain, plain(domain, step, values), x, y) if step.output.is_float else plain(domain, step, values)


def _difference(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    x, y = values
    result = plain(domain, step, values)
    return _added(domain, result, x, _negated(y)) if step.output.is_float else result


def _negated(value: Dependent) -> Dependent:
    turned = np.array([OPEN, KNOWN, HIGH, LOW], np.int8)[value.states]
    return Dependent(value.sets, turned, -value.numbers)


def _negative(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    (x,) = values
    if not step.output.is_float:
        return plain(domain, step, values)
    turned = _negated(x)
    return Dependent(x.sets, turned.states, np.where(x.states == OPEN, FILLER, turned.numbers))


def _added(domain: NotingDomain, result: Dependent, x: Dependent, y: Dependent) -> Dependent:
    """Return a sum that is as large as a mask in it."""
    sizes, others = x.sizes(), y.sizes()
    some_open = _is_open(x) | _is_open(y)
    masked = some_open & (sizes * others >= 0) & (sizes + others != 0)
    if not masked.any():
        return result
    numbers = np.where(sizes != 0, x.numbers, 0.0) + np.where(others != 0, y.numbers, 0.0)
    domain.assume(MASKS, float(np.abs(numbers[masked]).min()))
    infinite = masked & np.isinf(numbers)
    if infinite.any():
        domain.assume(FINITE)
    return _large(_cut(result, infinite, numbers), masked & ~infinite, numbers)


def larger(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    """Return the larger of two: a mask loses against numbers of ordinary size."""
    x, y = values
    result = plain(domain, step, values)
    some_open = _is_open(x) | _is_open(y)
    if not step.output.is_float:
        if step.output.dtype.kind == "b":
            return _cut(result, x.equals(True) | y.equals(True), True)
        return result
    sizes, others = x.sizes(), y.sizes()
    first, second = some_open & (sizes > others), some_open & (others > sizes)
    if (first | second).any():
        apart = first | second
        weights = np.concatenate([x.numbers[apart & (sizes != 0)], y.numbers[apart & (others != 0)]])
        large = np.abs(weights)[np.abs(weights) >= LARGE]
        domain.assume(MASKS, float(large.min()) if large.size else np.inf)
        result = chosen(first, x, chosen(second, y, result))
    both = some_open & (sizes == others) & (sizes != 0)
    if both.any():
        result = _large(result, both, np.maximum(x.numbers, y.numbers))
    return result


def smaller(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    """Return the smaller of two."""
    if not step.output.is_float:
        result = plain(domain, step, values)
        both = [value.equals(False) for value in values]
        return _cut(result, both[0] | both[1], False) if step.output.dtype.kind == "b" else result
    negated = [_negated(value) for value in values]
    return _negated(larger(domain, step.like("max", step.inputs, step.outputs), negated))


def _conjunction(cutting: bool) -> Rule:
    """`and` and `or`, of which one operand alone may decide."""

    def rule(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
        x, y = values
        result = plain(domain, step, values)
        if step.output.dtype.kind != "b":
            return result if cutting else _cut(result, x.equals(0) | y.equals(0), 0)
        return _cut(result, x.equals(cutting) | y.equals(cutting), cutting)

    return rule


def _limits(low: float | None, high: float | None, least: float = LARGE) -> Rule:
    """A function of one number, with its values for numbers that are very negative or very large.

    Args:
        least: the magnitude from which on it has them, even where half of it is missing.
    """

    def rule(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
        (x,) = values
        result = plain(domain, step, values)
        for state, number in ((LOW, low), (HIGH, high)):
            if number is not None:
                result = _cut(result, (x.states == state) & (np.abs(x.numbers) >= least), number)
        return result

    return rule


def _kept(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    """A cast: a float stays as large as it is."""
    result = plain(domain, step, values)
    if step.output.is_float and step.inputs[0].is_float:
        result = _large(result, values[0].states >= LOW, values[0].numbers)
    return result


def _compared(decide: Callable[[Array, Array], Array], alike: bool) -> Rule:
    """A comparison, which is known where one side is a mask and the other is not.

    Args:
        alike: how a float compares with itself.
    """

    def rule(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
        x, y = values
        result = plain(domain, step, values)
        if not step.inputs[0].is_float:
            return result
        operands = getattr(step.equation, "invars", ())
        if step.name in ("eq", "ne") and len(operands) == 2 and len({*map(id, operands)}) == 1:
            domain.assume(FINITE)
            return _cut(result, _is_open(x), alike)
        sizes, others = x.sizes(), y.sizes()
        apart = (_is_open(x) | _is_open(y)) & (sizes != others)
        if not apart.any():
            return result
        large = np.abs(np.concatenate([x.numbers[apart & (sizes != 0)], y.numbers[apart & (others != 0)]]))
        if np.isfinite(large).any():
            domain.assume(MASKS, float(large.min()))
        else:
            domain.assume(FINITE)
        return _cut(result, apart, decide(sizes, others))

    return rule


def _finite(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    (x,) = values
    if _is_open(x).any():
        domain.assume(FINITE)
    return _cut(plain(domain, step, values), _is_open(x), True)


def select(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    """Return the case that each predicate chooses; where it is open, all cases and the predicate."""
    which, *cases = values
    result = cases[0]
    for number, case in enumerate(cases[1:], 1):
        result = chosen(which.known() & (which.numbers == number), case, result)
    if which.known().all():
        return result
    sets = functools.reduce(domain.table.union, [case.sets for case in cases], which.sets)
    same = np.logical_and.reduce([case.known() & (case.numbers == cases[0].numbers) for case in cases])
    undecided = Dependent(
        np.where(same, 0, sets),
        np.where(same, np.int8(KNOWN), np.int8(OPEN)),
        np.where(same, cases[0].numbers, cases[0].numbers.dtype.type(FILLER)),
    )
    return chosen(which.known(), result, undecided)


def _clamped(domain: NotingDomain, step: Step, values: Sequence[Dependent]) -> Dependent:
    low, x, high = values
    kinds = [Type(x.shape, step.output.dtype)]
    inner = step.like("max", kinds * 2, kinds)
    raised = larger(domain, inner, [low, x])
    return smaller(domain, step.like("min", kinds * 2, kinds), [raised, high])


RULES: dict[str, Rule] = {
    "add": _sum,
    "add_any": _sum,
    "and": _conjunction(cutting=False),
    "clamp": _clamped,
    "convert_element_type": _kept,
    "div": _quotient,
    "eq": _compared(np.equal, alike=True),
    "exp": _limits(0.0, None),
    "exp2": _limits(0.0, None, 2200.0),  # 2^-1075 is 0 in float64
    "expm1": _limits(-1.0, None),
    "ge": _compared(np.greater_equal, alike=True),
    "gt": _compared(np.greater, alike=False),
    "is_finite": _finite,
    "le": _compared(np.less_equal, alike=True),
    "logistic": _limits(0.0, 1.0),
    "lt": _compared(np.less, alike=False),
    "max": larger,
    "min": smaller,
    "mul": _product,
    "ne": _compared(np.not_equal, alike=False),
    "neg": _negative,
    "or": _conjunction(cutting=True),
    "reduce_precision": _kept,
    "sign": _limits(-1.0, 1.0),
    "sub": _difference,
    "tanh": _limits(-1.0, 1.0),
}
"""By primitive, its rule; all others depend on all their operands."""
