"""Other cotangents at which both programs of a gradient are executed, where they cannot be interpreted.

A kernel or a callback may clip a cotangent, or guard against a small one, and no formula shows it. The programs are
compiled already. What counts is a difference that the cotangents of the check do not have: rounding scales with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.errors import CouldNotRun
from samebits.interpret.float64_differences import HIDDEN
from samebits.interpret.other_cotangents import ONES, changed
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import first_place
from samebits.numerics import floats
from samebits.programs.inputs import Array

MORE = 8
"""How many times the difference at ordinary cotangents, relative to the largest value, is more than rounding."""


class ExecutedCotangents:
    """Counterexamples among other cotangents; those of the latest point are cached.

    Args:
        execution: runs programs.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._latest: tuple[PendingPoint | None, Mapping[str, Counterexample]] = (None, {})

    def counterexample(self, job: PendingPoint, path: str) -> Counterexample | None:
        """Other cotangents at which a gradient differs by more than at those of the check.

        Args:
            job: of a gradient.
            path: of a leaf that cannot be interpreted.
        """
        if self._latest[0] is not job:
            try:
                self._latest = job, dict(self._found(job))
            except CouldNotRun:  # running it at the cotangents of the check said why
                self._latest = job, {}
        return self._latest[1].get(path)

    def _found(self, job: PendingPoint) -> Iterator[tuple[str, Counterexample]]:
        """The first counterexample of each leaf."""
        inputs = self._execution.inputs(job.alone, self._execution.pair.reference_name, "gradient")
        record, drawn = next(iter(inputs.values()))
        usual, named = self._execution.sides_at(job, record, drawn), set[str]()
        wide = [np.asarray(array, np.result_type(array, np.float64)) for array in drawn.values()]
        for arrays, words, allowed in changed(wide, [*drawn], [floats.parts(array).dtype for array in drawn.values()]):
            if not allowed or words == ONES:  # which the check has tried
                continue
            other = {path: array.astype(drawn[path].dtype) for path, array in zip(drawn, arrays, strict=True)}
            try:
                first, second = self._execution.sides_at(job, record, other)
            except CouldNotRun:  # a callback need not take all numbers
                continue
            for path in first:
                if path in named or first[path].dtype.kind in "biu":
                    continue
                hidden = HIDDEN * 2.0 ** -floats.digits(floats.parts(first[path]).dtype)
                least = max(MORE * np.max(_apart(*(side[path] for side in usual)), initial=0.0), hidden)
                if np.max(_apart(first[path], second[path]), initial=0.0) > least:
                    named.add(path)
                    yield path, _counterexample(path, (first[path], second[path]), words)


def _apart(first: Array, second: Array) -> Array:
    """How far the elements of a leaf are apart, relative to its largest value; 0 where either is not finite."""
    both = (np.asarray(floats.parts(array), np.float64) for array in (first, second))
    left, right = (np.where(np.isfinite(array), array, np.nan) for array in both)
    apart = np.nan_to_num(np.abs(left - right))
    return np.asarray(apart / (np.max(np.abs(np.nan_to_num(left)), initial=0.0) or 1.0))


def _counterexample(path: str, values: tuple[Array, Array], words: str) -> Counterexample:
    apart = _apart(*values)
    at = first_place(apart == np.max(apart))
    left, right = (floats.parts(array)[at].item() for array in values)
    place = f"{path}[{', '.join(map(str, at))}]"
    text = f"{place} is {left!r} in the reference, {right!r} here, executed with {words}"
    return Counterexample(text, allowed=True, where=words, values=values)
