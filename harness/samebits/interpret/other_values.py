"""Other values than those of the case, at which both programs are evaluated in float64: integers, masks, rows of zeros.

What integers decide holds for the integers of the case: a branch that is not taken, a step that ten does not divide,
an id of another shard, a sum that does not overflow yet. Both programs are evaluated once more at the ends of the
range that may be given, at the numbers with which either program compares or computes, and at every number of a small
range. All other inputs stay as they are. At the smallest numbers of a single integer, such as the first steps of a
training, formulas are compared where rounding hides a difference of float64 numbers.

Numbers that are drawn are never zero, and never tie. Rows of zeros are what padding leaves in a batch: they have no
norm, no largest element and no first choice among experts. One row of an argument is made zero, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.float64_differences import differences, values_of
from samebits.interpret.inner_equations import equations
from samebits.interpret.other_cotangents import other_cotangents
from samebits.interpret.problem import Input, Question
from samebits.numerics.bits import Comparison, Leaf, compare_leaf

MOST = 12
"""How many other values of one argument are tried."""

SMALL = (0, 1, 2)
"""The first steps of a training, or the shortest of anything: there formulas are compared, not only numbers."""

ZERO_ROWS = 3
"""In how many arguments a row of zeros is tried."""

NOISE = 1e-11
"""A relative difference in float64 below which formulas are not compared again: it may be noise."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Other inputs at which an output of both programs differs.

    Args:
        words: the values there, and which input has which values.
        allowed: such an input may be given; else it perhaps does not occur: an array was given in its place, all of
            a mask is true or false, or a row is zero.
        where: these inputs, in words.
        question: both programs at these inputs, where the lines that make them differ are looked for; None where they
            cannot be interpreted.
        values: what both gave there, in the dtype of the output; None where only formulas differ.
    """

    words: str
    allowed: bool
    where: str = "other inputs"
    question: Question | None = None
    values: tuple[Array, Array] | None = None

    def comparison(self, path: str) -> Comparison | None:
        """How both sides differ there, with a witness; None where they have the same bits, or no values are known.

        Args:
            path: of the output.
        """
        if self.values is None:
            return None
        first, second = (Leaf(array=array) for array in self.values)
        compared = compare_leaf(path, first, second)
        return None if compared.equal else compared


@dataclass(frozen=True, slots=True)
class _Other:
    """A question with one input changed; to a small integer, at which formulas are compared too."""

    question: Question
    words: str
    allowed: bool
    small: bool


def counterexamples(question: Question) -> dict[str, Counterexample]:
    """By output, other values at which the programs differ; nothing of outputs for which none were found.

    Args:
        question: the programs and their inputs.
    """
    result: dict[str, Counterexample] = {}
    for other in chain(_other_integers(question), _other_cotangents(question), _zero_rows(question)):
        open_ = [name for name in question.outputs if name not in result or not result[name].allowed]
        if not open_ or (not other.allowed and set(open_) <= set(result)):
            continue
        seen = {name: f"{words}, in float64" for name, words in differences(other.question, open_).items()}
        if other.small:
            seen |= _other_formulas(other.question, [name for name in open_ if name not in seen])
        for name, words in seen.items():
            if other.allowed or name not in result:
                result[name] = Counterexample(
                    f"{words}, with {other.words}",
                    other.allowed,
                    where=other.words,
                    question=other.question,
                    values=values_of(other.question, name),
                )
    return result


def _other_formulas(question: Question, outputs: list[str]) -> dict[str, str]:
    """By output that is another formula although rounding hides it at these inputs, the first place."""
    witnesses: dict[str, str] = {}
    for name in differences(question, outputs, NOISE) if outputs else ():
        try:
            proof = identity(question.only([name]))[name]
        except NotCovered:  # this integer says nothing of the formulas
            continue
        if not proof.equal and not proof.undecided and proof.witness is not None:
            witnesses[name] = proof.witness
    return witnesses


def _other_integers(question: Question) -> Iterator[_Other]:
    """The question with other values of each of its integer inputs in turn."""
    for place, argument in enumerate(question.inputs):
        if argument.integers is None or argument.magnitudes == "stated" or not argument.values.size:
            continue
        for values, words, allowed in _values(question, argument):
            if np.array_equal(values, argument.values):
                continue
            small = values.size == 1 and values.dtype.kind != "b" and int(values.reshape(-1)[0]) in SMALL
            yield _Other(_with(question, place, values), f"'{argument.name}' {words}", allowed, small)


def _other_cotangents(question: Question) -> Iterator[_Other]:
    """The question with other cotangents, where a program decides by them."""
    for other, words, allowed in other_cotangents(question):
        yield _Other(other, words, allowed, small=False)


def _zero_rows(question: Question) -> Iterator[_Other]:
    """The question with the first row of one of its first float inputs zero; of what has no rows, the first element."""
    inputs = enumerate(question.inputs)
    free = [place for place, each in inputs if each.integers is None and each.magnitudes != "stated"]
    for place in free[:ZERO_ROWS]:
        argument = question.inputs[place]
        values, shape = np.array(argument.values), np.shape(argument.values)
        if not values.size:
            continue
        if len(shape) > 1 and shape[-1] > 1:
            values[(0,) * (len(shape) - 1)] = 0
            words = "zero in its first row"
        else:
            values[(0,) * len(shape)] = 0
            words = "zero in its first element" if values.size > 1 else "= 0"
        if not np.array_equal(values, argument.values):
            yield _Other(_with(question, place, values), f"'{argument.name}' {words}", allowed=False, small=False)


def _with(question: Question, place: int, values: Array) -> Question:
    """The question with other values of one input."""
    inputs = list(question.inputs)
    inputs[place] = replace(inputs[place], values=values)
    return replace(question, inputs=inputs)


def _values(question: Question, argument: Input) -> Iterator[tuple[Array, str, bool]]:
    """Other values of an input, how they are, in words, and whether they may be given."""
    assert argument.integers is not None
    (low, high), shape, dtype = argument.integers, argument.values.shape, argument.values.dtype
    count = argument.values.size
    drawn = argument.magnitudes == "all"
    numbers = _numbers(question, low, high, count)
    if count == 1:
        for number in numbers[:MOST]:
            yield np.full(shape, number, dtype), f"= {_shown(number, dtype)}", drawn
        return
    if dtype.kind == "b":
        for number in (1, 0):
            yield np.full(shape, number, dtype), f"= {_shown(number, dtype)} everywhere", False
        return
    for start in range(0, min(len(numbers), MOST * count), count):
        chunk = numbers[start : start + count]
        whole = np.resize(np.array(chunk, object), count).astype(dtype).reshape(shape)
        yield whole, f"of {chunk[0]}, {chunk[1]}, ... {chunk[-1]}" if len(chunk) > 2 else f"of {chunk}", drawn
    for number in (low, high):
        yield np.full(shape, number, dtype), f"= {number} everywhere", drawn


def _shown(number: int, dtype: Any) -> str:
    return str(bool(number)) if dtype.kind == "b" else str(number)


def _numbers(question: Question, low: int, high: int, count: int) -> list[int]:
    """The numbers of a range to try: all of a small one, else its ends, small numbers, and those of the programs.

    Not the ends in an array of several elements: beside them, what small numbers do would be lost in the largest value.
    """
    if high - low < MOST * count:
        return list(range(low, high + 1))
    wanted = [low, high, *SMALL] if count == 1 else [0, 1]
    for number in _literals(question):
        wanted += [number, number - 1, number + 1]
    return list(dict.fromkeys(number for number in wanted if low <= number <= high))


def _literals(question: Question) -> list[int]:
    """The integers that equations of either program have as constants, in their order; floats that are whole too."""
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
