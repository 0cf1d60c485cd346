"""The dependence of matrix products: a factor that is known to be zero cuts the path of the other one."""

from __future__ import annotations

import numpy as np

from samebits.interpret import dot_general
from samebits.interpret.dependence.elementwise import FINITE, NotingDomain
from samebits.interpret.dependence.sets import Numbers, SetTable
from samebits.interpret.dependence.value import FILLER, KNOWN, OPEN, Dependent, number_dtype
from samebits.interpret.equation import Array, Step


def product(domain: NotingDomain, step: Step, left: Dependent, right: Dependent) -> Dependent:
    """Return the product: each element depends on the factors of each pair neither of which is known to be zero."""
    table = domain.table
    if step.output.is_float and ((~used(left)).any() or (~used(right)).any()):
        domain.assume(FINITE)
    a, b, finish = dot_general.matrix_form(step, left.sets, right.sets)
    used_a, used_b, _ = dot_general.matrix_form(step, used(left), used(right))
    sets = np.stack(
        [
            table.union(_one_side(table, *each), _one_side(table, *_turned(each)).T)
            for each in zip(a, b, used_a, used_b, strict=True)
        ]
    )
    known_a, known_b, _ = dot_general.matrix_form(step, left.known(), right.known())
    open_pairs = _counted(~known_a, used_b) + _counted(used_a, ~known_b)
    known = open_pairs == 0
    kind = number_dtype(step.output)
    numbers: Array = np.broadcast_to(kind.type(FILLER), known.shape)
    if known.any():
        x, y, _ = dot_general.matrix_form(step, left.numbers, right.numbers)
        with np.errstate(all="ignore"):
            numbers = np.where(known, np.matmul(np.where(used_a, x, 0), np.where(used_b, y, 0)), FILLER)
    states = np.where(known, np.int8(KNOWN), np.int8(OPEN))
    return Dependent(finish(np.where(known, np.int32(0), sets)), finish(states), finish(numbers.astype(kind)))


def used(value: Dependent) -> Array:
    """Return which elements are not known to be zero."""
    return ~value.equals(0)


def _counted(x: Array, y: Array) -> Array:
    """Return how many pairs of places are both true: `[batch, m, n]`."""
    pairs: Array = np.matmul(x.astype(np.float32), y.astype(np.float32))
    return pairs


def _turned(each: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    a, b, used_a, used_b = each
    return b.T, a.T, used_b.T, used_a.T


def _one_side(table: SetTable, a: Numbers, b: Numbers, used_a: Array, used_b: Array) -> Numbers:
    """Return the unions of the left factors `[m, k]` where neither factor is zero, by row and column: `[m, n]`.

    Columns that are zero at the same places are one; so are rows of equal sets.
    """
    if not a.any():
        return np.zeros((a.shape[0], b.shape[1]), np.int32)
    rows, row_places = _unique_rows(np.where(used_a, a, 0))
    columns, column_places = _unique_rows(used_b.T)
    result = np.empty((len(rows), len(columns)), np.int32)
    for number, column in enumerate(columns):
        result[:, number] = table.of_axis(rows[:, column], 1)
    return np.asarray(result[row_places][:, column_places])


def _unique_rows(array: Array) -> tuple[Array, Array]:
    """Return the different rows, and the place of each row among them."""
    if array.shape[0] < 2 or (array == array[:1]).all():
        return array[:1], np.zeros(array.shape[0], np.int64)
    plain = np.ascontiguousarray(array)
    keys = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).reshape(-1)
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    return plain[first], places.reshape(-1)
