"""Other integers and booleans than those of arrays that were given, which are examples of what may be given.

What an array has that a random one would not is kept: the order of its rows, that they are permutations or sums, how
many elements of a row are true, the range. Other values with all of that may be given, unless the array is nothing but
its own structure, such as positions 0, 1, 2 or a mask of ones. Everything else perhaps does not occur: the numbers
around the range, at and beyond the size of an axis, negative ones, rows of one value, padding. Arrays that are made of
others in a usual way, such as the sizes of groups of expert ids, change with these. Where several are not, one alone
perhaps does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array
from samebits.interpret.inner_equations import equations
from samebits.interpret.problem import Input, Question
from samebits.numerics.seeds import generator

LONG = 4
"""From how many elements on a row is not sorted by chance."""

_TUPLES = 8
"""Up to so many columns may be of different things each."""

_ROOM = 1 << 20
"""Numbers are drawn without repetition from so many at most."""

IGNORED = -100
"""The label that a loss ignores, by the custom of the field."""

_ADDRESSING = ("gather", "scatter", "scatter-add", "scatter_add", "dynamic_slice", "dynamic_update_slice")


@dataclass(frozen=True, slots=True)
class Variation:
    """Other values of a given array.

    Args:
        values: of its shape and dtype.
        words: how they are.
        like: whether they have all that the given ones have.
    """

    values: Array
    words: str
    like: bool


@dataclass(frozen=True, slots=True)
class GivenFacts:
    """What a given array has that a random one would not; rows are along its last axis of more than one element.

    Args:
        array: of int64.
        words: what is kept, in words.
        boolean: whether it is a mask.
        fixed: no other array has all of it.
        axes: the sizes of axes that it may index.
    """

    array: Array
    words: tuple[str, ...]
    boolean: bool
    fixed: bool
    axes: Sequence[int]

    @property
    def rows(self) -> Array:
        """The array as rows."""
        return self.array.reshape(-1, _row_length(self.array.shape))

    @property
    def low(self) -> int:
        """The smallest number."""
        return int(self.array.min())

    @property
    def high(self) -> int:
        """The largest number."""
        return int(self.array.max())

    def keeps(self, word: str) -> bool:
        """Whether something is kept, by how its words begin."""
        return any(each.startswith(word) for each in self.words)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{bool(self.low) if self.boolean else self.low} everywhere"
        span = () if self.boolean else (f"{self.low} to {self.high}",)
        return ", ".join((*span, *self.words)) or "both values"


def facts_of(argument: Input, question: Question) -> GivenFacts:
    """What is kept of a given array.

    Args:
        argument: with the array.
        question: the programs that take it.
    """
    array, boolean = np.asarray(argument.values).astype(np.int64), argument.values.dtype.kind == "b"
    rows, axes = array.reshape(-1, _row_length(array.shape)), _axes(question, argument)
    step = np.diff(rows, axis=1)
    ramp = rows.shape[1] > 1 and bool(np.all(step == step[0, 0]))  # a constant, or positions
    counts_up = bool(np.all((step == 1) | (rows[:, 1:] == rows.min())) and np.all(rows[:, 0] == rows.min()))
    words = () if array.min() == array.max() else tuple(_kept(rows, array, boolean, axes, _has_sums(question)))
    fixed = ramp or (_is_regular(array) if boolean else counts_up)
    return GivenFacts(array, words, boolean, fixed, axes)


def like_given(question: Question, names: Sequence[str]) -> tuple[str, ...]:
    """Names of inputs, of given arrays of integers and booleans with what is kept of them where others are tried.

    Args:
        question: the programs and their inputs.
        names: of some inputs.
    """
    words = {each.name: f"{each.name} (given: {facts_of(each, question)})" for each in given_arrays(question)}
    return tuple(words.get(name, name) for name in names)


def given_arrays(question: Question) -> list[Input]:
    """The inputs that are given arrays of several integers or booleans.

    Args:
        question: with the inputs.
    """
    return [each for each in question.inputs if each.integers and each.magnitudes == "given" and each.values.size > 1]


def _axes(question: Question, argument: Input) -> list[int]:
    """The sizes of the axes that integers may index: those of operands that are addressed, then those of all inputs."""
    sizes: dict[int, None] = {}
    for program in (question.reference, question.variant):
        for equation in equations(live(program).jaxpr):
            if equation.primitive.name in _ADDRESSING:
                sizes |= dict.fromkeys(sorted(int(size) for size in equation.invars[0].aval.shape))
    others = sorted({size for each in question.inputs if each is not argument for size in each.values.shape})
    return [*dict.fromkeys((*sizes, *others))]


def _has_sums(question: Question) -> bool:
    """Whether a program adds integers up, or takes the sizes of groups: their sum may then be that of an axis."""
    names = {each.primitive.name for side in (question.reference, question.variant) for each in equations(side.jaxpr)}
    return bool(names & {"cumsum", "ragged_dot", "ragged_dot_general"})


def _row_length(shape: tuple[int, ...]) -> int:
    return next((size for size in reversed(shape) if size > 1), 1)


def _kept(rows: Array, array: Array, boolean: bool, axes: Sequence[int], has_sums: bool) -> Iterator[str]:
    """What an array of several numbers has that a random one would not."""
    low, high, length = int(rows.min()), int(rows.max()), rows.shape[1]
    step, counts = np.diff(rows, axis=1), rows.sum(1)
    if not boolean and low == 0 and high == length - 1 > 1 and np.all(np.sort(rows, axis=1) == np.arange(length)):
        yield "a permutation in each row" if len(rows) > 1 else "a permutation"
        return
    if not boolean and low >= 0 and has_sums and np.ptp(counts) == 0 and counts[0] in axes:
        yield f"a sum of {counts[0]}"
        return
    if not boolean and length > 2 and low == 0 and high in axes and step.min() >= 0 and step.max() > 1:
        yield "offsets"  # where groups begin, and where the last one ends
    ordered = np.all(step >= 0) or np.all(step <= 0)
    grouped = length >= LONG and (ordered or _is_grouped(rows))
    if ordered and (boolean or length >= LONG):
        yield "sorted"
    elif grouped and not boolean:
        yield "in groups"
    if not boolean and length > 1 and _is_distinct(rows):
        yield "distinct" if _is_distinct(rows.reshape(1, -1)) else "distinct in each row"
    if boolean or (low, high) == (0, 1):
        if len(rows) > 1 and np.ptp(counts) == 0:
            yield f"{counts[0]} of {length} in each row"
    elif low >= 0 and has_sums and axes and counts.max() <= max(axes):
        yield "its sum" if len(rows) == 1 else "the sums of rows"
    tuples = len(rows) >= LONG and 1 < length <= _TUPLES and not grouped
    if not boolean and tuples and rows.max(0).max() > 2 * rows.max(0).min():
        yield "its columns"  # which may be of different things, as coordinates are


def _is_distinct(rows: Array) -> bool:
    return bool(np.all(np.diff(np.sort(rows, axis=1), axis=1) > 0))


def _is_grouped(rows: Array) -> bool:
    """Whether equal numbers of a row lie together, as those of segments with padding do."""
    runs = 1 + np.count_nonzero(np.diff(rows, axis=1), axis=1)
    return bool(np.all(runs == [np.unique(row).size for row in rows]) and runs.min() < rows.shape[1])


def _is_regular(mask: Array) -> bool:
    """Whether a mask is of matrices that are triangular, symmetric, or the same along each diagonal, as windows are."""
    if mask.ndim < 2 or min(mask.shape[-2:]) < 2:
        return False
    square = mask.shape[-1] == mask.shape[-2]
    return bool(
        np.all(mask[..., 1:, 1:] == mask[..., :-1, :-1])
        or (square and (not np.any(np.triu(mask, 1)) or np.array_equal(mask, np.swapaxes(mask, -1, -2))))
    )


def variations(argument: Input, question: Question, facts: GivenFacts) -> Iterator[Variation]:
    """Other values of a given array: first those that have all that it has.

    Args:
        argument: with the array.
        question: the programs that take it.
        facts: what is kept of it.
    """
    rng = generator("given integers", argument.name, str(argument.values.shape))
    limits = np.iinfo(np.uint8) if facts.boolean else np.iinfo(argument.values.dtype)
    seen = [argument.values]
    numbers = [number for number in literals(question) if limits.min <= number <= limits.max]
    like: _Found = iter(()) if facts.fixed else _like(facts, numbers, rng)
    for is_like, rows_tried in ((True, like), (False, _unlike(facts, numbers, rng))):
        for rows, words in rows_tried:
            if rows.min() >= limits.min and rows.max() <= limits.max:
                values = rows.reshape(argument.values.shape).astype(argument.values.dtype)
                if not any(np.array_equal(values, other) for other in seen):
                    seen.append(values)
                    yield Variation(values, words, is_like and _occurs_as_often(facts, rows))


def _occurs_as_often(facts: GivenFacts, rows: Array) -> bool:
    """Whether no row, column or number is missing where none was, and sums are what they were."""
    others = rows.reshape(facts.array.shape)
    if facts.boolean:
        axes = range(others.ndim)
        return all(others.any(axis).all() or not facts.array.any(axis).all() for axis in axes)
    if facts.keeps("its sum") or facts.keeps("the sums"):
        return np.array_equal(rows.sum(1), facts.rows.sum(1))
    numbers = np.unique(facts.array)
    return numbers.size <= facts.high - facts.low or np.array_equal(np.unique(others), numbers)


_Found = Iterator[tuple[Array, str]]


def _like(facts: GivenFacts, numbers: Sequence[int], rng: np.random.Generator) -> _Found:
    """Other rows with all that is kept."""
    rows, low, high = facts.rows, facts.low, facts.high
    if facts.keeps("its columns"):
        yield rng.permutation(rows), "with its rows in another order"
    elif facts.keeps("sorted") and facts.boolean and len(rows) > 1:
        yield _other_lengths(rows, rng), "with rows of other lengths"
    elif facts.keeps("in groups") or (facts.keeps("sorted") and _is_grouped(rows)):
        yield from _regrouped(rows, rng)
    elif facts.keeps("sorted") or facts.keeps("offsets"):
        yield _sorted_anew(rows, rng), "with other numbers between its ends"
    else:
        yield _shuffled(rows, rng), "in another order"
        yield from _redrawn(facts, rng)
        inside = [number for number in numbers if low <= number <= high and number not in rows]
        if inside and not any(map(facts.keeps, ("distinct", "a sum", "its sum", "the sums"))):
            others = np.array(rows)
            others.reshape(-1)[: len(inside)] = inside[: others.size]
            yield others, f"with {', '.join(map(str, inside[: others.size]))}"


def _other_lengths(rows: Array, rng: np.random.Generator) -> Array:
    """Sorted booleans, of which other numbers are true."""
    lengths = rows.sum(1)
    drawn = rng.integers(lengths.min(), lengths.max() + 1, len(rows))
    others = np.arange(rows.shape[1]) >= rows.shape[1] - drawn[:, None]
    rises = bool(np.all(np.diff(rows, axis=1) >= 0))
    return np.asarray(others if rises else others[:, ::-1], np.int64)


def _regrouped(rows: Array, rng: np.random.Generator) -> _Found:
    """Rows of the same numbers in the same order, of which each occurs as often as chance has it, but once at least."""
    length = rows.shape[1]
    for how in ("other boundaries", "boundaries at the start", "boundaries at the end"):
        others = np.array(rows)
        for row in others:
            starts = np.flatnonzero(np.diff(row)) + 1
            numbers, count = row[[0, *starts]], starts.size
            cuts = np.sort(rng.permutation(np.arange(1, length))[:count])
            if how != "other boundaries":
                cuts = np.arange(1, count + 1) if how.endswith("start") else np.arange(length - count, length)
            row[:] = np.repeat(numbers, np.diff([0, *cuts, length]))
        yield others, f"with {how}"


def _sorted_anew(rows: Array, rng: np.random.Generator) -> Array:
    """Sorted rows of different numbers, with the ends that they have."""
    others = np.array(rows)
    for row in others:
        low, high = sorted((int(row[0]), int(row[-1])))
        room = np.arange(low + 1, high) if high - low < _ROOM else rng.integers(low + 1, high, 4 * row.size)
        between = np.sort(rng.permutation(np.unique(room))[: row.size - 2])
        row[1:-1] = between if row[0] <= row[-1] else between[::-1]
    return others


def _redrawn(facts: GivenFacts, rng: np.random.Generator) -> _Found:
    """Rows whose numbers are drawn anew from the range; every number of it occurs where every one did."""
    rows, low, high = facts.rows, facts.low, facts.high
    if facts.keeps("a permutation") or any(word.endswith(" in each row") and word[0].isdigit() for word in facts.words):
        return
    if facts.keeps("distinct"):
        if high - low < _ROOM:
            parts = rows.reshape(1, -1) if "distinct" in facts.words else rows
            drawn = np.stack([rng.permutation(np.arange(low, high + 1))[: part.size] for part in parts])
            yield drawn.reshape(rows.shape), "drawn anew"
    elif any(map(facts.keeps, ("a sum", "its sum", "the sums"))):
        yield _with_sums(rows, rows.sum(1), low, high, rng), "drawn anew, with the sum that it has"
    else:
        drawn = rng.integers(low, high, rows.shape, endpoint=True)
        numbers = np.unique(rows)
        drawn.reshape(-1)[rng.permutation(drawn.size)[: numbers.size]] = numbers
        if facts.boolean:
            drawn = np.where(np.ptp(rows, axis=1)[:, None] == 0, rows, _mixed(drawn, rng))
        yield drawn, "drawn anew"


def _mixed(rows: Array, rng: np.random.Generator) -> Array:
    """Booleans with both values in every row."""
    rows = np.array(rows)
    if rows.shape[1] > 1:
        for row in rows:
            first, second = rng.permutation(row.size)[:2]
            row[first], row[second] = 0, 1
    return rows


def _shuffled(rows: Array, rng: np.random.Generator) -> Array:
    others = rng.permuted(rows, axis=1)
    return np.roll(rows, 1, axis=1) if np.array_equal(others, rows) else others


def _with_sums(rows: Array, sums: Array, low: int, high: int, rng: np.random.Generator) -> Array:
    """Rows of other numbers of a range with given sums."""
    others = np.full(rows.shape, low, np.int64)
    for row, total in zip(others, sums.tolist(), strict=True):
        rest = total - low * row.size
        row += np.minimum(rng.multinomial(rest, rng.dirichlet(np.ones(row.size))), high - low)
        for place in rng.permutation(row.size):  # what was beyond the range
            row[place] += min(high - int(row[place]), total - int(row.sum()))
    return others


def _counting(shape: tuple[int, ...], starts: Array, low: int) -> Array:
    """Rows that count up, again from the lowest number at some places."""
    places = np.broadcast_to(np.arange(shape[1]), shape)
    begun = np.maximum.accumulate(np.where(starts | (places == 0), places, 0), axis=1)
    return np.asarray(low + places - begun)


def _unlike(facts: GivenFacts, numbers: Sequence[int], rng: np.random.Generator) -> _Found:
    """Rows that are not like those given, the nearest first."""
    if facts.boolean:
        yield from _unlike_mask(facts, rng)
        return
    rows, low, high = facts.rows, facts.low, facts.high
    if low == high:
        yield from _unlike_constant(facts, numbers, rng)
    elif facts.fixed and (np.ptp(np.diff(rows)) or abs(rows[0, 1] - rows[0, 0]) == 1):  # positions, or no permutation
        yield _shuffled(rows, rng), "in another order"
        yield _counting(rows.shape, rng.integers(0, 3, rows.shape) == 0, low), "counting up from several places"
    elif facts.fixed and rows.shape[1] > 2:  # where groups of one size begin
        yield _sorted_anew(rows, rng), "with other numbers between its ends"
    if facts.keeps("a sum"):
        yield from _unlike_sizes(rows)
    elif low != high and not (facts.keeps("a permutation") and rows.shape[1] in facts.axes):
        if facts.keeps("distinct"):
            yield _replaced(rows, rows[:, :1], 1), "with a number twice"
        if not facts.keeps("offsets"):
            yield from _beyond(facts, numbers)
            yield np.full_like(rows, low), f"= {low} everywhere"
            yield np.full_like(rows, high), f"= {high} everywhere"


def _beyond(facts: GivenFacts, numbers: Sequence[int]) -> _Found:
    """Numbers beside the range: those of the programs, at and beyond the size of an axis, negative, padding."""
    rows, low, high = facts.rows, facts.low, facts.high
    falls = low != high and bool(np.all(np.diff(rows, axis=1) <= 0))
    size = next((size for size in facts.axes if size > high), high + 1)
    beside = [number for number in numbers if not low <= number <= high][:3]
    if low >= 0:
        beside += [-1, IGNORED]
    for number in dict.fromkeys((*beside, size - 1, size, 2 * size + 1)):
        if not low <= number <= high:
            first = (number < low) != falls
            yield _replaced(rows, number, 0 if first else -1), f"{number} at the {'start' if first else 'end'}"
    if facts.keeps("sorted") and facts.keeps("distinct"):  # for which padding would be in the wrong order
        return
    if low >= 0:
        yield _padded(rows, -1), "-1 in the last quarter"
    if low > 0:
        yield _padded(rows, 0), "0 in the last quarter"


def _unlike_constant(facts: GivenFacts, numbers: Sequence[int], rng: np.random.Generator) -> _Found:
    """Instead of one number: other sizes or lengths, two segments, boundaries at both ends."""
    rows, number = facts.rows, facts.low
    length = rows.shape[1]
    places = np.broadcast_to(np.arange(length), rows.shape)
    if length * number in facts.axes and number > 0:  # all groups are of one size
        yield _with_sums(rows, rows.sum(1), 0, 2 * number, rng), f"of other sizes with a sum of {length * number}"
        yield from _unlike_sizes(rows)
        return
    if number in facts.axes or number > 1:
        yield rng.integers(1, number, rows.shape, endpoint=True), f"of 1 to {number}"
        yield _replaced(rows, 0, 0), "0 at the start"
    yield number + (places >= (length + 1) // 2), f"{number + 1} in the second half"
    yield number + (places >= 1) + (places >= length - 1), f"of {number}, {number + 1}, ... {number + 2}"
    yield from _beyond(facts, numbers)


def _unlike_sizes(rows: Array) -> _Found:
    """Sizes of groups of which some are empty."""
    if rows.shape[1] > 1:
        moved = np.array(rows)
        moved[:, 1] += moved[:, 0]
        moved[:, 0] = 0
        yield moved, "with an empty first group"
        last = np.zeros_like(rows)
        last[:, -1] = rows.sum(1)
        yield last, "with all in the last group"


def _unlike_mask(facts: GivenFacts, rng: np.random.Generator) -> _Found:
    """Booleans with rows of one value, or of both where all were one."""
    rows = facts.rows
    if facts.fixed:
        if facts.low != facts.high:
            if facts.keeps("sorted") and len(rows) > 1:
                yield _other_lengths(rows, rng), "with rows of other lengths"
            yield _shuffled(rows, rng), "in another order"
        yield _mixed(rng.integers(0, 2, rows.shape), rng), "with both values in every row"
    if len(rows) > 1:
        for place, name in ((0, "first"), (-1, "last")):
            masked = np.array(rows)
            masked[place] = 0
            yield masked, f"False in the {name} row"
    yield _padded(rows, 0), "False in the last quarter"
    for number in (0, 1):
        yield np.full_like(rows, number), f"= {bool(number)} everywhere"


def literals(question: Question) -> list[int]:
    """The integers that equations of either program have as constants, in their order; floats that are whole too.

    Args:
        question: the programs.
    """
    from jax.extend.core import Literal

    numbers: dict[int, None] = {}
    for program in (question.reference, question.variant):
        for equation in equations(live(program).jaxpr):
            for operand in equation.invars:
                value = operand.val if isinstance(operand, Literal) else None
                if value is not None and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf":
                    number = float(value)
                    if math.isfinite(number) and number == int(number) and 1 < abs(number) < 2**31:
                        numbers[int(number)] = None
    return list(numbers)


def _replaced(rows: Array, number: Any, place: int) -> Array:
    """The rows with another number at one place of each."""
    others = np.array(rows)
    others[:, place] = np.reshape(number, -1)
    return others


def _padded(rows: Array, number: int) -> Array:
    """The rows with one number at their end."""
    others = np.array(rows)
    others[:, -max(1, rows.shape[1] // 4) :] = number
    return others


def _restarted(a: Array) -> Array:
    """Places that count up, again from 0 where a number is another one than before it."""
    rows = a.reshape(-1, a.shape[-1])
    return _counting(rows.shape, np.diff(rows, axis=1, prepend=rows[:, :1] - 1) != 0, 0).reshape(a.shape)


_MADE: tuple[Callable[[Array, Array], Array], ...] = (
    lambda a, b: np.bincount(a.reshape(-1), minlength=b.size) if a.max() < b.size else a,
    lambda a, b: a[..., :, None] == a[..., None, :] if a.size * a.shape[-1] == b.size else a,
    lambda a, b: np.tril(a[..., :, None] == a[..., None, :]) if a.size * a.shape[-1] == b.size else a,
    lambda a, b: np.arange(b.shape[-1]) < a[..., None] if a.size * b.shape[-1] == b.size else a,
    lambda a, b: a.sum(-1),
    lambda a, b: np.argsort(a, axis=-1, kind="stable"),
    lambda a, b: np.cumsum(a, -1) - a if a.size == b.size else np.cumsum([0, *a.reshape(-1)]),
    lambda a, b: np.cumsum(a, -1),
    lambda a, b: a > 0,
    lambda a, b: np.roll(a, -1, -1),
    lambda a, b: _restarted(a),
)
"""What is usually made of an array, given also what it may be: sizes of groups, masks, lengths, orders, positions."""


def follows(first: Array, second: Array) -> Callable[[Array], Array | None] | None:
    """How one array is made of another, where it is one of the usual ways; it gives None where it cannot be made.

    Args:
        first: of which it may be made.
        second: what may be made of it.
    """
    a, b = (np.asarray(array).astype(np.int64) for array in (first, second))
    if first.dtype == second.dtype and a.size == b.size and np.array_equal(a.reshape(-1), b.reshape(-1)):
        return partial(_made, lambda array, _: array, b)
    if a.min() == a.max() or np.array_equal(b.reshape(-1), np.arange(b.size)):  # of which all is made that is sorted
        return None
    for make in _MADE:
        others = _made(make, b, a)
        if others is not None and np.array_equal(others, b) and (b.min() != b.max() or make is _MADE[0]):
            return partial(_made, make, b)
    return None


def _made(make: Callable[[Array, Array], Array], like: Array, array: Array) -> Array | None:
    """What is made of an array, in the shape of what was made; None where it cannot be."""
    try:
        return np.asarray(np.reshape(make(np.squeeze(array.astype(np.int64)), np.squeeze(like)), like.shape))
    except (ValueError, IndexError):  # of other shapes, or such as the size of a group that there is not
        return None
