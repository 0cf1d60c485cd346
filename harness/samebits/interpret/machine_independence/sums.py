"""Sums and products of matrices of numbers that do not depend on the machine: exact in any order, or lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from samebits.interpret import dot_general as contractions
from samebits.interpret import windows
from samebits.interpret.equation import Array, Step
from samebits.interpret.machine_independence.state import (
    EXACT,
    LOST,
    RAW,
    ROUNDED,
    IndependenceState,
    built,
    fits,
    lost,
    ordinary,
    total,
)


def reduce_sum(step: Step, x: IndependenceState) -> IndependenceState:
    """Sums over axes."""
    axes = tuple(step.params["axes"])
    plus = np.any((x.value == 0) & ~np.signbit(x.value), axis=axes)
    return total(step, step.output, x, lambda a: a.sum(axes), lambda a: a.min(axes, initial=np.inf), plus)


def cumsum(step: Step, x: IndependenceState) -> IndependenceState:
    """Running sums: that of the first element, of the first two, and so on."""
    axis, reverse = step.params["axis"], step.params["reverse"]

    def running(function: Any) -> Callable[[Array], Array]:
        def of(a: Array) -> Array:
            return np.flip(function(np.flip(a, axis), axis=axis), axis) if reverse else function(a, axis=axis)

        return of

    add, least = running(np.cumsum), running(np.minimum.accumulate)
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
