"""Numbers whose bits do not depend on the machine: the state of each element, and which arithmetic preserves it.

An element is in one of four states.

- `RAW`: an element of an input or a constant, moved, negated, chosen, or cast without loss.
- `EXACT`: the result of arithmetic that rounded nothing, and could not have in any order. Beside the number go its
  *quantum*, a power of two of which every term that went into it is a multiple, and its *reach*, the sum of the
  absolute values of those terms. Every number that a compiler can form from the terms, by reassociating, distributing,
  contracting a product and a sum, adding in parts on several devices or in a wider format, is a multiple of the
  quantum and at most the reach. Where reach / quantum is at most 2^digits of the format, all of them are
  representable, so no order rounds anything.
- `ROUNDED`: the result of one single correctly rounded operation (IEEE 754) on `RAW` elements, and of nothing else that
  rounds: there is nothing to reassociate or to contract it with. It may be moved, negated, chosen and rounded to a
  narrower format; a second operation ends it.
- `LOST`: anything else. A product that feeds a sum may be contracted (one rounding instead of two); a sum of three
  terms may be added in another order; exp, tanh, log, rsqrt and pow are approximated as each library does; a division
  by a constant may become a product with its rounded reciprocal; a bfloat16 result that is cast to float32 may be kept
  in float32 (`xla_allow_excess_precision`); subnormal numbers may be flushed; of NaNs only one payload survives; and
  of a sum of zeros with both signs the sign is that of whichever is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.rounding_error.rules import format_of

RAW, EXACT, ROUNDED, LOST = range(4)

_BINARY = ("add", "add_any", "sub")


@dataclass(frozen=True, slots=True)
class IndependenceState:
    """A symbolic value.

    Args:
        value: float64, the number; in the states but `LOST` it is the number that every machine has.
        state: per element.
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
        step: the equation, to be named.
        kind: the format in which is added up.
        terms: all terms.
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
        step: the equation, to be named.
        kind: the format of the result.
        value: the results in float64.
        operands: what they are computed from.
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
