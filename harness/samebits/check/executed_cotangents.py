"""Other cotangents at which both programs of a gradient are executed, where they cannot be interpreted.

A kernel or a callback may clip a cotangent, or guard against a small one, and no formula shows it. What counts is a
difference that the cotangents of the check do not have: rounding scales with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.check.other_inputs import OtherInputs, first_found
from samebits.interpret.equation import Array
from samebits.interpret.float64_differences import HIDDEN
from samebits.interpret.other_cotangents import ONES, changed, must_run
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import first_place
from samebits.numerics import floats

MORE = 8
"""How many times the difference at ordinary cotangents, relative to the largest value, is more than rounding."""


def at_other_cotangents(usual: OtherInputs) -> dict[str, Counterexample]:
    """Find other cotangents at which a gradient differs by more, by leaf without a formula.

    Args:
        usual: the inputs of a case.
    """
    if not usual.cotangents or usual.question.uneven is not None:
        return {}

    def apart(other: OtherInputs, path: str) -> Counterexample | None:
        hidden = HIDDEN * 2.0 ** -floats.digits(floats.parts(usual.ran[0][path]).dtype)
        far = _apart(other, path)
        if np.max(far, initial=0.0) <= max(MORE * float(np.max(_apart(usual, path), initial=0.0)), hidden):
            return None
        at = first_place(far == np.max(far))[: other.ran[0][path].ndim]
        return other.counterexample(path, f"executed {other.words}, {other.both(path, at)}")

    leaves = [path for path in usual.question.outputs if must_run(usual.question, path)]
    return first_found(leaves, _inputs(usual), apart) if leaves else {}


def _inputs(usual: OtherInputs) -> Iterator[OtherInputs]:
    """Yield the inputs with other cotangents, of plain numbers alone."""
    drawn = usual.cotangents
    wide = [np.asarray(array, np.result_type(array, np.float64)) for array in drawn.values()]
    for arrays, words, allowed in changed(wide, [*drawn], [floats.parts(array).dtype for array in drawn.values()]):
        if allowed and words != ONES:  # which the check has tried
            cotangents = {path: array.astype(drawn[path].dtype) for path, array in zip(drawn, arrays, strict=True)}
            yield replace(usual, cotangents=cotangents, words=f"with {words}")


def _apart(inputs: OtherInputs, path: str) -> Array:
    """Return how far the elements of a leaf are apart, relative to its largest value; 0 where either is not finite."""
    left, right = (np.asarray(floats.parts(side[path]), np.float64) for side in inputs.ran)
    with np.errstate(invalid="ignore"):
        apart = np.abs(left - right)
    largest = float(np.max(np.abs(left), where=np.isfinite(left), initial=0.0)) or 1.0
    return np.asarray(np.where(np.isfinite(apart), apart, 0.0) / largest)
