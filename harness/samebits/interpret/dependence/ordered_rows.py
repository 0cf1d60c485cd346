"""Rows that are sorted, used row by row and put back, as the tokens of an expert layer: values in an unknown order.

A sort by keys that depend on the inputs may put any row anywhere. As long as every equation treats all rows alike, the
value is held in its original order; otherwise each of its rows may be any row. A ragged product is followed where the
sizes of its groups count the keys, which is checked for every outcome of each key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from samebits.interpret.arrays import ARITHMETIC, evaluate
from samebits.interpret.data_movement import Move, owned
from samebits.interpret.dependence.products import product
from samebits.interpret.dependence.sets import Numbers, SetTable
from samebits.interpret.dependence.value import Dependent, of_number, opened
from samebits.interpret.equation import Array, Step, Type

LARGEST = 1 << 20
"""Elements of the tables of what choices decide; larger ones are followed as numbers of which nothing is known."""


class Decided(NamedTuple):
    """Numbers that choices decide, one each.

    Args:
        choices: `[n]`, the numbers of the choices, ascending.
        table: `[outcomes, n]`, what each outcome of each makes of it; -1 where it is outside of all groups.
    """

    choices: Array
    table: Array

    def within(self, groups: int) -> Decided:
        """Return the same, with what is beyond some groups outside of them."""
        return Decided(self.choices, np.where(self.table < groups, self.table, -1))


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """A permutation that sorts rows by keys that are not known.

    Args:
        keys: `[rows]`, the set that the key of each row may be computed from.
        decided: what the keys are, where choices decide them.
        step: the equation that sorts.
    """

    keys: Numbers
    decided: Decided | None
    step: Step


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """A value with an axis in an order: its element `j` is element `by[j]` of the value that is held.

    Args:
        back: whether `by` is the inverse of the permutation.
    """

    value: Dependent | Array
    axis: int
    order: Order
    back: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.value.shape

    def has_order_of(self, other: Ordered) -> bool:
        """Return whether the rows of another value are in the same order."""
        return self.order is other.order and self.back == other.back

    def of(self, value: Any, axis: int) -> Ordered | Array:
        """Return another value in this order, which changes none whose rows are all the same numbers."""
        value = value.plain if isinstance(value, Followed) else value
        if isinstance(value, np.ndarray) and _is_constant(value, axis):
            return value
        return Ordered(value, axis, self.order, self.back)


@dataclass(frozen=True, eq=False, slots=True)
class Followed:
    """A value of which more is known than the sets of its elements.

    Args:
        plain: the value without that.
    """

    plain: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.plain.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Choice(Followed):
    """Numbers each of which is a function of one choice among a few, such as the number of an expert.

    Args:
        choices: by element, the number of its choice.
        table: `[outcomes, *shape]`, by outcome of its choice the number of each element.
    """

    choices: Array
    table: Array


@dataclass(frozen=True, eq=False, slots=True)
class Counted(Followed):
    """How many of some numbers are 0, 1, 2, ..."""

    numbers: Decided


@dataclass(frozen=True, eq=False, slots=True)
class Stored(Followed):
    """Values put together, as a scan does with what the backward pass needs of each step, until one is taken again.

    Args:
        values: what was put together.
        places: by element, its number among the elements of all values.
    """

    values: Sequence[Any]
    places: Array


class OrderingDomain(Protocol):
    """The part of the domain that is used here."""

    table: SetTable

    def plain(self, value: Any) -> Any:
        """Return a value each of whose elements has a set of its own."""

    def assume(self, condition: str, magnitude: float = 0.0) -> None:
        """Note a condition down."""

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Return the outputs of an equation."""

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> Any:
        """Move sets with their elements."""


def plain(table: SetTable, value: Any) -> Any:
    """Return a value without its order: each of its rows may be any, by the keys of all."""
    if isinstance(value, Followed):
        return value.plain
    if not isinstance(value, Ordered):
        return value
    known = value.value
    inner = of_number(known, Type(known.shape, known.dtype)) if isinstance(known, np.ndarray) else known
    rows = np.expand_dims(table.of_axis(inner.sets, value.axis), value.axis)
    sets = table.union(rows, np.full(rows.shape, table.of_axis(value.order.keys, 0)))
    return opened(np.ascontiguousarray(np.broadcast_to(sets, inner.shape)), Type(inner.shape, inner.numbers.dtype))


