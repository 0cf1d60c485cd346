"""The abstract domain of machine independence; `state` has the states of its values and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import dot_general as contractions
from samebits.interpret import windows
from samebits.interpret.arrays import ARITHMETIC, evaluate, running, to_integers
from samebits.interpret.data_movement import Move, owned
from samebits.interpret.dot_general import is_short, only_here
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.rules import format_of
from samebits.interpret.sorting import ORDERED

# Numbers whose bits do not depend on the machine: the state of each element, and which arithmetic preserves it.
RAW, EXACT, ROUNDED, LOST = range(4)

_BINARY = ("add", "add_any", "sub")


@dataclass(frozen=True, slots=True)
class IndependenceState:
    """A symbolic value.

    Args:
        value: float64, the number; in the states but `LOST` it is the number that every machine has.
        reach: float64, the sum of the absolute values of its terms.
        quantum: float64, a power of two of which all terms are multiples; infinite where all are zero.
        constant: whether the compiler may know its elements.
        why: where the first of its elements was lost, in words.
    """

    value: Array
    state: Array
    reach: Array
    quantum: Array
    constant: bool = False
    why: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.value.shape

    @property
    def fields(self) -> tuple[Array, Array, Array, Array]:
        """What is kept per element."""
        return self.value, self.state, self.reach, self.quantum

    def each(self, change: Any) -> IndependenceState:
        """The same with all fields moved alike."""
        return replace(self, **dict(zip(("value", "state", "reach", "quantum"), map(change, self.fields), strict=True)))

    @property
    def is_lost(self) -> bool:
        """Whether a machine may have other bits in some element."""
        return bool(np.any(self.state == LOST))


def built(fields: Sequence[Array], constant: bool, why: str | None = None) -> IndependenceState:
    """A value from what is kept per element, in the order of `IndependenceState.fields`."""
    value, state, reach, quantum = fields
    return IndependenceState(value, state, reach, quantum, constant, why)


def raw(value: Array, constant: bool = False) -> IndependenceState:
    """Numbers as they are."""
    value = np.asarray(value, np.float64)
    reach = np.where(np.isnan(value), np.inf, np.abs(value))
    return IndependenceState(value, np.full(value.shape, RAW, np.int8), reach, quantum_of(value), constant)


def lost(value: Array, why: str) -> IndependenceState:
    """Numbers that another machine may have otherwise."""
    value = np.asarray(value, np.float64)
    return replace(raw(value), state=np.full(value.shape, LOST, np.int8), why=why)


def quantum_of(value: Array) -> Array:
    """The largest power of two of which a number is a multiple; infinite for zero and what is not finite."""
    mantissa, exponent = np.frexp(value)
    whole = np.where(np.isfinite(mantissa), np.ldexp(np.where(np.isfinite(mantissa), mantissa, 0), 53), 0)
    lowest = whole.astype(np.int64) & -whole.astype(np.int64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.where(lowest == 0, np.inf, np.ldexp(lowest.astype(np.float64), exponent - 53))


def fits(reach: Array, quantum: Array, kind: Type) -> Array:
    """Whether a format holds every multiple of a quantum up to a reach, without overflow or subnormal numbers."""
    form = format_of(kind.dtype)
    with np.errstate(all="ignore"):
        is_exact = (reach <= quantum * 2.0**form.digits) & (reach <= form.largest) & (quantum >= form.tiny)
    return np.asarray((reach == 0) | is_exact)


def ordinary(value: Array, kind: Type) -> Array:
    """Whether numbers are zero or normal numbers of a format."""
    form = format_of(kind.dtype)
    return np.asarray((value == 0) | ((np.abs(value) >= form.tiny) & (np.abs(value) <= form.largest)))


def total(step: Step, kind: Type, terms: IndependenceState, add: Any, least: Any, zeros: Array) -> IndependenceState:
    """Sums of any number of terms each, in any order.

    Args:
        add: adds up an array of one number per term; `least` takes the smallest of each sum.
        zeros: which sums have a +0.0 among their terms that no compiler leaves out.

    Returns:
        `EXACT` where no order rounds; the one term that is not zero, as it is; two `RAW` terms rounded once.
    """
    nonzero = terms.reach > 0
    count = add(nonzero.astype(np.float64))
    states = [add((nonzero & (terms.state == state)).astype(np.float64)) for state in (RAW, EXACT, ROUNDED, LOST)]
    with np.errstate(over="ignore", invalid="ignore"):  # a sum that overflows, or of infinities, is lost below
        reach, quantum = add(terms.reach), least(terms.quantum)
        value = _rounded(add(np.where(nonzero, terms.value, 0.0)), kind)
    exact = (states[ROUNDED] == 0) & fits(reach, quantum, kind)
    alone = count == 1
    state = np.where(exact, np.where(alone & (states[RAW] == 1), RAW, EXACT), LOST)
    whole = ordinary(value, kind) & (
        least(np.where(nonzero, np.abs(terms.value), np.inf)) >= format_of(kind.dtype).tiny
    )
    once = (alone & (states[ROUNDED] == 1)) | ((count == 2) & (states[RAW] == 2))
    state = np.where(~exact & once & whole, ROUNDED, state)
    negative = add((~nonzero & np.signbit(terms.value)).astype(np.float64)) > 0
    state = np.where((count == 0) & negative & ~zeros, LOST, state)
    gone = add((terms.state == LOST).astype(np.float64)) > 0  # a LOST zero may not be one
    state = np.where(gone | ~np.isfinite(value), LOST, state).astype(np.int8)
    chosen = (
        "may be contracted with a product before it, or reassociated"
        if step.name in _BINARY
        else "has no fixed order of adding"
    )
    why = terms.why if gone.any() else f"{step} {chosen}"
    return IndependenceState(value, state, reach, quantum, terms.constant, why if np.any(state == LOST) else None)


def once(
    step: Step, kind: Type, value: Array, operands: Sequence[IndependenceState], why: str | None = None
) -> IndependenceState:
    """The result of one correctly rounded operation; `ROUNDED` of `RAW` operands, else lost.

    Args:
        why: why a result may not be that of the operation, in words.
    """
    value = _rounded(value, kind)
    good = ordinary(value, kind)
    for operand, operand_kind in zip(operands, step.inputs, strict=True):
        good = good & (operand.state == RAW) & ordinary(operand.value, operand_kind)
    state = np.where(good & (why is None), ROUNDED, LOST).astype(np.int8)
    why = (
        why
        or next((operand.why for operand in operands if operand.why), None)
        or f"{step} rounds what was computed before"
    )
    result = replace(raw(value, all(operand.constant for operand in operands)), state=state)
    return replace(result, why=why if result.is_lost else None)


def either(where: Array, first: IndependenceState, second: IndependenceState) -> IndependenceState:
    """Elements of one value where a condition holds, else of another."""
    fields = [np.where(where, left, right) for left, right in zip(first.fields, second.fields, strict=True)]
    result = built(fields, first.constant and second.constant)
    return replace(result, why=(first.why or second.why) if result.is_lost else None)


def _rounded(value: Array, kind: Type) -> Array:
    """A float64 number rounded to a format; of one operation on its numbers that is the correctly rounded result.

    The second rounding changes nothing, as float64 has twice the digits of float32 and two more.
    """
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(kind.dtype).astype(np.float64)


class _Everything(frozenset[str]):
    """Every primitive is covered: what has no rule is lost, and does not end the interpretation."""

    def __contains__(self, name: object) -> bool:
        return True


_COMPARING = ("eq", "ne", "lt", "le", "gt", "ge", "is_finite")


class IndependenceDomain:
    """The domain of `IndependenceState` values.

    Args:
        platform: where the programs run, which decides whether products of matrices keep float32; None for a CPU.
    """

    name = "settled"
    keeps_constants = False
    covers: frozenset[str] = _Everything()

    def __init__(self, platform: str | None = None) -> None:
        self._platform = platform
        self.products = 0  # of floats that other platforms would shorten

    def lift(self, array: Array, kind: Type) -> IndependenceState:
        """A constant of the program."""
        return raw(np.asarray(array).astype(np.float64), constant=True)

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> IndependenceState:
        """All fields move with their elements."""
        states = [_symbolic(value) for value in values]
        fields = [owned(move(field)) for field in zip(*(v.fields for v in states), strict=True)]
        moved = built(fields, any(value.constant for value in states))
        return replace(moved, why=next((value.why for value in states if value.why), None) if moved.is_lost else None)

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """The numbers themselves, where every machine has them."""
        return self.concrete(step, value)

    def concrete(self, step: Step, value: Any) -> Array:
        """The numbers of a value that decides or addresses."""
        if isinstance(value, IndependenceState):
            if np.any((value.state == LOST) | (value.state == ROUNDED)):
                raise NotCovered(f"{step} decides by numbers that depend on the machine: {value.why or 'rounded ones'}")
            return value.value
        return np.asarray(value)

    def same(self, first: Any, second: Any) -> bool:
        """Equal, or as far apart as two orders of adding."""
        left, right = _symbolic(first), _symbolic(second)
        return bool(np.allclose(left.value, right.value, rtol=1e-12, atol=0, equal_nan=True))

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """One equation; the outputs of what has no rule are lost."""
        states = [_symbolic(value) for value in values]
        if step.name in RULES and not step.is_plain:
            if step.name == "dot_general" and all(kind.is_float for kind in step.inputs):
                long = [kind for kind, operand in zip(step.inputs, states, strict=True) if not _is_short(operand)]
                self.products += any(only_here(step, kind, self._platform) for kind in long)
            return [RULES[step.name](step, *states)]
        if step.name in ORDERED and not any(operand.is_lost or np.any(operand.state == ROUNDED) for operand in states):
            ties = step.name not in ("sort", "argmax", "argmin", "top_k") and any(_zeros(operand) for operand in states)
            if not ties:
                return ORDERED[step.name](self, step, values)
        if step.name in _COMPARING and not any(np.any(operand.state >= ROUNDED) for operand in states):
            return evaluate(step, [operand.value for operand in states])
        return _without_rule(step, states)


def _symbolic(value: Any) -> IndependenceState:
    """A value in this domain; integers and booleans may be known to the compiler."""
    return value if isinstance(value, IndependenceState) else raw(np.asarray(value).astype(np.float64), constant=True)


def _without_rule(step: Step, operands: Sequence[IndependenceState], why: str | None = None) -> list[IndependenceState]:
    """Lost outputs, with the values of float64 where these are known."""
    why = next((operand.why for operand in operands if operand.why), why) or f"{step} is not rounded alike everywhere"
    try:
        values: Sequence[Array] = evaluate(
            step, [_typed(operand, kind) for operand, kind in zip(operands, step.inputs, strict=True)]
        )
    except Exception:  # no rule, or numbers that it does not take: nothing is said of the value but its shape
        values = [np.full(kind.shape, np.nan) for kind in step.outputs]
    return [lost(np.asarray(value).astype(np.float64), why) for value in values]


def _typed(operand: IndependenceState, kind: Type) -> Array:
    """The numbers in their own dtype; of an integer that is lost and unknown, what XLA makes of such a float."""
    if kind.is_float:
        return operand.value
    return operand.value != 0 if kind.dtype.kind == "b" else to_integers(operand.value, kind.dtype)


def _is_short(operand: IndependenceState) -> bool:
    """Whether bfloat16 holds every number that a machine may have here, as after a cast from it."""
    return not np.any(operand.state >= ROUNDED) and is_short(operand.value)


def _zeros(operand: IndependenceState) -> bool:
    """Whether -0.0 is among elements, so that a machine may take it or 0.0 for the larger."""
    return bool(np.any((operand.value == 0) & np.signbit(operand.value)))


# -- one element at a time


def _spread(step: Step, *operands: IndependenceState) -> list[IndependenceState]:
    return [operand.each(lambda field: np.broadcast_to(field, step.output.shape)) for operand in operands]


def _add(step: Step, first: IndependenceState, second: IndependenceState, sign: int = 1) -> IndependenceState:
    first, second = _spread(step, first, second if sign > 0 else _neg(step, second))
    fields = [np.stack(pair) for pair in zip(first.fields, second.fields, strict=True)]
    terms = built(fields, first.constant and second.constant, first.why or second.why)
    both = (first.value == 0) & (second.value == 0)
    plus = both & (np.signbit(first.value) == np.signbit(second.value))  # of equal signs the sign is clear
    sums = total(step, step.output, terms, lambda x: x.sum(0), lambda x: x.min(0), plus)
    return replace(sums, value=np.where(plus, first.value, sums.value))


def _mul(step: Step, first: IndependenceState, second: IndependenceState) -> IndependenceState:
    first, second = _spread(step, first, second)
    with np.errstate(all="ignore"):
        value, reach, quantum = first.value * second.value, first.reach * second.reach, first.quantum * second.quantum
    reach, quantum = np.where(value == 0, 0.0, reach), np.where(value == 0, np.inf, quantum)
    known = (first.state <= EXACT) & (second.state <= EXACT) & np.isfinite(value)
    result = once(step, step.output, value, (first, second))
    exact = IndependenceState(value, np.full(value.shape, EXACT, np.int8), reach, quantum, result.constant)
    result = either(known & fits(reach, quantum, step.output), exact, result)
    for factor, other in ((first, second), (second, first)):
        size = np.abs(other.value)
        plain = (other.state <= EXACT) & (size == 1) & (factor.state < LOST)
        result = either(plain, replace(factor.each(np.array), value=value), result)
        scaled = (
            (other.state == RAW) & (np.frexp(size)[0] == 0.5) & (factor.state == ROUNDED) & ordinary(value, step.output)
        )
        nothing = (other.value == 0) & (other.state <= EXACT) & (factor.state < LOST) & np.isfinite(factor.value)
        result = either(nothing, raw(value), result)
        result = either(scaled, replace(raw(value), state=np.full(value.shape, ROUNDED, np.int8)), result)
    return replace(result, constant=first.constant and second.constant)


def _div(step: Step, first: IndependenceState, second: IndependenceState) -> IndependenceState:
    first, second = _spread(step, first, second)
    with np.errstate(all="ignore"):
        value, inverse = first.value / second.value, 1 / second.value
    power = (np.abs(np.frexp(second.value)[0]) == 0.5) & (second.state == RAW)
    scaled = _mul(step, first, raw(np.where(power, inverse, 0.0), second.constant))
    why = f"{step} divides by a constant, and may multiply by its rounded reciprocal" if second.constant else None
    return either(power, scaled, once(step, step.output, value, (first, second), why))


def _neg(step: Step, x: IndependenceState) -> IndependenceState:
    return replace(x, value=-x.value)


def _extreme(sign: int) -> Callable[..., IndependenceState]:
    def rule(step: Step, first: IndependenceState, second: IndependenceState) -> IndependenceState:
        first, second = _spread(step, first, second)
        result = either(sign * first.value >= sign * second.value, first, second)
        zeros = (first.value == 0) & (second.value == 0) & (np.signbit(first.value) != np.signbit(second.value))
        bad = zeros | np.isnan(first.value) | np.isnan(second.value) | (np.maximum(first.state, second.state) == LOST)
        why = first.why or second.why or f"{step} chooses between 0.0 and -0.0, or NaNs"
        return either(bad, lost(result.value, why), result)

    return rule


def _to_integer(step: Step, x: IndependenceState) -> IndependenceState:
    """floor, ceil, round and sign: the integer is a number of its own."""
    (value,) = evaluate(step, [x.value])
    return either(
        (x.state <= EXACT) & np.isfinite(value), raw(value), lost(value, x.why or f"{step} of a rounded number")
    )


def _power(step: Step, x: IndependenceState) -> IndependenceState:
    exponent = 2 if step.name == "square" else step.params["y"]
    if exponent == 2:
        return _mul(step.like("mul", [*step.inputs] * 2, step.outputs), x, x)
    if exponent == 1:
        return x
    if exponent < 1:
        return _without_rule(step, [x])[0]
    with np.errstate(all="ignore"):
        reach, quantum = x.reach**exponent, x.quantum**exponent
    (value,) = evaluate(step, [x.value])
    exact = IndependenceState(value, np.full(value.shape, EXACT, np.int8), reach, quantum, x.constant)
    good = (x.state <= EXACT) & fits(reach, quantum, step.output)
    return either(good, exact, lost(value, x.why or f"{step} may be multiplied in another order"))


def _sqrt(step: Step, x: IndependenceState) -> IndependenceState:
    with np.errstate(all="ignore"):
        value = np.sqrt(x.value)
    return once(step, step.output, value, (x,))


def _fits_integers(value: Array, kind: Type) -> Array:
    """Which numbers every machine converts alike: to booleans all, to integers those well inside of their range."""
    if kind.dtype.kind == "b":
        return np.full(value.shape, True)
    info = ml_dtypes.iinfo(kind.dtype)  # of int4 too
    return (np.abs(value) < 2.0 ** (info.bits - 1)) & ((value >= 0) | (info.min < 0))


def _convert(step: Step, x: IndependenceState) -> Any:
    origin, target = step.inputs[0], step.output
    if not target.is_float:
        inside = _fits_integers(x.value, target)
        if np.all((x.state <= EXACT) & inside):
            return evaluate(step, [_typed(x, origin)])[0]
        why = None if np.all(inside) else f"{step} meets NaN or a number out of the range of {target.dtype.name}"
        return _without_rule(step, [x], why)[0]
    if target.dtype == origin.dtype:
        return x
    with np.errstate(all="ignore"):
        value = x.value.astype(target.dtype).astype(np.float64)
    whole = ordinary(value, target) & (origin.is_float | (np.abs(x.value) < 2.0**53))
    same = whole & (value == x.value)
    shorter = not origin.is_float or target.dtype.itemsize < origin.dtype.itemsize
    narrowed = replace(raw(value, x.constant), state=np.full(value.shape, ROUNDED, np.int8))
    good = (x.state < LOST) & whole & shorter
    why = x.why or f"{step} may be left out, and the number kept in the wider format"
    return either((x.state <= EXACT) & same, replace(x, value=value), either(good, narrowed, lost(value, why)))


def _reduce_precision(step: Step, x: IndependenceState) -> IndependenceState:
    digits = step.params["mantissa_bits"] + 1
    mantissa, exponent = np.frexp(x.value)
    value = np.ldexp(np.round(np.ldexp(mantissa, digits)), exponent - digits)
    wide = step.params["exponent_bits"] >= 8
    narrowed = replace(raw(value, x.constant), state=np.full(value.shape, ROUNDED, np.int8))
    good = (x.state < LOST) & ordinary(value, step.output) & wide
    kept = either((x.state <= EXACT) & (value == x.value) & wide, x, narrowed)
    return either(good, kept, lost(value, x.why or f"{step} meets numbers out of its range"))


def reduce_sum(step: Step, x: IndependenceState) -> IndependenceState:
    """Sums over axes."""
    axes = tuple(step.params["axes"])
    plus = np.any((x.value == 0) & ~np.signbit(x.value), axis=axes)
    return total(step, step.output, x, lambda a: a.sum(axes), lambda a: a.min(axes, initial=np.inf), plus)


def cumsum(step: Step, x: IndependenceState) -> IndependenceState:
    """Running sums: that of the first element, of the first two, and so on."""
    add, least = (partial(running(function), step) for function in (np.cumsum, np.minimum.accumulate))
    return total(step, step.output, x, add, least, add(((x.value == 0) & ~np.signbit(x.value)).astype(float)) > 0)


def scatter_add(
    step: Step, operand: IndependenceState, indices: IndependenceState, updates: IndependenceState
) -> IndependenceState:
    """Sums at the places that an index names."""
    if np.any(indices.state >= ROUNDED):
        return lost(operand.value, f"{step} adds where an index says that depends on the machine")
    targets, inside = windows.of_scatter(step, indices.value.astype(np.int64))
    count = operand.value.size
    at = np.concatenate([np.arange(count), targets[inside]])
    fields = [np.concatenate([a.reshape(-1), b[inside]]) for a, b in zip(operand.fields, updates.fields, strict=True)]
    terms = built(fields, operand.constant and updates.constant, operand.why or updates.why)

    def gathered(function: Any, start: float) -> Callable[[Array], Array]:
        def of(a: Array) -> Array:
            sums = np.full(count, start)
            function.at(sums, at, a)
            return sums.reshape(step.output.shape)

        return of

    add, least = gathered(np.add, 0.0), gathered(np.minimum, np.inf)
    added = terms.value.copy()
    added[:count] = 1.0  # the compiler may leave out the zeros to which is added
    return total(step, step.output, terms, add, least, add(((added == 0) & ~np.signbit(added)).astype(float)) > 0)


def dot_general(step: Step, left: IndependenceState, right: IndependenceState) -> IndependenceState:
    """Sums of products: exact in any order, or one single product with a one, or nothing but zeros."""
    forms = [contractions.matrix_form(step, *pair) for pair in zip(left.fields, right.fields, strict=True)]
    (va, vb), (sa, sb), (ra, rb), (qa, qb) = [(a, b) for a, b, _ in forms]
    finish = forms[0][2]
    with np.errstate(all="ignore"):
        value, reach = va @ vb, ra @ rb
        nonzero = [(ra > 0).astype(float), (rb > 0).astype(float)]
        count = nonzero[0] @ nonzero[1]
        power = [np.where(np.isfinite(q), np.frexp(q)[1] - 1.0, 0.0) for q in (qa, qb)]
        powers = np.where(count == 1, power[0] @ nonzero[1] + nonzero[0] @ power[1], 0)
        alone = np.ldexp(1.0, powers.astype(np.int64))  # of the only product that is not zero
        lowest = np.min(qa, -1, initial=np.inf)[..., :, None] * np.min(qb, -2, initial=np.inf)[..., None, :]
    quantum = np.where(count == 0, np.inf, np.where(count == 1, alone, lowest))
    known = ~(np.any(sa >= ROUNDED, -1)[..., :, None] | np.any(sb >= ROUNDED, -2)[..., None, :])
    state = np.where(known & fits(reach, quantum, step.output), EXACT, LOST)
    gone = np.any(sa == LOST, -1)[..., :, None] | np.any(sb == LOST, -2)[..., None, :]
    for kept in (ROUNDED, RAW):  # one element times a one, and nothing but zeros beside it: it stays what it is
        ones = ((np.abs(va) == 1) & (sa == RAW)).astype(float) @ ((vb != 0) & (sb == kept)).astype(float)
        ones = ones + ((va != 0) & (sa == kept)).astype(float) @ ((np.abs(vb) == 1) & (sb == RAW)).astype(float)
        state = np.where((count == 1) & (ones > 0) & ~gone & ordinary(value, step.output), kept, state)
    signs = [np.signbit(v).astype(float) for v in (va, vb)]
    negative = signs[0] @ (1 - signs[1]) + (1 - signs[0]) @ signs[1]
    state = np.where((count == 0) & (negative == va.shape[-1]) & (negative > 0), LOST, state)
    state = np.where(gone | ~np.isfinite(value), LOST, state).astype(np.int8)
    why = left.why or right.why or f"{step} has no fixed order of adding"
    fields = [finish(field) for field in (value, state, reach, quantum)]
    result = built(fields, left.constant and right.constant)
    return replace(result, why=why if result.is_lost else None)


RULES: dict[str, Callable[..., Any]] = {
    "abs": lambda step, x: replace(x, value=np.abs(x.value)),
    "add": _add,
    "add_any": _add,
    "ceil": _to_integer,
    "clamp": lambda step, low, x, high: _extreme(-1)(step, _extreme(1)(step, x, low), high),
    "convert_element_type": _convert,
    "cumsum": cumsum,
    "div": _div,
    "dot_general": dot_general,
    "floor": _to_integer,
    "integer_pow": _power,
    "iota": lambda step: raw(ARITHMETIC["iota"](step), constant=True),
    "max": _extreme(1),
    "min": _extreme(-1),
    "mul": _mul,
    "neg": _neg,
    "reduce_precision": _reduce_precision,
    "reduce_sum": reduce_sum,
    "round": _to_integer,
    "scatter-add": scatter_add,
    "sign": _to_integer,
    "sqrt": _sqrt,
    "square": _power,
    "sub": lambda step, x, y: _add(step, x, y, -1),
}


# Whether bits that are equal here are equal on every machine: each side's own bits do not depend on the machine.
@dataclass(frozen=True, slots=True)
class Independence:
    """Whether both sides have the same bits of one output on every machine, and how, or where that ends, in words."""

    holds: bool
    how: str


def independence(question: Question) -> dict[str, Independence]:
    """Interpret both sides at the inputs of a question.

    That equal bits of sides that do not depend on the machine are equal everywhere needs no proof about the two
    programs together: each is determined by its inputs alone.
    """
    sides, products = [], False
    for program in question.sides:
        domain = IndependenceDomain(question.platform)
        args = [_argument(argument.values) for argument in question.inputs]
        sides.append(Interpreter(domain, question.platform)(program, *args))
        products = products or domain.products > 0
    proofs = {}
    for name, outputs in zip(question.outputs, zip(*sides, strict=True), strict=True):
        gone = next((output for output in outputs if isinstance(output, IndependenceState) and output.is_lost), None)
        if gone is not None:
            proofs[name] = Independence(False, gone.why or "its numbers depend on the machine")
        else:
            rests = "; products of matrices keep float32, as on a CPU" if products else ""
            proofs[name] = Independence(True, _words(outputs) + rests)
    return proofs


def _argument(values: Any) -> Any:
    array = np.asarray(values)
    return array if array.dtype.kind in "iub" else raw(array.astype(np.float64))


def _words(outputs: Sequence[Any]) -> str:
    """How the elements of an output come about, the weakest reason last."""
    states = set()
    for output in outputs:
        states |= set(np.unique(output.state).tolist()) if isinstance(output, IndependenceState) else {"integers"}
    words = ["integers and comparisons of inputs"] if states == {"integers"} else []
    if EXACT in states:
        words.append("sums and products that are exact in any order at these inputs")
    if ROUNDED in states:
        words.append("one correctly rounded operation per element")
    return " and ".join(words) or "elements of the inputs, moved"


def independence_at_all_inputs(questions: Sequence[Question]) -> dict[str, Independence]:
    """The same at several inputs: it holds where it holds at each."""
    proofs: dict[str, Independence] = {}
    for question in questions:
        for name, proof in independence(question).items():
            if name not in proofs or proofs[name].holds:
                proofs[name] = proof
    return proofs
