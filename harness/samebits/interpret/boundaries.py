"""Floats at which a condition of either program is a tie: `x > 0.5` and `x >= 0.5` differ at 0.5 alone.

A tie is looked for along one element of one input at a time, by bisection of what a program compares: at a literal,
behind a shift or a scale, at the end of a clip, at the halves and integers at which numbers are rounded. Those of an
array are put into elements of their own, in one evaluation.

Rounding decides which side of a tie a product comes out on, in float64 too, so both programs are evaluated there with
numbers that are equal up to rounding as equal ones: `x * 0.1 > 0.3` and `x / 10 > 0.3` are one condition, at 3 too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, islice

import numpy as np

from samebits.interpret import literals
from samebits.interpret.conditions import conditions
from samebits.interpret.equation import Array
from samebits.interpret.oracle import CLOSE
from samebits.interpret.problem import Input, Question
from samebits.numerics import floats

MOST = 32
"""How many ties are tried."""

BATCHES = 6
"""How often both programs are evaluated: the ties of an array with few elements, and of scalars, need several."""

_SIZES = np.geomspace(2.0**-14, 2.0**14, 281)  # ten in each octave
_GRID = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])


def boundaries(question: Question) -> Iterator[tuple[Question, str, bool]]:
    """The question with ties in elements of its free float inputs: those of arrays together, scalars one by one.

    Yields:
        The question, which numbers it has where, in words, and whether all lie in the range that is declared.
    """
    batches = groupby(sorted(islice(_ties(question), MOST)), lambda tie: tie[:3])
    for (beyond, *_), batch in islice(batches, BATCHES):
        inputs, words = list(question.inputs), list[str]()
        for number, ties in groupby(batch, lambda tie: tie[3]):
            values, numbers = np.array(inputs[number].values, np.float64), list[str]()
            for *_, place, value in ties:
                values.reshape(-1)[place] = value
                numbers.append(f"{value:.6g}")
            inputs[number] = replace(inputs[number], values=values)
            words.append(f"{', '.join(numbers[:4])}{', ...' if len(numbers) > 4 else ''} in '{inputs[number].name}'")
        yield replace(question, inputs=inputs, ties=True), " and ".join(words), not beyond


def _is_declared(argument: Input, value: float) -> bool:
    """Whether a tie lies in the range that is declared for an input, and its dtype has a literal for it."""
    exact = float(literals.meant(np.asarray(value).astype(argument.values.dtype)))
    return argument.between is not None and abs(exact - value) <= CLOSE * abs(value)


def _ties(question: Question) -> Iterator[tuple[bool, bool, int, int, int, float]]:
    """The ties of both programs, each once for each input.

    Yields:
        Whether it lies beyond what is declared, whether its input is a scalar, the number of an evaluation, that of the
        input, the place of an element, and its value.
    """
    free = {number for number, argument in enumerate(question.inputs) if _is_free(argument)}
    seen: list[tuple[int, float]] = []
    programs = (question.reference, question.variant) if free else ()
    for condition in {(c.first.key, c.second.key): c for program in programs for c in conditions(program)}.values():
        inputs = condition.first.inputs | condition.second.inputs
        if condition.first.dtype == bool or not all(question.inputs[other].values.size for other in inputs):
            continue
        for number in sorted(inputs & free):
            argument = question.inputs[number]
            size, (low, high) = argument.values.size, argument.between or (-np.inf, np.inf)
            apart = max(1, size // MOST)  # no two in one place, where a product with zero hides what the other one does
            others = {n: _beside(question, n, number, len(seen) * apart % size) for n in inputs - {number}}
            near = {float(f"{value:.15g}") for value in condition.crossings(number, others, _GRID)}  # one of both sides
            values = sorted(value for value in near if low <= value <= high)
            for value in (value for value in values if (number, value) not in seen):
                beyond, count = not _is_declared(argument, value), len(seen)
                yield beyond, size == 1, count // size, number, count * apart % size, value
                seen.append((number, value))
            if values:
                break  # a tie of one of the inputs is one of all


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
