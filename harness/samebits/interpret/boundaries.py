"""Floats at which a condition of either program is a tie: `x > 0.5` and `x >= 0.5` differ at 0.5 alone.

A tie is looked for along one element of one input at a time, by bisection of what a program compares: at a literal,
behind a shift or a scale, at the end of a clip, at the halves and integers at which numbers are rounded. Each is put
into an element of its own, of all inputs in one evaluation; then its neighbours are.

Rounding decides which side of a tie a product comes out on, in float64 too, so both programs are evaluated there with
numbers that are equal up to rounding as equal ones: `x * 0.1 > 0.3` and `x / 10 > 0.3` are one condition, at 3 too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from samebits.interpret import literals
from samebits.interpret.conditions import Condition, conditions, value_of
from samebits.interpret.crossings import crossings
from samebits.interpret.equation import Array
from samebits.interpret.oracle import CLOSE
from samebits.interpret.problem import Input, Question
from samebits.numerics import floats

MOST = 32
"""How many ties are tried; as many neighbours."""

BATCHES = 6
"""How often both programs are evaluated: the ties of an array with few elements, and of scalars, need several."""

_POWERS = 2.0 ** np.arange(-14, 15)
_GRID = np.sort(np.concatenate([[0.0], *(sign * scale * _POWERS for sign in (-1, 1) for scale in (1.0, 1.37))]))

_Tie = tuple[int, int, float]  # the number of an input, the place of an element, and its value


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Inputs with ties in some of their elements.

    Args:
        question: the programs, with these inputs.
        words: which numbers, in words.
        declared: each lies in a range that is declared for its input.
    """

    question: Question
    words: str
    declared: bool


def boundaries(question: Question) -> Iterator[Boundaries]:
    """The question with ties in elements of its free float inputs: those of arrays together, scalars one by one."""
    ties = list(islice(_ties(question), MOST))
    beside = [each for tie in ties for each in _neighbours(question, tie)]
    ties += [(n, _place(question, n, len(ties) + count), value) for count, (n, value) in enumerate(beside)]
    for declared in (True, False):
        batches: list[dict[int, _Tie]] = []
        for tie in (each for each in ties if _is_declared(question, each) == declared):
            alone = question.inputs[tie[0]].values.size == 1
            batch = (
                None if alone else next((batch for batch in batches if tie[1] not in batch and -1 not in batch), None)
            )
            if batch is None:
                batches.append(batch := {})
            batch[-1 if alone else tie[1]] = tie
        for batch in batches[:BATCHES]:
            yield _changed(question, list(batch.values()), declared)


def _is_declared(question: Question, tie: _Tie) -> bool:
    """Whether a tie lies in the range that is declared for its input, and its dtype has a literal for it."""
    argument, value = question.inputs[tie[0]], tie[2]
    exact = float(literals.meant(np.asarray(value).astype(argument.values.dtype)))
    return argument.between is not None and abs(exact - value) <= CLOSE * abs(value)


def _changed(question: Question, ties: Sequence[_Tie], declared: bool) -> Boundaries:
    """The question with some of its elements other numbers."""
    inputs, shown = list(question.inputs), list[str]()
    for number in dict.fromkeys(tie[0] for tie in ties):
        own = [tie for tie in ties if tie[0] == number]
        values = np.array(inputs[number].values, np.float64)
        values.reshape(-1)[[place for _, place, _ in own]] = [value for *_, value in own]
        inputs[number] = replace(inputs[number], values=values)
        numbers = list(dict.fromkeys(f"{value:.6g}" for *_, value in own))
        shown.append(f"{', '.join(numbers[:4])}{', ...' if len(numbers) > 4 else ''} in '{inputs[number].name}'")
    return Boundaries(replace(question, inputs=inputs, ties=True), " and ".join(shown), declared)


def _ties(question: Question) -> Iterator[_Tie]:
    """Ties of the conditions of both programs: each number once for each input, in the next of its places."""
    free = {number for number, argument in enumerate(question.inputs) if _is_free(argument)}
    seen: dict[tuple[int, float], None] = {}
    programs = (question.reference, question.variant) if free else ()
    for condition in {(c.first.key, c.second.key): c for program in programs for c in conditions(program)}.values():
        inputs = condition.first.inputs | condition.second.inputs
        if condition.first.dtype == bool or not all(question.inputs[other].values.size for other in inputs):
            continue
        for number in sorted(inputs & free):
            place = _place(question, number, len(seen))
            values = _tied(condition, number, {n: _beside(question, n, number, place) for n in inputs - {number}})
            low, high = question.inputs[number].between or (-np.inf, np.inf)
            values = [value for value in values if low <= value <= high]
            for value in values[:1] if len(inputs) > 1 else values:
                if (number, value) not in seen:
                    yield number, _place(question, number, len(seen)), value
                    seen[number, value] = None
            if values:
                break


def _place(question: Question, number: int, count: int) -> int:
    """Where an input gets its next number: as far from the others as its size allows."""
    size = question.inputs[number].values.size
    return count * max(1, size // (3 * MOST)) % size


def _is_free(argument: Input) -> bool:
    """Whether an input may have other floats in some of its elements."""
    is_open = argument.magnitudes != "stated" or argument.between is not None
    return is_open and floats.is_float(argument.values.dtype) and bool(argument.values.size)


def _beside(question: Question, other: int, number: int, place: int) -> Array:
    """The element of another input that stands beside one of an input, as where its dimensions of 1 are repeated."""
    values, shape = np.asarray(question.inputs[other].values), question.inputs[number].values.shape
    with contextlib.suppress(ValueError):
        return np.asarray(np.broadcast_to(values, shape)[np.unravel_index(place, shape)]).reshape(1)
    return values.reshape(-1)[[place % values.size]]


def _tied(condition: Condition, number: int, at: dict[int, Array]) -> list[float]:
    """The numbers of one element at which the two numbers of a condition are equal, in fifteen digits."""
    near = crossings(condition, number, at, _GRID)
    values = np.unique([float(f"{value:.15g}") for value in near])
    inputs = {other: np.resize(each, values.size) for other, each in at.items()} | {number: values}
    known: dict[int, Array] = {}
    first, second = (value_of(term, inputs, known) for term in (condition.first, condition.second))
    with np.errstate(invalid="ignore"):
        is_tie = np.abs(first - second) <= 10 * CLOSE * np.maximum(np.abs(second), np.abs(values))
    return [float(value) for value in values[np.broadcast_to(is_tie, values.shape)]]


def _neighbours(question: Question, tie: _Tie) -> Iterator[tuple[int, float]]:
    """The numbers of the dtype beside that of a tie."""
    if tie[2] == 0:  # which are subnormal
        return
    nearest = np.asarray(tie[2]).astype(question.inputs[tie[0]].values.dtype)
    for end in (-np.inf, np.inf):
        yield tie[0], float(np.nextafter(nearest, np.asarray(end).astype(nearest.dtype)))
