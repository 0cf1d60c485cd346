"""Primitives that select by comparing: elements move to the positions that the order of their ranks gives.

A domain gives ranks (`AbstractDomain.ranks`); where two elements are too close to be ranked, it raises `NotCovered` or
`NearTie`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.data_movement import by_index
from samebits.interpret.domain import AbstractDomain, Value
from samebits.interpret.equation import Array, Step, Type


def _take(domain: AbstractDomain, value: Value, index: Array, kind: Type) -> Value:
    move = by_index(index)
    return np.asarray(move([value])) if isinstance(value, np.ndarray) else domain.moved([value], move, kind)


def _ids(kind: Type) -> Array:
    return np.arange(math.prod(kind.shape)).reshape(kind.shape)


def _ranks(domain: AbstractDomain, step: Step, value: Value, axis: int) -> Array:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biu":
        return np.unique(value, return_inverse=True)[1].reshape(value.shape)  # small, so that each has a negative
    return domain.ranks(step, value, axis)


def _sort(domain: AbstractDomain, step: Step, values: Sequence[Value]) -> list[Value]:
    axis, keys = step.params["dimension"], step.params["num_keys"]
    ranks = [_ranks(domain, step, value, axis) for value in values[:keys]]
    order = np.lexsort(ranks[::-1], axis)  # stable; its last key counts first
    if not step.params["is_stable"] and len(values) > keys:
        _refuse_ties(step, [np.take_along_axis(np.asarray(rank), order, axis) for rank in ranks], axis)
    return [
        _take(domain, value, np.take_along_axis(_ids(kind), order, axis), kind)
        for value, kind in zip(values, step.inputs, strict=True)
    ]


def _refuse_ties(step: Step, ranks: Sequence[Array], axis: int) -> None:
    """Raise for a sort that may put the values of equal keys into any order."""
    same = [np.diff(rank, axis=axis) == 0 for rank in ranks]
    if np.any(np.logical_and.reduce(same)):
        raise NotCovered(f"{step} is not stable, and keys are equal: the order of what goes with them is not fixed")


def _top_k(domain: AbstractDomain, step: Step, values: Sequence[Value]) -> list[Value]:
    axis = step.params.get("axis", -1) % len(step.inputs[0].shape)
    ranks = np.asarray(_ranks(domain, step, values[0], axis))
    # NaN first, 0.0 before -0.0, and of equal elements the first: so sort by the negative, stably.
    order = np.lexsort((np.signbit(ranks), -ranks, ~np.isnan(ranks)), axis)
    order = np.take(order, np.arange(step.params["k"]), axis)
    index = np.take_along_axis(_ids(step.inputs[0]), order, axis)
    return [_take(domain, values[0], index, step.outputs[0]), order.astype(step.outputs[1].dtype)]


def _extreme_index(sign: int) -> Callable[[AbstractDomain, Step, Sequence[Value]], list[Value]]:
    def rule(domain: AbstractDomain, step: Step, values: Sequence[Value]) -> list[Value]:
        (axis,) = step.params["axes"]
        ranks = _ranks(domain, step, values[0], axis)
        return [np.asarray(np.argmax(sign * np.asarray(ranks), axis), step.output.dtype)]

    return rule


def _extreme(sign: int) -> Callable[[AbstractDomain, Step, Sequence[Value]], list[Value]]:
    """The largest or smallest over axes, which are folded into one first."""

    def rule(domain: AbstractDomain, step: Step, values: Sequence[Value]) -> list[Value]:
        kind, axes = step.inputs[0], tuple(step.params["axes"])
        kept = [dim for dim in range(len(kind.shape)) if dim not in axes]
        if not math.prod(kind.shape):
            raise NotCovered(f"{step} looks for the best of nothing")
        ids = _ids(kind).transpose([*kept, *axes]).reshape([*(kind.shape[dim] for dim in kept), -1])
        rows = values[0]
        if ids.shape != kind.shape or axes != (len(kept),):  # else they lie in rows already
            rows = _take(domain, rows, ids, Type(ids.shape, kind.dtype))
        ranks = np.asarray(_ranks(domain, step, rows, len(kept)))
        best = (np.argmax if sign > 0 else np.argmin)(ranks, -1)
        return [_take(domain, values[0], np.take_along_axis(ids, best[..., None], -1)[..., 0], step.output)]

    return rule


def _running(sign: int) -> Callable[[AbstractDomain, Step, Sequence[Value]], list[Value]]:
    def rule(domain: AbstractDomain, step: Step, values: Sequence[Value]) -> list[Value]:
        axis, kind = step.params["axis"], step.inputs[0]
        ids = _ids(kind)
        ranks = sign * np.asarray(_ranks(domain, step, values[0], axis))
        if step.params["reverse"]:
            ids, ranks = np.flip(ids, axis), np.flip(ranks, axis)
        best = np.maximum.accumulate(ranks, axis)
        length = np.arange(kind.shape[axis]).reshape([-1 if dim == axis else 1 for dim in range(len(kind.shape))])
        at = np.maximum.accumulate(np.where((ranks == best) | np.isnan(ranks), length, 0), axis)
        index = np.take_along_axis(ids, at, axis)
        return [_take(domain, values[0], np.flip(index, axis) if step.params["reverse"] else index, kind)]

    return rule


ORDERED: dict[str, Callable[[Any, Step, Sequence[Value]], list[Value]]] = {
    "argmax": _extreme_index(1),
    "argmin": _extreme_index(-1),
    "cummax": _running(1),
    "cummin": _running(-1),
    "reduce_max": _extreme(1),
    "reduce_min": _extreme(-1),
    "sort": _sort,
    "top_k": _top_k,
}
