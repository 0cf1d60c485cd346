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
        alone = question.only([name])
        try:
            words = _first_jump(alone, seed, covered)
        except (NotCovered, ValueError, IndexError):  # noqa: S112  inputs between these may be invalid
            continue
        if words:
            where = "with inputs between those of the case and others of their elements"
            witnesses[name] = f"{name}{words}, in float64, {where}"
    return witnesses


def _first_jump(alone: Question, seed: str, covered: bool) -> str | None:
    """Where the only output of a question differs at the first jump that is found of its reference."""
    start = _outputs(alone)[0]
    for draw in range(_DRAWS):
        other = permuted(alone, f"{seed} {draw}", again=True)
        if other is None:
            return None
        jumping = np.argwhere(start != _outputs(other)[0])
        if len(jumping):
            return _between(alone, other, tuple(jumping[0]), covered)
    return None


def _between(first: Question, last: Question, place: tuple[int, ...], covered: bool) -> str | None:
    """Where both sides differ on the line between two inputs, at which an element jumps, and stay so beside it."""
    start, low, high = _outputs(first)[0][place], 0.0, 1.0
    least = max([4 * unit for unit in half_units(first).values()], default=0.0) + _BESIDE
    for _ in range(STEPS):
        at = low + _SPLIT * (high - low)
        reference, variant = _outputs(_mixed(first, last, at))
        if (reference != variant).any():
            beside = [_outputs(_mixed(first, last, at + offset)) for offset in (-least, least)]
            apart = np.all([left != right for left, right in ((reference, variant), *beside)], 0)
            if not apart.any() or not (covered or Float64Noise(_mixed(first, last, at)).decides):
                return None  # within what rounding explains
            where = first_place(apart)
            values = f"{reference[where].item()!r} in the reference, {variant[where].item()!r} here"
            return f"[{', '.join(map(str, where))}] is {values}"
        low, high = (at, high) if reference[place] == start else (low, at)
    return None


def _outputs(question: Question) -> list[Array]:
    return [np.asarray(outputs_of(question, program)[0]) for program in (question.reference, question.variant)]


def _mixed(first: Question, last: Question, at: float) -> Question:
    """The question at a place of the line between two inputs."""
    inputs = list(first.inputs)
    for place, (start, end) in enumerate(zip(first.inputs, last.inputs, strict=True)):
        if start is not end:
            low, high = (np.asarray(each.values, np.float64) for each in (start, end))
            inputs[place] = replace(start, values=np.asarray(low + at * (high - low)))
    return replace(first, inputs=inputs)
