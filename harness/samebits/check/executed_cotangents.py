"""Other cotangents at which both programs of a gradient are executed, where they cannot be interpreted.

A kernel or a callback may clip a cotangent, or guard against a small one, and no formula shows it. The programs are
compiled already. What counts is a difference that the cotangents of the check do not have: rounding scales with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.errors import CouldNotRun
from samebits.interpret.float64_differences import HIDDEN
from samebits.interpret.other_cotangents import changed
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import first_place
from samebits.numerics import floats
from samebits.programs.host_trees import HostTree
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
        import jax

        inputs = self._execution.inputs(job.alone, self._execution.pair.reference_name, "gradient")
        record, given = next(iter(inputs.values()))
        usual, found = self._ran(job, record, given), set()
        apart = {path: _apart(usual[0], usual[1], path) for path in usual[0].leaves}
        wide = [np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64) for array in given.values()]
        for arrays, words, allowed in changed(wide, [*given], [floats.parts(array).dtype for array in given.values()]):
            if not allowed or words == "cotangents of one":  # which the check has tried
                continue
            other = {path: array.astype(given[path].dtype) for path, array in zip(given, arrays, strict=True)}
            try:
                first, second = self._ran(job, record, other)
            except jax.errors.JaxRuntimeError:  # a callback need not take all numbers
                continue
            for path, leaf in first.leaves.items():
                least = HIDDEN * 2.0 ** -floats.digits(floats.parts(leaf.array).dtype) if _is_float(leaf.array) else 0
                if path not in found and _apart(first, second, path) > max(MORE * apart[path], least):
                    found.add(path)
                    yield path, _counterexample(path, leaf.array, second.leaves[path].array, words)

    def _ran(self, job: PendingPoint, record: Any, cotangents: Mapping[str, Array]) -> tuple[HostTree, HostTree]:
        """The outputs of the reference alone and of the variant on the mesh."""
        execution, trees = self._execution, []
        for side, site in ((execution.pair.reference_name, job.alone), (job.point.variant, job.on_mesh)):
            program = execution.sides.programs.start(execution.program(side, site, "gradient"))
            trees.append(execution.tree_at(program, side, site, "gradient", record, dict(cotangents)))
        return trees[0], trees[1]


def _is_float(array: Array) -> bool:
    return floats.is_float(array.dtype) or floats.is_complex(array.dtype)


def _differences(first: Array, second: Array) -> tuple[Array, float]:
    """Where both are finite how far they are apart, and the largest value of the first."""
    left, right = (np.asarray(floats.parts(array), np.float64) for array in (first, second))
    finite = np.isfinite(left) & np.isfinite(right)
    with np.errstate(invalid="ignore"):
        return np.where(finite, np.abs(left - right), 0.0), float(np.max(np.abs(left), where=finite, initial=0.0))


def _apart(first: HostTree, second: HostTree, path: str) -> float:
    """How far a leaf of both is apart, relative to its largest value; 0 where it is not of floats."""
    if path not in second.leaves or not _is_float(first.leaves[path].array):
        return 0.0
    apart, largest = _differences(first.leaves[path].array, second.leaves[path].array)
    top = float(np.max(apart, initial=0.0))
    return top / largest if largest else float(top > 0)


def _counterexample(path: str, first: Array, second: Array, words: str) -> Counterexample:
    apart, _ = _differences(first, second)
    at = first_place(apart == np.max(apart))
    left, right = (floats.parts(array)[at].item() for array in (first, second))
    place = f"{path}[{', '.join(map(str, at))}]"
    return Counterexample(
        f"{place} is {left!r} in the reference, {right!r} here, executed with {words}",
        allowed=True,
        where=words,
        values=(first, second),
    )
