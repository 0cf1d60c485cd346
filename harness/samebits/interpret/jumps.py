"""Where outputs jump that only decisions make: integers, booleans, counts, whose formulas say nothing.

Two such outputs may be equal at all inputs tried although one scale is 1e-5 off: no number of these lies where the two
round differently. So a jump of the reference is looked for, on the line from the inputs of the case to others of
their elements, by bisection: there, the variant must jump too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.field_proof.float64_noise import Float64Noise, half_units
from samebits.interpret.float64_differences import outputs_of
from samebits.interpret.probes import permuted
from samebits.interpret.problem import Question, first_place

STEPS = 30
"""How often the line is divided: jumps that are 1e-9 of it apart are seen."""

LINES = 2
"""On how many lines an element of an output is followed to one of its jumps."""

_DRAWS = 4  # of other inputs: a count may be the same at both ends of a line

_BESIDE = 1e-10  # float64 moves a jump by less
_SPLIT = 0.4142135  # not a half, where two elements that change places are equal


def other_jumps(question: Question, outputs: Sequence[str], seed: str, *, covered: bool = True) -> dict[str, str]:
    """By output that jumps at other inputs in the variant than in the reference, where, in words.

    Args:
        question: the programs and their inputs.
        outputs: the names of those that decisions make.
        seed: names what the other inputs depend on.
        covered: whether the fields decide at the inputs of the case; else float64 must, where outputs differ.
    """
    witnesses = {}
    for name in outputs:
        alone, lines = question.only([name]), 0
        for draw in range(_DRAWS):
            other = permuted(alone, f"{seed} {draw}", again=True)
            if other is None or lines == LINES:
                break
            try:
                words = _between(alone, other, covered, last=bool(lines))
            except (NotCovered, ValueError, IndexError):  # inputs between these may be invalid
                break
            lines += words is not None
            if words:
                where = "with inputs between those of the case and others of their elements"
                witnesses[name] = f"{name}{words}, in float64, {where}"
                break
    return witnesses


def _between(first: Question, other: Question, covered: bool, *, last: bool) -> str | None:
    """Where the only output of a question differs on the line between two inputs, and stays so beside it.

    Args:
        first, other: the question at either end.
        covered: as of `other_jumps`.
        last: whether the last element that jumps is followed, else the first.

    Returns:
        Nothing where no element jumps, no words where both sides jump alike.
    """
    least = max([4 * unit for unit in half_units(first).values()], default=0.0) + _BESIDE

    def mixed(at: float) -> Question:
        inputs = [
            argument if end is argument else replace(argument, values=_mixed(argument.values, end.values, at))
            for argument, end in zip(first.inputs, other.inputs, strict=True)
        ]
        return replace(first, inputs=inputs)

    def sides(at: float) -> tuple[Array, Array]:
        reference, variant = (outputs_of(mixed(at), program)[0] for program in (first.reference, first.variant))
        return np.asarray(reference), np.asarray(variant)

    start, end = sides(0.0)[0], sides(1.0)[0]
    jumping = np.argwhere(start != end)
    if bool(np.all(start == end)):
        return None
    place, low, high = tuple(jumping[-1 if last else 0]), 0.0, 1.0
    for _ in range(STEPS):
        at = low + _SPLIT * (high - low)
        reference, variant = sides(at)
        if (reference != variant).any():
            beside = [sides(at + offset) for offset in (-least, least)]
            apart = np.all([left != right for left, right in ((reference, variant), *beside)], 0)
            if not apart.any() or not (covered or Float64Noise(mixed(at)).decides):
                return ""  # within what rounding explains
            where = first_place(apart)
            values = f"{reference[where].item()!r} in the reference, {variant[where].item()!r} here"
            return f"[{', '.join(map(str, where))}] is {values}"
        low, high = (at, high) if reference[place] == start[place] else (low, at)
    return ""


def _mixed(first: Array, last: Array, at: float) -> Array:
    start = np.asarray(first, np.float64)
    return np.asarray(start + at * (np.asarray(last, np.float64) - start))
