"""The range of the dtypes: what overflows and underflows in a program at given inputs, and its effect on the outputs.

The fields have no range. So both programs are evaluated once more in float64, with every result that leaves the range
of its dtype replaced by what the dtype makes of it: an infinity, or zero. Rounding is left out on purpose: what then
differs between the sides is an effect of the range alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from samebits.interpret.arrays import evaluate
from samebits.interpret.equation import Array, Step
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.float64_differences import apart, outputs_of
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Question, first_place

VISIBLE = 1e-6
"""A difference of this size, relative to the largest value of a leaf, is an effect of the range; float64 noise is not.

Noise below it: sums of 1e6 terms, about 1e-13. What matters above it: a value that became zero or infinite.
"""

GROWING = frozenset({"cosh", "exp", "exp2", "expm1", "integer_pow", "pow", "sinh", "square"})
"""Primitives that leave the range for arguments that are far inside it."""


class RangedOracle(Oracle):
    """The domain of float64 numbers in the range of their dtypes; one instance serves one program."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, None] = {}
        """What left the range, in words, in order."""
        self.growing: dict[str, None] = {}
        """The primitives that grow fastest, with their source lines."""
        self.headroom: dict[np.dtype[Any], tuple[float, float]] = {}
        """By dtype the largest and the smallest number that is not zero, relative to the ends of its range."""

    def apply(self, step: Step, values: Sequence[Array]) -> list[Array]:
        """Plain arithmetic, each result in the range of its dtype."""
        return [self._limited(step, array) for array in evaluate(step, values)]

    def _limited(self, step: Step, array: Array) -> Array:
        dtype = step.outputs[0].dtype
        if not step.outputs[0].is_float or dtype == np.float64 or not array.size:
            return array
        if step.name in GROWING:
            self.growing[_named(step)] = None
        largest, smallest, normal = _ends(dtype)
        size = np.abs(array)
        finite = np.isfinite(size)
        top = float(np.max(size, where=finite, initial=0.0))
        bottom = float(np.min(size, where=finite & (size > 0), initial=np.inf))
        before = self.headroom.get(dtype, (0.0, np.inf))
        self.headroom[dtype] = max(before[0], top / largest), min(before[1], bottom / smallest)
        if top > largest:
            self.left[f"{_named(step)} overflows {dtype.name}"] = None
            array = np.where(finite & (size > largest), np.copysign(np.inf, array), array)
        if bottom < smallest:
            self.left[f"{_named(step)} underflows {dtype.name}"] = None
            array = np.where(size < smallest, np.copysign(0.0, array), array)
        elif bottom < normal:  # what a processor that flushes these to zero makes of them is for the reader to judge
            self.left[f"{_named(step)} gives subnormal numbers of {dtype.name}"] = None
        return array


@dataclass(frozen=True, slots=True)
class OverflowReach:
    """What the range of the dtypes does to a pair of programs at the numbers of a case.

    Args:
        left: what leaves the range, by side: `reference` and `variant`.
        different: by output, where the sides differ because of it, in words.
        growing: the primitives that grow fastest, of both sides.
        largest: by dtype the largest number relative to the largest one that it holds.
    """

    left: dict[str, tuple[str, ...]] = field(default_factory=dict)
    different: dict[str, str] = field(default_factory=dict)
    growing: tuple[str, ...] = ()
    largest: dict[str, float] = field(default_factory=dict)


def reach_of(question: Question) -> OverflowReach:
    """Evaluate both programs in the range of their dtypes.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    domains = RangedOracle(), RangedOracle()
    programs = zip((question.reference, question.variant), domains, strict=True)
    outputs = [outputs_of(question, program, domain) for program, domain in programs]
    left = {
        side: tuple(domain.left) for side, domain in zip(("reference", "variant"), domains, strict=True) if domain.left
    }
    different, excuses = {}, Excuses(question)
    for number, name in enumerate(question.outputs if left else ()):
        if question.mismatch(number) is None:
            first, second = (np.asarray(side[number], np.float64) for side in outputs)
            words = _difference(name, first, second, excuses)
            if words is not None:
                different[name] = f"{words}: {next(iter(left.get('variant', left.get('reference', ()))))}"
    largest: dict[str, float] = {}
    for domain in domains:
        for dtype, (top, _) in domain.headroom.items():
            largest[dtype.name] = max(largest.get(dtype.name, 0.0), top)
    growing = dict.fromkeys(name for domain in domains for name in domain.growing)
    return OverflowReach(left, different, tuple(growing), largest)


def _difference(name: str, first: Array, second: Array, excuses: Excuses) -> str | None:
    """Where two outputs differ by what the range made of them, in words; where all cancels, noise is the largest."""
    differs = apart(first, second, VISIBLE)
    if not differs.any() or not (differs := differs & excuses.beyond(name, first, second)).any():
        return None
    at = first_place(differs)
    place = f"{name}[{', '.join(map(str, at))}]"
    return f"{place} is {float(first[at])!r} in the reference, {float(second[at])!r} here, in the range of the dtypes"


def _named(step: Step) -> str:
    return f"{step.name} at {step.place}" if step.place else step.name


@functools.cache
def _ends(dtype: Any) -> tuple[float, float, float]:
    """The largest number rounded to one of a dtype, the smallest not rounded to zero, and the smallest normal one."""
    info = ml_dtypes.finfo(dtype)
    largest = float(info.max) * (1 + 2.0 ** -(int(info.nmant) + 2))
    return largest, float(info.smallest_subnormal) / 2, float(info.smallest_normal)
