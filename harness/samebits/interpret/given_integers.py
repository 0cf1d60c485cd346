"""Other integers and booleans than those of arrays that were given, which are examples of what may be given.

What an array has that a random one would not are its facts: the order of its rows, that they are permutations or have a
sum, how many elements of a row are true, the range. Other arrays with the same facts may be given, unless the array is
nothing but its own structure, such as positions 0, 1, 2 or a mask of ones. All others perhaps do not occur: numbers
around the range, at and beyond the size of an axis, negative ones, rows of one value, padding. Arrays that are made of
others in a usual way, such as the sizes of groups of expert ids, change with these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array
from samebits.interpret.inner_equations import equations
from samebits.interpret.problem import Input, Question
from samebits.numerics.seeds import generator

_LONG = 4  # elements of a row that are not sorted by chance, or rows whose columns do not differ by chance
_TUPLES = 8  # up to so many columns may be of different things each
_IGNORED = -100  # the label that a loss ignores, by the custom of the field
_HASH = 2.0**56  # from here on sums and steps of numbers may leave int64
_ADDRESSING = ("gather", "scatter", "scatter-add", "scatter_add", "dynamic_slice", "dynamic_update_slice")


class Variation(NamedTuple):
    """Other values of a given array, how they are, in words, and whether they have all of its facts."""

    values: Array
    words: str
    like: bool


class GivenFact(NamedTuple):
    """What a given array has: whether other rows do, how it is printed, and whether rows without it are not tried."""

    holds: Callable[[Array], bool]
    words: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class GivenFacts:
    """What a given array has that a random one would not.

    Args:
        rows: the array in int64, as rows along its last axis of more than one element.
        axes: the sizes of axes that it may index.
        fixed: no other array has all of its facts.
        facts: by name.
    """

    rows: Array
    boolean: bool
    axes: Sequence[int]
    fixed: bool
    facts: Mapping[str, GivenFact]

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        return int(self.rows.min()), int(self.rows.max())

    def __contains__(self, name: str) -> bool:
        return name in self.facts

    def __str__(self) -> str:
        low, high = self.ends
        if low == high:
            return f"{bool(low) if self.boolean else low} everywhere"
        words = ("" if self.boolean else f"{low} to {high}", *(fact.words for fact in self.facts.values()))
        return ", ".join(filter(None, words)) or "both values"


def facts_of(argument: Input, question: Question) -> GivenFacts:
    """The facts of a given array."""
    array, boolean = np.asarray(argument.values).astype(np.int64), argument.values.dtype.kind == "b"
    rows = array.reshape(-1, next((size for size in reversed(array.shape) if size > 1), 1))
    step, low = np.diff(rows, axis=1), array.min()
    evenly = np.ptp(step) == 0 and (abs(step[0, 0]) == 1 or rows.shape[1] > 2)
    counts_up = np.all((step == 1) | (rows[:, 1:] == low)) and np.all(rows[:, 0] == low)
    fixed = bool(np.ptp(array) == 0 or evenly or (_is_regular(array) if boolean else counts_up))
    axes = _axes(question, argument)
    facts = _of_mask(rows, array.shape, fixed) if boolean else _of_integers(rows, fixed, axes, _has_sums(question))
    return GivenFacts(rows, boolean, axes, fixed, facts)


def _of_mask(rows: Array, shape: tuple[int, ...], fixed: bool) -> dict[str, GivenFact]:
    """The facts of booleans."""
    facts, counts = {}, rows.sum(1)
    if _is_sorted(rows):
        facts["sorted"] = GivenFact(_is_sorted, "sorted", needed=not fixed)
    if len(rows) > 1 and np.ptp(counts) == 0:
        facts["sums"] = _same_sums(rows, f"{counts[0]} of {rows.shape[1]} in each row")
    full = [axis for axis in range(len(shape)) if rows.reshape(shape).any(axis).all()]
    facts["both"] = GivenFact(lambda others: bool(others.min() < others.max()))
    facts["occurs"] = GivenFact(lambda others: all(others.reshape(shape).any(axis).all() for axis in full))
    return facts


def _of_integers(rows: Array, fixed: bool, axes: Sequence[int], has_sums: bool) -> dict[str, GivenFact]:
    """The facts of integers."""
    low, high, (count, length), each = rows.min(), rows.max(), rows.shape, " in each row" * (len(rows) > 1)
    sums, numbers, steps = rows.sum(1), np.unique(rows), np.diff(rows, axis=1)
    is_order = low == 0 and high == length - 1 > 1 and _is_permutation(rows)
    inside = GivenFact(
        lambda others: bool(low <= others.min() < others.max() <= high), needed=is_order and length in axes
    )
    facts = {"range": inside}
    if is_order:
        return facts | {"order": GivenFact(_is_permutation, f"a permutation{each}", inside.needed and not fixed)}
    if low >= 0 and high and (has_sums or low == high) and np.ptp(sums) == 0 and sums[0] in axes:
        return facts | {"sums": _same_sums(rows, f"a sum of {sums[0]}", needed=True)}
    ordered, distinct, flat = _is_sorted(rows), _is_distinct(rows), _is_distinct(rows.reshape(1, -1))
    if length > 2 and low == 0 and high in axes and ordered and steps.max() > 1:
        ends = rows[:, [0, -1]]  # where groups begin, and where the last one ends
        facts["offsets"] = GivenFact(lambda others: np.array_equal(others[:, [0, -1]], ends), "offsets", needed=True)
    if length >= _LONG and ordered:
        facts["sorted"] = GivenFact(_is_sorted, "sorted", needed=distinct and not (fixed and 1 in abs(steps)))
    if length >= _LONG and low != high and not distinct and _is_grouped(rows):
        facts["groups"] = GivenFact(_is_grouped, "" if ordered else "in groups", needed=True)
    if distinct:
        is_distinct = GivenFact(lambda others: _is_distinct(others.reshape(1, -1) if flat else others))
        facts["distinct"] = is_distinct._replace(words="distinct" if flat else "distinct in each row")
    is_segment = not {"sorted", "groups"}.isdisjoint(facts)
    if (low, high) == (0, 1) and count > 1 and np.ptp(sums) == 0 and not is_segment:
        facts["sums"] = _same_sums(rows, f"{sums[0]} of {length} in each row")
    elif low >= 0 and high > 1 and has_sums and axes and sums.max() <= max(axes):
        facts["sums"] = _same_sums(rows, "its sum" if count == 1 else "the sums of rows")
    elif numbers.size > high - low:
        facts["occurs"] = GivenFact(lambda others: np.array_equal(np.unique(others), numbers))
    first, last = rows.min(0), rows.max(0)
    if count >= _LONG and 1 < length <= _TUPLES and not is_segment and last.max() > 2 * last.min():
        facts["columns"] = GivenFact(lambda others: bool(np.all((others >= first) & (others <= last))), "its columns")
    return facts


def _same_sums(rows: Array, words: str, *, needed: bool = False) -> GivenFact:
    sums = rows.sum(1)
    return GivenFact(lambda others: np.array_equal(others.sum(1), sums), words, needed)


def _is_permutation(rows: Array) -> bool:
    return bool(np.all(np.sort(rows, axis=1) == np.arange(rows.shape[1])))


def _is_sorted(rows: Array) -> bool:
    steps = np.diff(rows, axis=1)
    return bool(np.all(steps >= 0) or np.all(steps <= 0))


def _is_distinct(rows: Array) -> bool:
    return bool(np.all(np.diff(np.sort(rows, axis=1), axis=1) > 0))


def _is_grouped(rows: Array) -> bool:
    """Whether equal numbers of a row lie together, as those of segments with padding do."""
    return all(1 + np.count_nonzero(np.diff(row)) == np.unique(row).size for row in rows)


def _is_regular(mask: Array) -> bool:
    """Whether a mask is of matrices that are triangular, symmetric, or the same along each diagonal, as windows are."""
    if mask.ndim < 2 or min(mask.shape[-2:]) < 2:
        return False
    square = mask.shape[-1] == mask.shape[-2]
    return bool(
        np.all(mask[..., 1:, 1:] == mask[..., :-1, :-1])
        or (square and (not np.any(np.triu(mask, 1)) or np.array_equal(mask, np.swapaxes(mask, -1, -2))))
    )


def given_arrays(question: Question) -> list[Input]:
    """The inputs that are given arrays of several integers or booleans; not hashes, which fill 64 bits."""
    arrays = [each for each in question.inputs if each.integers and each.magnitudes == "given" and each.values.size > 1]
    return [each for each in arrays if np.abs(each.values.astype(np.float64)).max() < _HASH]


def like_given(question: Question, names: Sequence[str]) -> tuple[str, ...]:
    """Names of inputs, of given arrays of integers and booleans with their facts where others are tried."""
    words = {each.name: f"{each.name} (given: {facts_of(each, question)})" for each in given_arrays(question)}
    return tuple(words.get(name, name) for name in names)


def _equations(question: Question) -> Iterator[Any]:
    for program in question.sides:
        yield from equations(live(program).jaxpr)


def _axes(question: Question, argument: Input) -> list[int]:
    """The sizes of the axes that integers may index: those of operands that are addressed, then those of all inputs."""
    shapes = [each.invars[0].aval.shape for each in _equations(question) if each.primitive.name in _ADDRESSING]
    others = {size for each in question.inputs if each is not argument for size in each.values.shape}
    return [*dict.fromkeys((*(size for shape in shapes for size in sorted(map(int, shape))), *sorted(others)))]


def _has_sums(question: Question) -> bool:
    """Whether a program adds integers up, or takes the sizes of groups: their sum may then be that of an axis."""
    names = {equation.primitive.name for equation in _equations(question)}
    return bool(names & {"cumsum", "ragged_dot", "ragged_dot_general"})


def literals(question: Question) -> list[int]:
    """The integers that equations of either program have as constants, in their order; floats that are whole too."""
    operands = [operand for equation in _equations(question) for operand in equation.invars if hasattr(operand, "val")]
    values = [np.asarray(operand.val) for operand in operands]
    numbers = [float(value) for value in values if value.ndim == 0 and value.dtype.kind in "iuf"]
    return list(dict.fromkeys(int(each) for each in numbers if each.is_integer() and 1 < abs(each) < 2**31))


def variations(argument: Input, question: Question, known: GivenFacts) -> Iterator[Variation]:
    """Other values of a given array, the nearest first."""
    rng = generator("given integers", argument.name, str(argument.values.shape))
    limits = np.iinfo(np.uint8) if known.boolean else np.iinfo(argument.values.dtype)
    facts, seen = known.facts.values(), [argument.values]
    numbers = [number for number in literals(question) if limits.min <= number <= limits.max]
    for rows, words in _other_masks(known, rng) if known.boolean else _other_integers(known, numbers, rng):
        if rows.min() >= limits.min and rows.max() <= limits.max and all(f.holds(rows) for f in facts if f.needed):
            values = rows.reshape(argument.values.shape).astype(argument.values.dtype)
            if not any(np.array_equal(values, other) for other in seen):
                seen.append(values)
                yield Variation(values, words, not known.fixed and all(fact.holds(rows) for fact in facts))


_Found = Iterator[tuple[Array, str]]


def _other_masks(known: GivenFacts, rng: np.random.Generator) -> _Found:
    """Other booleans: some with the facts of those given, then rows of one value."""
    rows, (count, length) = known.rows, known.rows.shape
    if "sorted" in known and count > 1:
        lengths = rng.integers(rows.sum(1).min(), rows.sum(1).max(), (count, 1), endpoint=True)
        first = np.asarray(np.arange(length) < lengths, np.int64)
        yield first if np.all(np.diff(rows, axis=1) <= 0) else first[:, ::-1], "with rows of other lengths"
    yield _shuffled(rows, rng), "in another order"
    both = rng.permuted(np.hstack([rng.integers(0, 2, (count, length - 2)), np.tile([0, 1], (count, 1))]), axis=1)
    if known.fixed:
        yield both, "with both values in every row"
    elif "sums" not in known:
        yield np.where(np.ptp(rows, axis=1)[:, None] == 0, rows, both), "drawn anew"
    for row, name in ((0, "first"), (-1, "last")) if count > 1 else ():
        yield _changed(rows, np.s_[row], 0), f"False in the {name} row"
    yield _changed(rows, _end(rows), 0), "False in the last quarter"
    for number in (0, 1):
        yield np.full_like(rows, number), f"= {bool(number)} everywhere"


def _other_integers(known: GivenFacts, numbers: Sequence[int], rng: np.random.Generator) -> _Found:
    """Other integers: some with the facts of those given, then less and less like them."""
    rows, (low, high) = known.rows, known.ends
    if "columns" in known:
        yield rng.permutation(rows), "with its rows in another order"
    elif "groups" in known:
        yield from _regrouped(rows, rng)
    elif low != high or "sums" in known:
        if "sorted" in known or "offsets" in known:
            steps = np.diff(rows, axis=1)
            drawn = _same_sum(abs(steps), int("distinct" in known), abs(steps).sum(1).max(), rng)
            others = np.cumsum(np.hstack([rows[:, :1], np.sign(steps.sum()) * drawn]), axis=1)
            yield others, "with other numbers between its ends"
        yield _shuffled(rows, rng), "in another order"
        yield from _redrawn(known, rng)
        between = [number for number in numbers if low <= number <= high and number not in rows][: rows.size]
        if between and not {"distinct", "sums"} & {*known.facts}:
            yield _changed(rows, np.unravel_index(range(len(between)), rows.shape), between), f"with {between}"
    else:
        yield from _instead_of_one(known, rng)
    if "distinct" in known:
        yield _changed(rows, np.s_[:, 1], rows[:, 0]), "with a number twice"
    yield from _beyond(known, numbers)


def _redrawn(known: GivenFacts, rng: np.random.Generator) -> _Found:
    """Rows whose numbers are drawn anew from the range; every number of the array occurs where it may."""
    rows, (low, high) = known.rows, known.ends
    if "sums" in known:
        ends = (low, high) if low != high else (0, 2 * high)
        yield _same_sum(rows, *ends, rng), "drawn anew, with the sum that it has"
        if known.facts["sums"].needed:  # sizes of groups
            sums = rows[:, :2].sum(1)
            yield _changed(rows, np.s_[:, :2], np.stack([0 * sums, sums], 1)), "with an empty first group"
            yield _changed(0 * rows, np.s_[:, -1], rows.sum(1)), "with all in the last group"
    elif known.fixed and 1 in abs(np.diff(rows, axis=1)):
        yield _counting(rng.integers(0, 3, rows.shape) == 0, low), "counting up from several places"
    elif "distinct" in known:
        parts = rows.reshape(1, -1) if _is_distinct(rows.reshape(1, -1)) else rows
        anew = [low + rng.choice(high - low + 1, part.size, replace=False) for part in parts]
        yield np.reshape(anew, rows.shape), "drawn anew"
    elif "order" not in known and not known.fixed:
        present = np.unique(rows)
        drawn = rng.integers(present[present != _IGNORED].min(), high, rows.shape, endpoint=True)
        places = np.unravel_index(rng.permutation(drawn.size)[: present.size], rows.shape)
        yield _changed(drawn, places, present), "drawn anew"


def _instead_of_one(known: GivenFacts, rng: np.random.Generator) -> _Found:
    """Instead of one number: other lengths, two segments, boundaries at both ends."""
    rows, number, length = known.rows, known.ends[0], known.rows.shape[1]
    places = np.arange(length)
    if number in known.axes or number > 1:
        yield rng.integers(1, number, rows.shape, endpoint=True), f"of 1 to {number}"
    yield rows + (places >= (length + 1) // 2), f"{number + 1} in the second half"
    yield rows + (places >= 1) + (places >= length - 1), f"of {number}, {number + 1}, ... {number + 2}"


def _beyond(known: GivenFacts, numbers: Sequence[int]) -> _Found:
    """Numbers beside the range: those of the programs, negative, at and beyond the size of an axis; padding."""
    rows, (low, high) = known.rows, known.ends
    falls = low != high and np.all(np.diff(rows, axis=1) <= 0)
    size = next((size for size in known.axes if size > high), high + 1)
    beside = [number for number in numbers if not low <= number <= high][:3]
    beside += [*((-1, _IGNORED) if low >= 0 else ()), *((0,) if low > 0 else ()), size - 1, size, 2 * size + 1]
    for number in dict.fromkeys(number for number in beside if not low <= number <= high):
        at_start = (number < low) != falls
        words = f"{number} at the {'start' if at_start else 'end'}"
        yield _changed(rows, np.s_[:, 0 if at_start else -1], number), words
    for number in (-1, 0):
        if number < low:
            yield _changed(rows, _end(rows), number), f"{number} in the last quarter"
    for number in (low, high):
        yield np.full_like(rows, number), f"= {number} everywhere"


def _regrouped(rows: Array, rng: np.random.Generator) -> _Found:
    """Rows of the same numbers in the same order, each of them another number of times, but once at least."""
    for how in ("other boundaries", "boundaries at the start", "boundaries at the end"):
        others = np.array(rows)
        for row in others:
            starts = np.flatnonzero(np.diff(row, prepend=row[0] - 1))
            lengths = np.ones_like(starts)
            if how == "other boundaries":
                lengths = _same_sum(np.diff(starts, append=row.size)[None], 1, row.size, rng)[0]
            lengths[0 if how.endswith("end") else -1] += row.size - lengths.sum()
            row[:] = np.repeat(row[starts], lengths)
        yield others, f"with {how}"


def _shuffled(rows: Array, rng: np.random.Generator) -> Array:
    others = rng.permuted(rows, axis=1)
    return np.roll(rows, 1, axis=1) if np.array_equal(others, rows) else others


def _same_sum(rows: Array, low: int, high: int, rng: np.random.Generator) -> Array:
    """Rows of other numbers of a range with the sums that they have."""
    others = np.full(rows.shape, low, np.int64)
    for row, total in zip(others, rows.sum(1).tolist(), strict=True):
        row += np.minimum(rng.multinomial(total - low * row.size, rng.dirichlet(np.ones(row.size))), high - low)
        for place in rng.permutation(row.size):  # what was beyond the range
            row[place] += min(high - int(row[place]), total - int(row.sum()))
    return np.roll(rows, 1, axis=1) if np.array_equal(others, rows) else others


def _counting(starts: Array, low: int) -> Array:
    """Rows that count up, again from the lowest number at some places."""
    places = np.broadcast_to(np.arange(starts.shape[-1]), starts.shape)
    return np.asarray(low + places - np.maximum.accumulate(np.where(starts, places, 0), axis=-1))


def _changed(rows: Array, place: Any, number: Any) -> Array:
    """The rows with other numbers at one place."""
    others = np.array(rows)
    others[place] = number
    return others


def _end(rows: Array) -> Any:
    """The last quarter of each row."""
    return np.s_[:, -max(1, rows.shape[1] // 4) :]


def _pairs(a: Array, b: Array) -> Array:
    return a[..., :, None] == a[..., None, :] if a.size * a.shape[-1] == b.size else a


_MADE: tuple[Callable[[Array, Array], Array], ...] = (
    lambda a, b: a,
    lambda a, b: np.bincount(a.reshape(-1), minlength=b.size) if a.max() < b.size else a,
    _pairs,
    lambda a, b: np.tril(_pairs(a, b)),
    lambda a, b: np.arange(b.shape[-1]) < a[..., None] if a.size * b.shape[-1] == b.size else a,
    lambda a, b: a.sum(-1),
    lambda a, b: np.argsort(a, axis=-1, kind="stable"),
    lambda a, b: np.cumsum(a, -1) - a if a.size == b.size else np.cumsum([0, *a.reshape(-1)]),
    lambda a, b: np.cumsum(a, -1),
    lambda a, b: a > 0,
    lambda a, b: np.roll(a, -1, -1),
    lambda a, b: _counting(np.diff(a, axis=-1, prepend=a[..., :1]) != 0, 0),
)
"""What is usually made of an array, given also what it may be: itself, sizes of groups, masks, lengths, positions."""


def follows(first: Array, second: Array) -> Callable[[Array], Array | None] | None:
    """How one array is made of another, where it is one of the usual ways; it gives None where it cannot be made."""
    a, b = (np.asarray(array).astype(np.int64) for array in (first, second))
    # An array of one number makes nothing but itself, and positions are made of all that is sorted.
    says_little = np.ptp(a) == 0 or np.array_equal(b.reshape(-1), np.arange(b.size))
    ways = _MADE[: 1 if says_little else 2 if np.ptp(b) == 0 else None]
    candidates = (partial(_made, make, b) for make in ways)
    return next((how for how in candidates if (again := how(a)) is not None and np.array_equal(again, b)), None)


def _made(make: Callable[[Array, Array], Array], like: Array, array: Array) -> Array | None:
    """What is made of an array, in the shape of what was made; None where it cannot be."""
    try:
        return np.asarray(np.reshape(make(np.squeeze(array.astype(np.int64)), np.squeeze(like)), like.shape))
    except (ValueError, IndexError):  # of other shapes, or such as the size of a group that there is not
        return None