def apply(domain: OrderingDomain, step: Step, values: Sequence[Any], by_element: bool) -> Sequence[Any] | None:
    """Return the outputs of an equation that treats rows in an order alike; None where none are, or it does not."""
    if any(isinstance(value, Choice | Counted) for value in values):
        decided = _decided(domain, step, values, by_element)
        if decided is not None:
            return decided
    if step.name == "sort":
        return _sorted(domain, step, values)
    if step.name in _RULES or by_element:
        values = [value.plain if isinstance(value, Choice | Stored) else value for value in values]
        if any(isinstance(value, Ordered) for value in values):
            return (_by_element if by_element else _RULES[step.name])(domain, step, values)
    return None


def moved(domain: OrderingDomain, values: Sequence[Any], move: Move, kind: Type) -> Any:
    """Return values whose elements are moved, their rows as rows; what is put together is found again."""
    if any(isinstance(value, Ordered) for value in values):
        followed = _moved_rows(domain, values, move, kind)
    else:
        followed = _moved_choices(domain, values, move, kind)
    if followed is not None:
        return followed
    (first, *rest) = values
    if isinstance(first, Stored) and not rest:
        sources, places = first.values, owned(move([first.places]))
    else:
        sources, places = values, owned(move(_numbered(values)))
    for source, own in zip(sources, _numbered(sources), strict=True):
        if np.array_equal(own, places):
            return source
    return Stored(domain.moved([domain.plain(value) for value in values], move, kind), sources, places)


def _numbered(values: Sequence[Any]) -> list[Array]:
    """Return arrays of the shapes of values, with the numbers of their elements, counted through."""
    sizes = [math.prod(value.shape) for value in values]
    starts = np.cumsum([0, *sizes])
    return [np.arange(at, at + size).reshape(each.shape) for at, size, each in zip(starts, sizes, values, strict=False)]


def _moved_choices(domain: OrderingDomain, values: Sequence[Any], move: Move, kind: Type) -> Any:
    """Return choices beside each other, or beside known numbers, which are outcomes of choices of their own."""
    choices = [value for value in values if isinstance(value, Choice)]
    if len({len(each.table) for each in choices}) != 1 or not all(isinstance(v, Choice | np.ndarray) for v in values):
        return None
    outcomes = [
        owned(move([value.table[n] if isinstance(value, Choice) else value for value in values]))
        for n in range(len(choices[0].table))
    ]
    known = [value.choices if isinstance(value, Choice) else np.full(value.shape, -1) for value in values]
    numbers = owned(move(known))
    numbers = np.where(numbers < 0, -1 - np.arange(numbers.size).reshape(numbers.shape), numbers)
    together = domain.moved([domain.plain(value) for value in values], move, kind)
    return _choice(together, numbers, np.stack(outcomes))


