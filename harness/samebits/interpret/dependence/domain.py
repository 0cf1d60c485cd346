"""The domain of dependence: one interpretation gives, for every element of every output, the inputs that it may read.

An element is known, so that it depends on nothing, or it has a set of groups of input elements. Movement moves sets,
arithmetic unites them, and a known number cuts a path: zero times anything, the case that a known predicate does not
choose, the exponential of what a mask made very negative. Each cut holds under a condition that is noted down.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import windows
from samebits.interpret.arrays import ARITHMETIC, MATRICES, evaluate
from samebits.interpret.data_movement import MOVES, Move, owned
from samebits.interpret.dependence import elementwise, ordered_rows
from samebits.interpret.dependence.elementwise import FINITE, MASKS, NONZERO
from samebits.interpret.dependence.ordered_rows import Followed, Ordered
from samebits.interpret.dependence.products import product
from samebits.interpret.dependence.sets import Numbers, SetTable
from samebits.interpret.dependence.value import Dependent, broadcast, chosen, of_number, opened, settled, together
from samebits.interpret.devices import PerDevice
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.sorting import ORDERED

_FOLDS = {f"reduce_{name}": name for name in ("and", "max", "min", "or", "xor")}
_FOLDS |= {"reduce_prod": "mul", "reduce_sum": "add"}
_RUNNING = {"cummax": "max", "cummin": "min", "cumprod": "mul", "cumsum": "add"}
_WINDOWS = ("dynamic_slice", "dynamic_update_slice", "gather", "scatter", "scatter-add", "select_n")
_RAGGED = "ragged_dot_general"
_MIXED = frozenset(("bitcast_convert_type", "dot_general", "iota", "random_gamma", _RAGGED, "scatter-add", *MATRICES))


@dataclass(frozen=True, slots=True)
class Cut:
    """A group that is taken out of every set that holds another one too, up to an equation.

    Args:
        group: what is taken out.
        beside: of sets that also hold this group.
        until: the number of the last equation, in the order of evaluation.
    """

    group: int
    beside: int
    until: int


class DependenceDomain:
    """The domain of dependence.

    Args:
        groups: how many groups of input elements there are.
        cut: to find the equation by which one group reaches another.
    """

    name = "dependence"
    keeps_constants = True
    covers = frozenset((*ARITHMETIC, *ORDERED, *_WINDOWS, _RAGGED))

    def __init__(self, groups: int, cut: Cut | None = None) -> None:
        self.table = SetTable(groups)
        self.equations = 0
        self.places: dict[int, Step] = {}
        self._cut = cut
        self._choices = 0
        self._conditions: dict[str, float] = {}

    def assume(self, condition: str, magnitude: float = 0.0) -> None:
        """Note a condition down, of masks with the smallest magnitude."""
        self._conditions[condition] = min(magnitude, self._conditions.get(condition, math.inf))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return what must hold, besides what is given."""
        order = {FINITE: 0, NONZERO: 1, MASKS: 2}
        ordered = sorted(self._conditions.items(), key=lambda item: order[item[0]])
        return tuple(
            f"numbers beside a mask of {magnitude:g} are smaller than {magnitude / 2:g}" if name == MASKS else name
            for name, magnitude in ordered
            if name != MASKS or math.isfinite(magnitude)
        )

    def lift(self, array: Array, kind: Type) -> Array:
        """Constants are known."""
        return np.asarray(array, np.float64)

    def value(self, value: Any, kind: Type) -> Dependent:
        """Return a concrete array as a value, and one in an order as one that may be in any."""
        value = self.plain(value)
        return value if isinstance(value, Dependent) else of_number(value, kind)

    def plain(self, value: Any) -> Any:
        """Return a value each of whose elements has a set of its own: an order gets in by the equation that sorts."""
        known = ordered_rows.plain(self.table, value)
        if isinstance(value, Ordered):
            self.equations += 1
            self.places[self.equations] = value.order.step
            known = self._without(known)
        return known

    def _without(self, value: Dependent) -> Dependent:
        """Return a value of an equation without the group that is cut out."""
        if self._cut is None or self.equations > self._cut.until:
            return value
        return replace(value, sets=self.table.without(value.sets, self._cut.group, self._cut.beside))

    def zeroed(self, value: Dependent, zeros: Array) -> Dependent | Array:
        """Return an argument some elements of which are zero."""
        return settled(chosen(zeros, of_number(np.zeros(value.shape), Type(value.shape, value.numbers.dtype)), value))

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> Any:
        """Move sets with their elements."""
        if any(isinstance(value, Ordered | Followed) for value in values):
            return ordered_rows.moved(self, values, move, kind)
        parts = [self.value(value, kind) for value in values]
        return settled(together(lambda arrays: owned(move(arrays)), parts))

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """Only known numbers have an order."""
        return self.concrete(step, value)

    def concrete(self, step: Step, value: Any) -> Array:
        """Return numbers that are known."""
        if isinstance(value, Dependent | Ordered | Followed):
            raise NotCovered(f"{step} decides by numbers that depend on the inputs")
        return np.asarray(value)

    def same(self, first: Any, second: Any) -> bool:
        """Return whether two values have the same sets and the same known numbers."""
        first, second = self.plain(first), self.plain(second)
        if isinstance(first, Dependent) != isinstance(second, Dependent):
            return False
        if not isinstance(first, Dependent):
            return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
        return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in Dependent.__slots__)

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Return the outputs of an equation."""
        self.equations += 1
        self.places[self.equations] = step
        if all(isinstance(value, np.ndarray) for value in values):
            return ORDERED[step.name](self, step, values) if step.name in ORDERED else evaluate(step, values)
        rule = self._rule(step)
        if step.name == "sort" or any(isinstance(value, Ordered | Followed) for value in values):
            followed = ordered_rows.apply(self, step, values, rule == self._each)
            if followed is not None:
                return followed
        parts = [self.value(value, kind) for value, kind in zip(values, step.inputs, strict=True)]
        outputs = rule(step, parts)
        done = [settled(self._without(output)) for output in outputs]
        if step.name not in ("argmax", "argmin", "top_k"):
            return done
        first, self._choices = self._choices, self._choices + math.prod(step.outputs[-1].shape)
        return ordered_rows.among(step, done, first)

    def either(self, step: Step, which: Any, outcomes: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the outputs of branches one of which a predicate chooses that is not known."""
        if any(isinstance(value, PerDevice) for value in (which, *(value for each in outcomes for value in each))):
            raise NotCovered(f"{step} decides on each device by numbers that depend on the inputs")
        chooser = self.value(which, step.inputs[0])
        joined = []
        for kind, *values in zip(step.outputs, *outcomes, strict=True):
            predicate = chooser.part((..., *(np.newaxis,) * (len(kind.shape) - len(chooser.shape))))
            (predicate,) = broadcast([predicate], kind.shape)
            parts = [self.value(value, kind) for value in values]
            inner = step.like("select_n", [step.inputs[0], *[kind] * len(parts)], [kind])
            joined.append(settled(elementwise.select(self, inner, [predicate, *parts])))
        return joined

    # -- the rules of equations that are not element by element

    def _rule(self, step: Step) -> Callable[[Step, list[Dependent]], list[Dependent]]:
        name = step.name
        if name in _FOLDS:
            return self._fold
        if name in _RUNNING:
            return self._running
        if name == "dot_general":
            return lambda step, values: [product(self, step, *values)]
        if name in ("sort", "top_k", "argmax", "argmin"):
            return self._ordered
        if name == "gather":
            return self._gathered
        if name in ("scatter", "scatter-add"):
            return self._scattered
        if name in ("dynamic_slice", "dynamic_update_slice"):
            return self._window
        if name in MATRICES:
            return self._matrices
        if name in _MIXED:
            return self._everything
        return self._each

    def _each(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        operands = broadcast(values, step.output.shape)
        if step.name == "select_n":
            return [elementwise.select(self, step, operands)]
        return [elementwise.elementwise(self, step, operands)]

    def _fold(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """A reduction, by halves: what a pair of elements gives is what the operation on each element gives."""
        (value,) = values
        for axis in sorted(step.params["axes"], reverse=True):
            value = self._folded(step, _FOLDS[step.name], value, axis)
        return [value]

    def _folded(self, step: Step, operation: str, value: Dependent, axis: int) -> Dependent:
        value = value.each(lambda array: np.moveaxis(array, axis, 0))
        while value.shape[0] > 1:
            half = value.shape[0] // 2
            both = self._pair(step, operation, value.part(slice(half)), value.part(slice(half, 2 * half)))
            value = both if value.shape[0] % 2 == 0 else together(np.concatenate, [both, value.part(slice(-1, None))])
        if not value.shape[0]:
            raise NotCovered(f"{step} reduces nothing")
        return value.part(0)

    def _pair(self, step: Step, operation: str, first: Dependent, second: Dependent) -> Dependent:
        kind = Type(first.shape, step.output.dtype)
        return elementwise.elementwise(self, step.like(operation, [kind, kind], [kind]), [first, second])

    def _running(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """All elements up to each, in as many rounds as the length has digits."""
        axis, back, operation = step.params["axis"], step.params["reverse"], _RUNNING[step.name]
        value = values[0].each(lambda array: np.moveaxis(array, axis, 0))
        value = value.part(slice(None, None, -1)) if back else value
        reach = 1
        while reach < value.shape[0]:
            later = self._pair(step, operation, value.part(slice(reach, None)), value.part(slice(-reach)))
            value = together(np.concatenate, [value.part(slice(reach)), later])
            reach *= 2
        value = value.part(slice(None, None, -1)) if back else value
        return [value.each(lambda array: np.moveaxis(array, 0, axis))]

    def _ordered(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """A choice by order: each result depends on all elements along the axis, masked ones aside."""
        params = step.params
        keys = values[: params.get("num_keys", 1)]
        axis = params["dimension"] if step.name == "sort" else params.get("axes", (params.get("axis", -1),))[0]
        axis %= len(step.inputs[0].shape)
        by = [self._anywhere(key.sets, [axis]) for key in keys]
        outputs = []
        for number, kind in enumerate(step.outputs):
            sets = self._anywhere(values[number].sets, [axis]) if step.name == "sort" else by[0]
            sets = functools.reduce(self.table.union, by, sets)
            shape = kind.shape if step.name in ("sort", "top_k") else (*kind.shape[:axis], 1, *kind.shape[axis:])
            outputs.append(opened(np.broadcast_to(sets, shape).reshape(kind.shape), kind))
        return outputs

    def _matrices(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """Functions of whole matrices, batch by batch."""
        batch = values[0].shape[:-2]
        if any(value.shape[: len(batch)] != batch for value in values):
            return self._everything(step, values)
        return self._everything(step, values, batch)

    def _everything(self, step: Step, values: list[Dependent], batch: tuple[int, ...] = ()) -> list[Dependent]:
        """What may depend on all elements of all operands, of the same number of a batch."""
        each = [self.table.of_axes(value.sets, range(len(batch), value.sets.ndim)) for value in values]
        sets = functools.reduce(self.table.union, each)
        spread = [sets.reshape(batch + (1,) * (len(kind.shape) - len(batch))) for kind in step.outputs]
        return [opened(np.broadcast_to(s, kind.shape), kind) for s, kind in zip(spread, step.outputs, strict=True)]

    # -- movement to places that are not known

    def _gathered(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """Elements from anywhere along the axes whose indices are not known."""
        operand, indices = values
        numbers = step.params["dimension_numbers"]
        rule = MOVES["gather"]
        (move,) = rule.moves(step, [self._at(step, indices)])
        assert rule.fill is not None
        fill = of_number(rule.fill(step), step.output)
        by = self.table.of_axis(indices.sets, indices.sets.ndim - 1)
        shape = _with_ones(by.shape, numbers.offset_dims)
        known = np.broadcast_to(indices.known().all(-1).reshape(shape), step.output.shape)
        anywhere = self._spread(operand, _unknown(indices, numbers.start_index_map))
        inexact, exact = (together(move, [part, fill]) for part in (anywhere, operand))
        sets = self.table.union(inexact.sets, np.broadcast_to(by.reshape(shape), step.output.shape))
        return [chosen(known, exact, opened(sets, step.output))]

    def _at(self, step: Step, indices: Dependent) -> Array:
        """Return indices with 0 for those that are not known."""
        return np.where(indices.known(), indices.numbers, 0).astype(step.inputs[1].dtype)

    def _spread(self, value: Dependent, axes: Sequence[int]) -> Dependent:
        """Return a value whose elements may be any along some axes."""
        sets = np.broadcast_to(self._anywhere(value.sets, axes), value.shape)
        return opened(np.ascontiguousarray(sets), Type(value.shape, value.numbers.dtype))

    def _scattered(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """Updates go anywhere along the axes whose indices are not known."""
        operand, indices, updates = values
        if indices.known().all():
            return [self._added(step, operand, indices.numbers, updates)]
        numbers = step.params["dimension_numbers"]
        by = self.table.of_axis(indices.sets, indices.sets.ndim - 1)
        by = by.reshape(_with_ones(by.shape, numbers.update_window_dims))
        sets = self.table.union(updates.sets, np.broadcast_to(by, updates.shape))
        empty = opened(np.zeros(operand.shape, np.int32), step.output)
        placed = self._added(step, empty, self._at(step, indices), opened(sets, step.inputs[2]))
        anywhere = self._spread(placed, _unknown(indices, numbers.scatter_dims_to_operand_dims))
        return [opened(self.table.union(operand.sets, anywhere.sets), step.output)]

    def _added(self, step: Step, operand: Dependent, indices: Array, updates: Dependent) -> Dependent:
        """A scatter that adds: round by round the first update that is left of each element."""
        targets, inside = windows.of_scatter(step, np.asarray(indices, step.inputs[1].dtype))
        flat = operand.each(lambda array: array.reshape(-1).copy())
        left = np.flatnonzero(inside)
        at, own = targets.reshape(-1), updates.each(lambda array: array.reshape(-1))
        while left.size:
            places, first = np.unique(at[left], return_index=True)
            both = self._pair(step, "add", flat.part(places), own.part(left[first]))
            for name in Dependent.__slots__:
                getattr(flat, name)[places] = getattr(both, name)
            left = np.delete(left, first)
        return flat.each(lambda array: array.reshape(operand.shape))

    def _window(self, step: Step, values: list[Dependent]) -> list[Dependent]:
        """A window that starts anywhere along the axes whose start is not known."""
        slicing = step.name == "dynamic_slice"
        operand, starts = values[0], values[1 if slicing else 2 :]
        window = step.output.shape if slicing else values[1].shape
        by = np.zeros((), np.int32)
        at: list[slice] = []
        loose = []
        for axis, (start, size, own) in enumerate(zip(starts, operand.shape, window, strict=True)):
            by = self.table.union(by, start.sets)
            if start.known().all():
                first = min(max(int(start.numbers), 0), size - own)
                at.append(slice(first, first + own))
            else:
                at.append(slice(None))
                loose += [axis] if own < size else []
        if slicing:
            sets = self._anywhere(operand.sets[tuple(at)], loose)
            return [opened(self.table.union(np.broadcast_to(sets, window), np.full(window, by)), step.output)]
        sets = operand.sets.copy()
        place = sets[tuple(at)]
        updates = np.broadcast_to(self._anywhere(values[1].sets, loose), place.shape)
        sets[tuple(at)] = self.table.union(self.table.union(place, updates), np.full(place.shape, by))
        inside = np.zeros(operand.shape, bool)
        inside[tuple(at)] = True
        return [chosen(inside, opened(sets, step.output), operand)]

    def _anywhere(self, sets: Numbers, axes: Sequence[int]) -> Numbers:
        """Return the unions along axes, which stay with length 1."""
        for axis in axes:
            sets = np.expand_dims(self.table.of_axis(sets, axis), axis)
        return sets


def _unknown(indices: Dependent, axes: Sequence[int]) -> list[int]:
    """Return the axes of an operand whose indices are not all known."""
    known = indices.known()
    return [axis for number, axis in enumerate(axes) if not known[..., number].all()]


def _with_ones(shape: Sequence[int], offsets: Sequence[int]) -> list[int]:
    """Return a shape of batch dimensions with a 1 wherever the output has an offset dimension."""
    rest = iter(shape)
    return [1 if dim in offsets else next(rest) for dim in range(len(shape) + len(offsets))]
