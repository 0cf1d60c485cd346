"""Sets of groups of input elements, each held once: an array of a million elements holds a number for each."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
"""For each element, the number of its set; 0 is the empty set."""

_DENSE = 8
"""A table of all pairs of sets needs no sorting; it has at most so many entries for each element."""


class SetTable:
    """The sets of one interpretation.

    Args:
        groups: how many groups of input elements there are.
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self._words = max(math.ceil(groups / 64), 1)
        self._bits = np.zeros((64, self._words), np.uint64)
        self._numbers = {self._bits[0].tobytes(): 0}

    def __len__(self) -> int:
        return len(self._numbers)

    def single(self, groups: NDArray[np.int64]) -> Numbers:
        """Return the sets of one group each; of a negative number the empty set."""
        known = np.unique(groups)
        rows = np.zeros((known.size, self._words), np.uint64)
        for row, group in zip(rows, known.tolist(), strict=True):
            if group >= 0:
                row[group // 64] = np.uint64(1 << (group % 64))
        return self._interned(rows)[np.searchsorted(known, groups)]

    def union(self, first: Numbers, second: Numbers) -> Numbers:
        """Return the unions, element by element."""
        if first is second or not second.any():
            return first
        if not first.any():
            return second
        low, high = np.minimum(first, second), np.maximum(first, second)
        count = len(self)
        pairs = low.astype(np.int64) * count + high
        dense = count * count <= _DENSE * pairs.size
        if dense:
            present = np.zeros(count * count, bool)
            present[pairs] = True
            unique = np.flatnonzero(present)
        else:
            unique = np.unique(pairs)
        lower, higher = unique // count, unique % count
        united = np.where(lower == higher, lower, -1).astype(np.int32)
        united[lower == 0] = higher[lower == 0]
        open_pairs = np.flatnonzero(united < 0)
        united[open_pairs] = self._interned(self._bits[lower[open_pairs]] | self._bits[higher[open_pairs]])
        if dense:
            table = np.zeros(count * count, np.int32)
            table[unique] = united
            return table[pairs]
        return united[np.searchsorted(unique, pairs)]

    def of_axis(self, numbers: Numbers, axis: int) -> Numbers:
        """Return the union over an axis."""
        numbers = np.moveaxis(numbers, axis, 0)
        if not numbers.shape[0]:
            return np.zeros(numbers.shape[1:], np.int32)
        if (numbers == numbers[:1]).all():
            return np.asarray(numbers[0])
        while numbers.shape[0] > 1:
            half = numbers.shape[0] // 2
            both = self.union(numbers[:half], numbers[half : 2 * half])
            numbers = both if numbers.shape[0] % 2 == 0 else np.concatenate([both, numbers[-1:]])
        return np.asarray(numbers[0])

    def of_axes(self, numbers: Numbers, axes: Iterable[int]) -> Numbers:
        """Return the union over axes."""
        for axis in sorted((axis % numbers.ndim for axis in axes), reverse=True):
            numbers = self.of_axis(numbers, axis)
        return numbers

    def members(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which groups are in the union of sets: `[groups]`."""
        united = np.bitwise_or.reduce(self._bits[np.unique(numbers)], axis=0)
        return np.unpackbits(united.view(np.uint8), bitorder="little")[: self.groups].astype(bool)

    def without(self, numbers: Numbers, group: int, beside: int) -> Numbers:
        """Return the sets without a group, where they hold another group too."""
        word, bit = group // 64, np.uint64(1 << (group % 64))
        other_word, other = beside // 64, np.uint64(1 << (beside % 64))
        rows = self._bits[: len(self)].copy()
        hit = ((rows[:, word] & bit) != 0) & ((rows[:, other_word] & other) != 0)
        if not hit.any():
            return numbers
        changed = np.arange(len(rows), dtype=np.int32)
        rows[hit, word] &= ~bit
        changed[hit] = self._interned(rows[hit])
        return changed[numbers]

    def _interned(self, rows: NDArray[np.uint64]) -> Numbers:
        """Return the numbers of sets given by their bits."""
        numbers = np.empty(len(rows), np.int32)
        for place, row in enumerate(rows):
            count = len(self._numbers)
            numbers[place] = number = self._numbers.setdefault(row.tobytes(), count)
            if number == count:
                if count == len(self._bits):
                    self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
                self._bits[count] = row
        return numbers
