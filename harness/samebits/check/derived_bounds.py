"""What rounding does to equal formulas, derived without executing them: bounds of both sides, and both as written.

A proof over fields says nothing of accuracy. Where every result is bounded, the variant's bound is held against the
reference's; and both programs are interpreted in their own dtypes, for the errors that they have at these inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.loss_of_kind import growing
from samebits.check.rounding import gather_evidence
from samebits.check.sample import LeafSample
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.interpret.as_written import simulate
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.estimate import ErrorEstimate, estimate_errors
from samebits.interpret.rounding_error.rules import PASSES
from samebits.numerics import floats
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.programs.inputs import Array


@dataclass(frozen=True, slots=True)
class EvaluatedProgram:
    """One program of a question at its inputs.

    Args:
        bounds: the ideal values, and how far rounding can take the computed ones from them.
        written: the outputs as the program is written, in its dtypes.
    """

    bounds: ErrorEstimate
    written: Mapping[str, Array]


Derived = tuple[EvaluatedProgram, EvaluatedProgram]
"""The reference and the variant."""


class BoundCache:
    """Interprets the sides of questions; a side that was interpreted at the same inputs is not interpreted again.

    Args:
        platform: the target, whose products of matrices are bounded; of an unknown one those of a CPU, which keep
            float32.
    """

    def __init__(self, platform: str) -> None:
        self._platform = platform if platform in PASSES else "cpu"
        self._cached: dict[tuple[object, ...], tuple[ErrorEstimate, Mapping[str, Array] | None]] = {}

    def ideal(self, question: Question) -> ErrorEstimate:
        """Return the reference of a question in float64, with its bounds.

        Raises:
            NotCovered: an equation has no rule.
        """
        return self._judged(question, question.reference)[0]

    def sides(self, question: Question) -> Derived:
        """Return both sides of a question.

        Raises:
            NotCovered: an equation has no rule.
        """
        return self._side(question, question.reference), self._side(question, question.variant)

    def _side(self, question: Question, program: Any) -> EvaluatedProgram:
        estimate, written = self._judged(question, program)
        if written is None:
            written = simulate(program, question)
            self._cached[_key(question, program)] = (estimate, written)
        return EvaluatedProgram(estimate, written)

    def _judged(self, question: Question, program: Any) -> tuple[ErrorEstimate, Mapping[str, Array] | None]:
        key = _key(question, program)
        if key not in self._cached:
            if len(self._cached) >= 16:
                self._cached.pop(next(iter(self._cached)))
            inputs = [np.asarray(argument.values) for argument in question.inputs]
            self._cached[key] = (estimate_errors(program, question, inputs, self._platform, usual=True), None)
        return self._cached[key]


def _key(question: Question, program: Any) -> tuple[object, ...]:
    """Return the program, the outputs that the question names, the branches taken, and all inputs by value."""
    names = (tuple(question.outputs), tuple(argument.name for argument in question.inputs))
    return ByIdentity(program), question.platform, digest_of([argument.values for argument in question.inputs], *names)


def doubt(derived: Mapping[str, Derived], leaf: str, limit: float | None) -> str | None:
    """Explain why proofs do not decide whether a variant is as accurate as its contract requires; None where they do.

    Args:
        derived: both evaluated programs, by label of the input.
        leaf: the output.
        limit: how many times the reference's error the variant may have; None accepts all but a loss of kind.
    """
    samples = {}
    for label, both in derived.items():
        first, second = (side.written[leaf] for side in both)
        comparison = compare_leaf(leaf, Leaf(array=first), Leaf(array=second))
        if _no_rounding(comparison, first):
            return f"as written, on the {label} input: {comparison.kind} at {comparison.witness}"
        if any(leaf not in side.bounds.values for side in both):
            continue  # integers and booleans have no accuracy
        values, errors, sums = (
            [getattr(side.bounds, name)[leaf] for side in both] for name in ("values", "bounds", "narrow_sums")
        )
        sample = LeafSample(first, second, *values, *errors)._replace(narrow_sums=(sums[0], sums[1]))
        if limit is None:
            longer = growing(sample)
            if longer is not None:
                return longer
        elif (share := _share(both, leaf, first.dtype)) > limit:
            lost = both[1].bounds.loses_most.get(leaf)
            most = "" if lost is None else f"; most can be lost by {lost}"
            times = "cannot be bounded" if share == np.inf else f"is up to {share:.2g}x that of the reference's"
            return f"what the variant's operations can lose {times} (limit {limit:g}){most}"
        if not comparison.equal:
            samples[label] = sample
    if not samples:
        return None
    evidence = gather_evidence(samples, limit=limit, log2_error=0.0)
    decided = evidence.is_rounding and evidence.undecided is None
    return None if decided else f"as written it {evidence.sentence()}"


def _no_rounding(comparison: Comparison, array: Array) -> bool:
    """Return whether no rounding makes such a difference."""
    if not floats.is_float(array.dtype):
        return not comparison.equal
    return bool({"NaN vs number", "overflow to infinity", "shape", "dtype"} & set(comparison.kinds))


def _share(both: Derived, leaf: str, dtype: np.dtype[Any]) -> float:
    """Return the largest bound of the variant over the reference's, of at least half an ulp of its row's largest."""
    info, ideal = ml_dtypes.finfo(dtype), both[0].bounds.values[leaf]
    first, second = (side.bounds.bounds[leaf] for side in both)
    usable = np.isfinite(ideal)
    size = np.abs(np.where(usable, ideal, 0))
    largest = np.max(size, axis=-1, keepdims=True, initial=0.0) if size.ndim else size
    least = np.maximum(first, float(info.eps) / 2 * largest + float(info.smallest_normal))
    with np.errstate(invalid="ignore"):
        quotient = np.where(np.isfinite(second), second / least, np.inf)
    return float(np.max(quotient, where=usable, initial=0.0))