def _inner(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Any:
    """Return the output of an equation, of known operands too."""
    first, *rest = values
    return domain.apply(step, [of_number(first, step.inputs[0]) if isinstance(first, np.ndarray) else first, *rest])[0]


def _is_constant(array: Array, axis: int) -> bool:
    rows = np.moveaxis(array, axis, 0)
    return bool(np.all((rows == rows[:1]) | ((rows != rows) & (rows[:1] != rows[:1]))))


def _is_exact(array: Array, kind: Type) -> bool:
    """Return whether a dtype holds numbers without rounding or overflow: the tables hold floats as float64."""
    return np.array_equal(array.astype(kind.dtype).astype(array.dtype), array)


def _is_each_row(value: Any, rows: int) -> bool:
    """Return whether a value is known to be 0, 1, 2, ..."""
    return isinstance(value, np.ndarray) and np.array_equal(value.reshape(-1), np.arange(rows))


def _holds_rows(indices: Any, numbers: Any) -> bool:
    """Return whether indices have an order along a batch dimension, none of which is one of the operand."""
    batching = tuple(getattr(numbers, "operand_batching_dims", ()))
    return isinstance(indices, Ordered) and indices.axis < len(indices.shape) - 1 and not batching


# -- equations that treat rows alike


def _by_element(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    first = next(value for value in values if isinstance(value, Ordered))
    for value in values:
        if isinstance(value, Ordered):
            alike = value.has_order_of(first) and value.axis == first.axis
        elif not value.shape or value.shape[first.axis] == 1:
            alike = True
        else:
            alike = isinstance(value, np.ndarray) and _is_constant(value, first.axis)
        if not alike:
            return None
    inner = domain.apply(step, [value.value if isinstance(value, Ordered) else value for value in values])
    return [first.of(output, first.axis) for output in inner]


def _along(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    """A choice or a running sum along another axis, and a reduction along any."""
    (value,) = values
    params, rank = step.params, len(step.inputs[0].shape)
    axes = [axis % rank for axis in params.get("axes", (params.get("axis", -1),))]
    if value.axis in axes:
        return domain.apply(step, [value.value]) if step.name.startswith("reduce_") else None
    gone = sum(axis < value.axis for axis in axes) if len(step.outputs[0].shape) < rank else 0
    return [value.of(output, value.axis - gone) for output in domain.apply(step, [value.value])]


def _product(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    sums, batch = step.params["dimension_numbers"]
    places, free = [], len(batch[0])
    for number, value in enumerate(values):
        others = [dim for dim in range(len(value.shape)) if dim not in (*sums[number], *batch[number])]
        if isinstance(value, Ordered):
            kinds: dict[str, Sequence[int]] = {"sum": sums[number], "batch": batch[number], "free": others}
            places += [(kind, dims.index(value.axis), free) for kind, dims in kinds.items() if value.axis in dims]
        free += len(others)
    ordered = [value for value in values if isinstance(value, Ordered)]
    (kind, number, before), *rest = places
    if rest and (kind == "free" or rest[0][:2] != (kind, number) or not ordered[0].has_order_of(ordered[1])):
        return None
    if not rest and kind != "free":
        return None
    output = _inner(domain, step, [value.value if isinstance(value, Ordered) else value for value in values])
    return [output if kind == "sum" else ordered[0].of(output, number + (before if kind == "free" else 0))]


def _gathered(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    """Rows from an index in an order are in this order; those from the order back to theirs are in none."""
    operand, indices = values
    numbers = step.params["dimension_numbers"]
    if not _holds_rows(indices, numbers):
        return None
    if isinstance(operand, Ordered):
        is_back = operand.order is indices.order and operand.back != indices.back
        whole = numbers.start_index_map == numbers.collapsed_slice_dims == (operand.axis,)
        if not (is_back and whole and _is_each_row(indices.value, operand.shape[operand.axis])):
            return None
        return [_inner(domain, step, [operand.value, indices.value])]
    output = _inner(domain, step, [operand, indices.value])
    batch = [dim for dim in range(len(output.shape)) if dim not in numbers.offset_dims]
    return [indices.of(output, batch[indices.axis])]


def _scattered(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    """Rows and their places in one order are added up in any; rows in none are put into the order."""
    operand, indices, updates = values
    numbers = step.params["dimension_numbers"]
    if isinstance(operand, Ordered) or not _holds_rows(indices, numbers):
        return None
    places, known = numbers.scatter_dims_to_operand_dims, indices.value
    own = [dim for dim in range(len(updates.shape)) if dim not in numbers.update_window_dims]
    if isinstance(updates, Ordered):
        alike = updates.has_order_of(indices) and updates.axis == own[indices.axis]
        distinct = isinstance(known, np.ndarray) and len(places) == 1 and np.unique(known).size == known.size
        if not alike or not (distinct or step.name == "scatter-add"):
            return None
        return [_inner(domain, step, [operand, known, updates.value])]
    if places != numbers.inserted_window_dims or len(places) > 1 or not isinstance(operand, np.ndarray):
        return None
    if not _is_each_row(known, operand.shape[places[0]]) or not _is_constant(operand, places[0]):
        return None
    back = Ordered(known, indices.axis, indices.order, not indices.back)
    return [back.of(_inner(domain, step, [operand, known, updates]), places[0])]


def _sorted(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    """A sort by unknown keys makes an order; one of where each row is leads back from it."""
    keys = values[0]
    if isinstance(keys, np.ndarray) or len(keys.shape) != 1 or step.params["num_keys"] != 1:
        return None
    if isinstance(keys, Ordered):
        ordered = [value for value in values if isinstance(value, Ordered)]
        if not _is_each_row(keys.value, keys.shape[0]) or not all(each.has_order_of(keys) for each in ordered):
            return None
        back = Ordered(keys.value, 0, keys.order, not keys.back)
        return [value.value if isinstance(value, Ordered) else back.of(value, 0) for value in values]
    if any(isinstance(value, Ordered) for value in values):
        return None
    decided = None
    if isinstance(keys, Choice) and np.all(keys.table >= 0):
        decided = _by_choice(keys.choices, keys.table)
    parts = [domain.plain(value) for value in values]
    order = Order(parts[0].sets, decided, step)
    return [Ordered(part, 0, order, back=False) for part in parts]


def _ragged(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    """Each row of a sorted value meets the matrix that its key chooses, where the sizes of groups count the keys."""
    left, right, sizes = values
    numbers = step.params["ragged_dot_dimension_numbers"]
    (left_sum, right_sum), (left_batch, _) = numbers.dot_dimension_numbers
    (rows,) = numbers.lhs_ragged_dimensions
    if not isinstance(left, Ordered) or not isinstance(sizes, Counted) or left.order.decided is None:
        return None
    if left.back or left.axis != rows or left_batch:
        return None
    if not all(map(np.array_equal, left.order.decided.within(sizes.shape[0]), sizes.numbers)):
        return None
    table, kinds, keys = domain.table, list(step.inputs[:2]), left.order.keys
    if rows in left_sum:
        across = right_sum[left_sum.index(rows)]
        if not isinstance(right, Ordered) or not right.has_order_of(left) or right.axis != across:
            return None
        right, kind = right.value, Type(step.output.shape[1:], step.output.dtype)
    elif isinstance(right, Ordered):
        return None
    else:
        (group,) = numbers.rhs_group_dimensions
        right = of_number(right, kinds[1]) if isinstance(right, np.ndarray) else right
        right_sum = tuple(dim - (dim > group) for dim in right_sum)
        kinds[1] = Type(tuple(np.delete(right.shape, group).tolist()), kinds[1].dtype)
        right, kind = opened(table.of_axis(right.sets, group), kinds[1]), step.output
    known = zip((left.value, right), kinds, strict=True)
    sides = [of_number(side, of) if isinstance(side, np.ndarray) else side for side, of in known]
    inner = step.like("dot_general", kinds, [kind], dimension_numbers=((left_sum, right_sum), ((), ())))
    output = product(domain, inner, *sides)
    if rows in left_sum:
        sets = table.union(output.sets, np.full(output.shape, table.of_axis(keys, 0)))
        return [opened(np.ascontiguousarray(np.broadcast_to(sets, step.output.shape)), step.output)]
    axis = [dim for dim in range(len(left.shape)) if dim not in left_sum].index(rows)
    own = keys.reshape([-1 if dim == axis else 1 for dim in range(len(output.shape))])
    return [left.of(opened(table.union(output.sets, np.broadcast_to(own, output.shape).copy()), step.output), axis)]


_Rule = Callable[[OrderingDomain, Step, Sequence[Any]], Sequence[Any] | None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("argmax", "argmin", "cummax", "cummin", "cumprod", "cumsum", "top_k"), _along),
    **{f"reduce_{name}": _along for name in ("and", "max", "min", "or", "prod", "sum", "xor")},
    "dot_general": _product,
    "gather": _gathered,
    "ragged_dot_general": _ragged,
    "scatter": _scattered,
    "scatter-add": _scattered,
}


def _moved_rows(domain: OrderingDomain, values: Sequence[Any], move: Move, kind: Type) -> Any:
    """Return the rows along the axis of the result along which each element comes from the next row."""
    first = next(value for value in values if isinstance(value, Ordered))
    for value in values:
        if not (value.has_order_of(first) if isinstance(value, Ordered) else isinstance(value, np.ndarray)):
            return None
    rows = first.shape[first.axis]
    numbers = _numbered(values)
    between = [math.prod(each.shape[each.axis + 1 :]) if isinstance(each, Ordered) else 0 for each in values]
    strides = np.concatenate([np.full(own.size, each) for own, each in zip(numbers, between, strict=True)])
    starts = np.concatenate([np.full(own.size, own.reshape(-1)[:1]) for own in numbers])
    places = owned(move(numbers))
    if not np.all(strides[places]):  # some elements are of no row at all: a pad
        return None
    for axis in (axis for axis, size in enumerate(places.shape) if size == rows):
        along = np.moveaxis(places, axis, 0)
        begin, stride = along[0], strides[along[0]]
        steps = np.arange(rows).reshape(-1, *[1] * (places.ndim - 1))
        if not np.any((begin - starts[begin]) // stride % rows) and np.all(along == begin + stride * steps):
            inner: list[Any] = [value.value if isinstance(value, Ordered) else value for value in values]
            known = all(isinstance(each, np.ndarray) for each in inner)
            return first.of(owned(move(inner)) if known else domain.moved(inner, move, kind), axis)
    return None


# -- choices, and how often each outcome was chosen


def among(step: Step, outputs: Sequence[Any], first: int) -> list[Any]:
    """Return the outputs of an equation that chooses, the numbers of what it chose as choices.

    Args:
        first: the number of the first choice.
    """
    axes = step.params.get("axes", (step.params.get("axis", -1),))
    outcomes, at = step.inputs[0].shape[axes[0]], len(outputs) - 1
    value = outputs[at]
    if isinstance(value, np.ndarray) or outcomes * math.prod(value.shape) > LARGEST:
        return list(outputs)
    table = np.arange(outcomes, dtype=step.outputs[at].dtype).reshape(-1, *[1] * len(value.shape))
    choices = first + np.arange(math.prod(value.shape)).reshape(value.shape)
    return [*outputs[:at], _choice(value, choices, np.broadcast_to(table, (outcomes, *value.shape)))]


def _choice(value: Any, choices: Array, table: Array) -> Any:
    """Return a function of choices; a number where all outcomes give the same."""
    if isinstance(value, np.ndarray):
        return value
    if np.array_equal(table, np.broadcast_to(table[:1], table.shape)):
        return np.ascontiguousarray(table[0])
    return Choice(value, choices, table) if table.size <= LARGEST else value


def _decided(domain: OrderingDomain, step: Step, values: Sequence[Any], by_element: bool) -> Sequence[Any] | None:
    """Return what an equation makes of choices, or of how often each outcome was chosen."""
    first = values[0]
    if step.name == "convert_element_type" and isinstance(first, Counted):
        return _counts(step, first.numbers, _inner(domain, step, [first.plain]))
    if step.name == "reduce_sum" and isinstance(first, Counted) and np.all(first.numbers.table >= 0):
        return [np.asarray(first.numbers.choices.size, step.output.dtype)]
    if step.name == "reduce_sum" and isinstance(first, Choice):
        return _summed(domain, step, first)
    if step.name == "scatter-add" and isinstance(values[1], Choice):
        return _added(domain, step, values)
    choices = [value for value in values if isinstance(value, Choice)]
    known = all(isinstance(value, Choice | np.ndarray) for value in values)
    if not by_element or not known or step.name not in (*ARITHMETIC, "select_n"):
        return None
    each = [np.broadcast_to(choice.choices, step.output.shape) for choice in choices]
    if len({len(choice.table) for choice in choices}) > 1 or not all(np.array_equal(own, each[0]) for own in each):
        return None
    rows = []
    for n in range(len(choices[0].table)):
        which, *cases = numbers = [value.table[n] if isinstance(value, Choice) else value for value in values]
        rows.append(np.choose(which, cases) if step.name == "select_n" else evaluate(step, numbers)[0])
    table = np.stack(rows)
    if not _is_exact(table, step.output):
        return None
    (output,) = domain.apply(step, [value.plain if isinstance(value, Choice) else value for value in values])
    return [_choice(output, each[0], table)]


def _summed(domain: OrderingDomain, step: Step, value: Choice) -> Sequence[Any] | None:
    """The sum of a one for each outcome that was chosen."""
    axes = step.params["axes"]
    left = [axis for axis in range(len(value.shape)) if axis not in axes]
    if len(left) != 1:
        return None
    ones = np.moveaxis(value.table, 1 + left[0], 1)
    ones = ones.reshape(*ones.shape[:2], -1)
    choices = np.moveaxis(value.choices, left[0], 0).reshape(ones.shape[1], -1)
    if not np.all((ones == 0) | (ones == 1)) or np.any(ones.sum(1) > 1) or np.any(choices != choices[:1]):
        return None
    table = np.where(ones.any(1), ones.argmax(1), -1)
    return _counts(step, _by_choice(choices[0], table), _inner(domain, step, [value.plain]))


def _added(domain: OrderingDomain, step: Step, values: Sequence[Any]) -> Sequence[Any] | None:
    """A one that is added to the place of each outcome that was chosen."""
    operand, indices, updates = values
    known = isinstance(operand, np.ndarray) and isinstance(updates, np.ndarray)
    if not known or operand.ndim != 1 or operand.any() or not np.all(updates == 1) or indices.shape[-1] != 1:
        return None
    table = indices.table.reshape(len(indices.table), -1)
    inside = (table >= 0) & (table < operand.size)
    if updates.size != indices.choices.size or not (inside.all() or "FILL_OR_DROP" in str(step.params["mode"])):
        return None
    value = _inner(domain, step, [operand, indices.plain, updates])
    return _counts(step, _by_choice(indices.choices, np.where(inside, table, -1)), value)


def _counts(step: Step, numbers: Decided | None, value: Any) -> Sequence[Any] | None:
    """Return a value as counts of numbers, where its dtype holds every count."""
    if (
        numbers is None
        or not isinstance(value, Dependent)
        or not _is_exact(np.arange(1 + len(numbers.choices)), step.output)
    ):
        return None
    return [Counted(value, numbers)]


def _by_choice(choices: Array, table: Array) -> Decided | None:
    """Return numbers in the order of their choices; None where one choice decides several."""
    known, first = np.unique(choices.reshape(-1), return_index=True)
    return Decided(known, table.reshape(len(table), -1)[:, first]) if known.size == choices.size else None
