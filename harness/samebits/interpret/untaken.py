"""Integers at which a condition of either program comes out as it did at no value tried.

A number at which `step // 100 == 7` holds is not a constant of the program, no end of a range, and seldom drawn. z3 is
asked for it; every question ends after a fixed number of its steps, the same on every machine. A condition with floats
in it, such as `step / total > 0.37`, is followed along one integer at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.conditions import Condition, ElementTerm, both, conditions, value_of
from samebits.interpret.equation import Array
from samebits.interpret.integer_solver import IntegerSolver
from samebits.interpret.problem import Question

MOST = 16
"""How many solutions are tried, of conditions and of two of them together."""

LANES = 512
"""How many elements of an array are looked at."""

_RARE = 12  # conditions of which two are asked for at once

_STEPS = 256  # between so many numbers of a range a condition with floats is followed

Ranges = Mapping[int, tuple[int, int]]
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
    return islice(_solutions(question, tried, ranges, list(sides.values())), MOST)


def _solutions(
    question: Question, tried: Sequence[Question], ranges: Ranges, sides: Sequence[tuple[ElementTerm, Condition]]
) -> Iterator[Solution]:
    solver, at = None, _elements([question], ranges)
    known: dict[int, Array] = {}
    rare = [each for each in sides if np.mean(value_of(each[0], at, known)) < 0.125][:_RARE]
    pairs = ((both(side, other), None) for (side, own), (other, of) in combinations(rare, 2) if own is not of)
    at, known = _elements([question, *tried], ranges), {}
    for side, condition in chain(sides, pairs):
        if np.any(value_of(side, at, known)):
            continue
        solver = solver or IntegerSolver(ranges, max(question.inputs[number].values.itemsize * 8 for number in ranges))
        try:
            solution = solver.solution(side)
        except NotCovered:
            solution = None if condition is None else _along(condition, side, at, ranges)
        if solution is not None:
            at = {n: np.append(each, np.asarray(solution.get(n, each[0]), each.dtype)) for n, each in at.items()}
            known = {}
            yield solution


def _elements(questions: Sequence[Question], ranges: Ranges) -> dict[int, Array]:
    """The integers of some questions, of every input as many, side by side."""
    each: dict[int, list[Array]] = {number: [] for number in ranges}
    for question in questions if ranges else ():
        count = min(max(np.size(question.inputs[number].values) for number in ranges), LANES)
        for number, arrays in each.items():
            arrays.append(np.resize(question.inputs[number].values, count))
    return {number: np.concatenate(arrays) for number, arrays in each.items()}


def _along(condition: Condition, side: ElementTerm, tried: Mapping[int, Array], ranges: Ranges) -> Solution | None:
    """Integers at which a condition with floats in it comes out like this: one input changes from what was tried."""
    rows = min(MOST, *(values.size for values in tried.values()))
    for number, row in product(sorted(side.inputs), range(rows)):
        others = {other: values[[row]] for other, values in tried.items() if other != number}
        low, high = ranges[number]
        numbers = dict.fromkeys(low + (high - low) * step // _STEPS for step in range(_STEPS + 1))
        values = condition.crossings(number, others, np.array(list(numbers), tried[number].dtype))
        holds = values[np.broadcast_to(value_of(side, {**others, number: values}, {}), values.shape)]
        if holds.size:
            return {other: int(holds[0] if other == number else tried[other][row]) for other in side.inputs}
    return None
