"""Where two programs differ in float64 by more than float64 and the rounding of their constants explain.

No cast rounds there, so the dtype of an output hides nothing: in bfloat16, what is 1 % off is another formula.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.interpret.arrays import evaluate
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle, Outcomes, RoundedOracle, Ties
from samebits.interpret.problem import Question, first_place
from samebits.numerics import floats
from samebits.numerics.fills import LEAST, fills

HIDDEN = 64
"""A difference counts from so many units in the last place of the largest number, in float32 or in a wider output."""

_KEPT = 64
"""Of how many programs and inputs the outputs are kept: a reference is compared with many variants, on many meshes."""


class _Evaluated:
    """What programs gave in this process, or why they gave nothing; the oldest are dropped."""

    outputs: ClassVar[dict[tuple[ByIdentity, str | None, bool, str], list[Any] | NotCovered]] = {}


def hidden(question: Question, name: str) -> float:
    """The relative difference of an output that is as good as none, such as log(1 + exp(x)) - x; 0 of integers."""
    dtype = question.types(question.reference)[question.outputs.index(name)].dtype
    return HIDDEN * 2.0 ** -max(24, floats.digits(dtype)) if floats.is_float(dtype) else 0.0


def differences(
    question: Question, outputs: Sequence[str], relative: float | None = None, certain: Collection[str] = ()
) -> dict[str, str]:
    """By output that differs at the inputs of a question, how, in words; nothing where a program has no values there.

    Args:
        relative: from which difference on, relative to the largest number of an output; by default what is not hidden.
        certain: those that differ only where float64 itself shows it, since nothing else can: not by what it makes
            infinite, nor where it cannot tell which way a comparison goes.
    """
    try:
        first, second = (evaluated(question, program) for program in question.sides)
    except NotCovered:  # these inputs say nothing then; of other outputs they may
        if len(question.outputs) == 1:
            return {}
        apart = (differences(question.only([name]), [name], relative, certain) for name in outputs)
        return {name: words for each in apart for name, words in each.items()}
    kinds, excuses = question.types(question.reference), Excuses(question)
    result = {}
    for number, name in enumerate(question.outputs):
        if name in outputs and question.mismatch(number) is None:
            least = hidden(question, name) if relative is None else relative
            left, right = np.asarray(first[number]), np.asarray(second[number])
            differs = _differs(left, right, kinds[number], least)
            if differs.any() and kinds[number].is_float:
                excused = excuses.beyond_constants if question.ties else excuses.beyond
                differs &= (excuses.certain if name in certain else excused)(name, left, right)
            if differs.any():
                at = first_place(differs)
                place = f"{name}[{', '.join(map(str, at))}]"
                words = f"{place} is {left[at].item()!r} in the reference, {right[at].item()!r} here"
                result[name] = words
    return result


def values_of(question: Question, name: str) -> tuple[Array, Array] | None:
    """An output of both programs in float64, rounded to its dtype; None where a program has no values there."""
    number = question.outputs.index(name)
    try:
        both = [evaluated(question, program)[number] for program in question.sides]
    except NotCovered:
        return None if len(question.outputs) == 1 else values_of(question.only([name]), name)
    dtype = question.types(question.reference)[number].dtype
    with np.errstate(all="ignore"):
        first, second = (np.asarray(array).astype(dtype) for array in both)
    return first, second


def evaluated(question: Question, program: Any) -> list[Any]:
    """The outputs of one program at the inputs of a question."""
    values = digest_of([argument.values for argument in question.inputs])
    key = ByIdentity(program), question.platform, question.ties, values
    kept = _Evaluated.outputs
    if key not in kept:
        while len(kept) >= _KEPT:
            del kept[next(iter(kept))]
        try:
            domain = (Ties if question.ties else Oracle)(outcomes=_outcomes(ByIdentity(program)))
            kept[key] = outputs_of(question, program, domain)
        except NotCovered as error:
            kept[key] = error
    outputs = kept[key]
    if isinstance(outputs, NotCovered):
        raise outputs
    return outputs


@functools.lru_cache(maxsize=_KEPT)
def _outcomes(program: ByIdentity) -> Outcomes:
    """How the comparisons of a program came out, at all inputs at which it was evaluated."""
    return {}


def one_way(question: Question) -> list[str]:
    """The comparisons of both programs that came out one way only wherever they were evaluated, with source lines."""
    seen: dict[str, int] = {}
    for program in question.sides:
        with contextlib.suppress(NotCovered):  # then as far as it was evaluated
            evaluated(question, program)
        for step, outcomes in _outcomes(ByIdentity(program)).values():
            name = step.located
            seen[name] = seen.get(name, 0) | outcomes
    return [name for name, outcomes in seen.items() if outcomes in (1, 2)]


def outputs_of(question: Question, program: Any, domain: Oracle | None = None) -> list[Any]:
    """The outputs of one program at the inputs of a question, in float64.

    Args:
        domain: in which it is evaluated; by default that of plain float64 numbers.
    """
    args = [
        np.asarray(argument.values, np.float64) if argument.kind(aval).is_float else np.asarray(argument.values)
        for argument, aval in zip(question.inputs, program.in_avals, strict=True)
    ]
    with np.errstate(all="ignore"):
        return list(Interpreter(domain or Oracle(), question.platform)(program, *args))


def simulate(program: Any, question: Question) -> dict[str, Array]:
    """Execute a program as it is written, every result rounded to the dtype of its equation; its outputs by name."""
    outputs = zip(
        question.outputs, outputs_of(question, program, RoundedOracle()), question.types(program), strict=True
    )
    with np.errstate(all="ignore"):
        return {name: np.asarray(output).astype(kind.dtype) for name, output, kind in outputs}


def _differs(left: Any, right: Any, kind: Type, relative: float) -> Any:
    """Where an output differs by more than is as good as nothing."""
    if left.dtype.kind not in "biuf" or right.dtype.kind not in "biuf" or left.shape != right.shape:
        return np.zeros(left.shape, bool)
    if not kind.is_float:
        return np.asarray(left != right)
    least = float(ml_dtypes.finfo(kind.dtype).smallest_subnormal)  # what is below it is zero in the output
    first, second = (np.where(np.abs(side) < least, 0, side) for side in (left, right))
    return apart(first, second, relative)


def apart(first: Array, second: Array, relative: float) -> Array:
    """Where floats differ by more than a part of the largest one, or one of them alone is infinite or NaN."""
    left, right = first.astype(np.float64), second.astype(np.float64)
    finite = np.isfinite(left) & np.isfinite(right)
    fill = fills(left, right, finite)
    largest = float(np.max(np.abs(left), where=finite & ~fill, initial=LEAST if fill.any() else 0.0))
    with np.errstate(invalid="ignore"):
        far = np.abs(left - right) > relative * largest
    return np.asarray(np.where(finite, far, ~((left == right) | (np.isnan(left) & np.isnan(right)))))


# The range of the dtypes: what overflows and underflows in a program at given inputs, and its effect on the outputs.
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
            self.growing[step.located] = None
        largest, smallest, normal = _ends(dtype)
        size = np.abs(array)
        finite = np.isfinite(size)
        top = float(np.max(size, where=finite, initial=0.0))
        bottom = float(np.min(size, where=finite & (size > 0), initial=np.inf))
        before = self.headroom.get(dtype, (0.0, np.inf))
        self.headroom[dtype] = max(before[0], top / largest), min(before[1], bottom / smallest)
        if top > largest:
            self.left[f"{step.located} overflows {dtype.name}"] = None
            array = np.where(finite & (size > largest), np.copysign(np.inf, array), array)
        if bottom < smallest:
            self.left[f"{step.located} underflows {dtype.name}"] = None
            array = np.where(size < smallest, np.copysign(0.0, array), array)
        elif bottom < normal:  # what a processor that flushes these to zero makes of them is for the reader to judge
            self.left[f"{step.located} gives subnormal numbers of {dtype.name}"] = None
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
    """Evaluate both programs in the range of their dtypes."""
    domains = RangedOracle(), RangedOracle()
    programs = zip(question.sides, domains, strict=True)
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


@functools.cache
def _ends(dtype: Any) -> tuple[float, float, float]:
    """The largest number rounded to one of a dtype, the smallest not rounded to zero, and the smallest normal one."""
    info = ml_dtypes.finfo(dtype)
    largest = float(info.max) * (1 + 2.0 ** -(int(info.nmant) + 2))
    return largest, float(info.smallest_subnormal) / 2, float(info.smallest_normal)
