"""Where two programs differ in float64 by more than rounding in the dtypes of their outputs hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from samebits.errors import NotCovered
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.interpret.equation import Array, Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Question, first_place
from samebits.numerics import floats
from samebits.numerics.fills import LEAST, fills

HIDDEN = 64
"""A difference counts from so many units in the last place of the largest number, in the output's dtype."""

_KEPT = 64
"""Of how many programs and inputs the outputs are kept: a reference is compared with many variants, on many meshes."""


class _Evaluated:
    """What programs gave in this process, or why they gave nothing; the oldest are dropped."""

    outputs: ClassVar[dict[tuple[ByIdentity, str | None, str], list[Any] | NotCovered]] = {}


def hidden(question: Question, name: str) -> float:
    """The relative difference of an output that rounding in its dtype may hide; 0 of integers."""
    dtype = question.types(question.reference)[question.outputs.index(name)].dtype
    return HIDDEN * 2.0 ** -floats.digits(dtype) if floats.is_float(dtype) else 0.0


def differences(question: Question, outputs: Sequence[str], relative: float | None = None) -> dict[str, str]:
    """By output that differs at the inputs of a question, how, in words; nothing where a program has no values there.

    Args:
        question: the programs and their inputs.
        outputs: the names of those that are compared.
        relative: from which difference on, relative to the largest number of an output; by default what is not hidden.
    """
    try:
        first, second = (_evaluated(question, program) for program in (question.reference, question.variant))
    except NotCovered:  # these inputs say nothing then; of other outputs they may
        if len(question.outputs) == 1:
            return {}
        apart = (differences(question.only([name]), [name], relative) for name in outputs)
        return {name: words for each in apart for name, words in each.items()}
    kinds = question.types(question.reference)
    result = {}
    for number, name in enumerate(question.outputs):
        if name in outputs and question.mismatch(number) is None:
            least = hidden(question, name) if relative is None else relative
            words = _difference(name, first[number], second[number], kinds[number], least)
            if words is not None:
                result[name] = words
    return result


def values_of(question: Question, name: str) -> tuple[Array, Array] | None:
    """An output of both programs in float64, rounded to its dtype; None where a program has no values there.

    Args:
        question: the programs and their inputs.
        name: of the output.
    """
    number = question.outputs.index(name)
    try:
        both = [_evaluated(question, program)[number] for program in (question.reference, question.variant)]
    except NotCovered:
        return None if len(question.outputs) == 1 else values_of(question.only([name]), name)
    dtype = question.types(question.reference)[number].dtype
    with np.errstate(all="ignore"):
        first, second = (np.asarray(array).astype(dtype) for array in both)
    return first, second


def _evaluated(question: Question, program: Any) -> list[Any]:
    """The outputs of one program at the inputs of a question.

    Raises:
        NotCovered: an equation has no value in float64.
    """
    key = ByIdentity(program), question.platform, digest_of([argument.values for argument in question.inputs])
    kept = _Evaluated.outputs
    if key not in kept:
        while len(kept) >= _KEPT:
            del kept[next(iter(kept))]
        args = [
            np.asarray(argument.values, np.float64) if argument.kind(aval).is_float else np.asarray(argument.values)
            for argument, aval in zip(question.inputs, program.in_avals, strict=True)
        ]
        try:
            with np.errstate(all="ignore"):
                kept[key] = list(Interpreter(Oracle(), question.platform)(program, *args))
        except NotCovered as error:
            kept[key] = error
    outputs = kept[key]
    if isinstance(outputs, NotCovered):
        raise outputs
    return outputs


def _difference(name: str, first: Any, second: Any, kind: Type, relative: float) -> str | None:
    """Where an output differs by more than rounding hides, and how; None where it does not."""
    left, right = np.asarray(first), np.asarray(second)
    if left.dtype.kind not in "biuf" or right.dtype.kind not in "biuf" or left.shape != right.shape:
        return None
    if not kind.is_float:
        differs = left != right
    else:
        left, right = left.astype(np.float64), right.astype(np.float64)
        finite = np.isfinite(left) & np.isfinite(right)
        fill = fills(left, right, finite)
        largest = float(np.max(np.abs(left), where=finite & ~fill, initial=LEAST if fill.any() else 0.0))
        with np.errstate(invalid="ignore"):
            far = np.abs(left - right) > relative * largest
        differs = np.where(finite, far, ~((left == right) | (np.isnan(left) & np.isnan(right))))
    if not np.any(differs):
        return None
    at = first_place(np.asarray(differs))
    return f"{name}[{', '.join(map(str, at))}] is {left[at].item()!r} in the reference, {right[at].item()!r} here"
