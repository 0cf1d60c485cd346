"""Integers at which a condition of either program comes out as it did at no value tried.

A number at which `step // 100 == 7` holds is not a constant of the program, no end of a range, and seldom drawn. z3 is
asked for it; every question ends after a fixed number of its steps, the same on every machine. A condition with floats
in it, such as `step / total > 0.37`, is followed along one integer at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.conditions import Condition, ElementTerm, both, conditions, value_of
from samebits.interpret.crossings import crossings
from samebits.interpret.equation import Array
from samebits.interpret.integer_solver import IntegerSolver
from samebits.interpret.problem import Question

MOST = 16
"""How many solutions are tried, of conditions and of two of them together."""

LANES = 512
"""How many elements of an array are looked at."""

_RARE = 12  # conditions of which two are asked for at once

_STEPS = 256  # between so many numbers of a range a condition with floats is followed

Solution = dict[int, int]
"""By number of an input, an integer."""


def solutions(question: Question, tried: Sequence[Question]) -> Iterator[Solution]:
    """Integers of free inputs at which conditions come out as at nothing that was tried; then two conditions at once.

    Args:
        question: the programs and their inputs.
        tried: the questions that were evaluated already.
    """
    ranges = {
        number: argument.integers
        for number, argument in enumerate(question.inputs)
        if argument.integers is not None
        and (argument.magnitudes == "all" or (argument.magnitudes == "given" and argument.values.size == 1))
        and argument.values.size
    }
    sides: dict[int, tuple[ElementTerm, Condition]] = {}
    for each in (question.reference, question.variant) if ranges else ():
        for condition in conditions(each):
            own = [side for side in condition.sides() if side.inputs and side.inputs <= ranges.keys()]
            sides |= {side.key: (side, condition) for side in own}
    if not sides:
        return
    tried_at, rare, solver = _TriedIntegers([question, *tried], ranges), list[tuple[ElementTerm, Condition]](), None
    count = 0
    for side, decision in _wanted(sides.values(), rare):
        if decision is not None and decision.compared and len(rare) < _RARE and not tried_at.often(side):
            rare.append((side, decision))
        if tried_at.takes(side):
            continue
        solver = solver or IntegerSolver(ranges, max(question.inputs[number].values.itemsize * 8 for number in ranges))
        try:
            solution = solver.solution(side)
        except NotCovered:
            solution = None if decision is None else _along(decision, side, tried_at.inputs, ranges)
        if solution is not None:
            tried_at.add(solution)
            yield solution
            count += 1
            if count == MOST:
                return


def _wanted(
    sides: Iterable[tuple[ElementTerm, Condition]], rare: Sequence[tuple[ElementTerm, Condition]]
) -> Iterator[tuple[ElementTerm, Condition | None]]:
    """What is asked for: each side, and then two at once of those that were rare."""
    yield from sides
    # Only then is it known which are rare.
    for (first, own), (second, other) in combinations(tuple(rare), 2):
        if own is not other:
            yield both(first, second), None


class _TriedIntegers:
    """The integers that were tried, of every input as many, side by side."""

    def __init__(self, questions: Sequence[Question], ranges: Mapping[int, tuple[int, int]]) -> None:
        each: dict[int, list[Array]] = {number: [] for number in ranges}
        for question in questions:
            count = min(max(np.size(question.inputs[number].values) for number in ranges), LANES)
            for number, arrays in each.items():
                arrays.append(np.resize(question.inputs[number].values, count))
        self.inputs = {number: np.concatenate(arrays) for number, arrays in each.items()}
        self._known: dict[int, Array] = {}
        self._first = {number: arrays[0] for number, arrays in each.items()}
        self._known_first: dict[int, Array] = {}

    def often(self, side: ElementTerm) -> bool:
        """Whether a condition comes out like this at an eighth of the elements of the case or more."""
        return bool(np.mean(value_of(side, self._first, self._known_first)) >= 0.125)

    def takes(self, side: ElementTerm) -> bool:
        """Whether a condition came out like this."""
        return bool(np.any(value_of(side, self.inputs, self._known)))

    def add(self, solution: Solution) -> None:
        """One element more, with the numbers of a solution."""
        for number, values in self.inputs.items():
            self.inputs[number] = np.append(values, np.asarray(solution.get(number, values[0]), values.dtype))
        self._known.clear()


def _along(
    condition: Condition, side: ElementTerm, tried: Mapping[int, Array], ranges: Mapping[int, tuple[int, int]]
) -> Solution | None:
    """Integers at which a condition with floats in it comes out like this: one input changes from what was tried."""
    rows = min(MOST, *(values.size for values in tried.values()))
    for number, row in product(sorted(side.inputs), range(rows)):
        others = {other: values[[row]] for other, values in tried.items() if other != number}
        low, high = ranges[number]
        numbers = dict.fromkeys(low + (high - low) * step // _STEPS for step in range(_STEPS + 1))
        values = crossings(condition, number, others, np.array(list(numbers), tried[number].dtype))
        at = {other: np.resize(each, values.size) for other, each in others.items()} | {number: values}
        holds = values[np.broadcast_to(value_of(side, at, {}), values.shape)]
        if holds.size:
            return {other: int(holds[0] if other == number else tried[other][row]) for other in side.inputs}
    return None
