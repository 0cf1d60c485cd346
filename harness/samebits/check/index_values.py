"""Compiled programs at the boundary values of index arguments: is what runs what is written?

A partitioner that shards a slice wrongly is wrong at a few starts alone. So programs run at the ends of each axis that
is indexed and at the borders of its shards: a scalar with these values, a scalar from which an index is computed with
those that take the index there, and a given array of several indices moved there as a whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.other_inputs import OtherInputs, first_found, place
from samebits.check.rounding import COMPILER, WRONG
from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step
from samebits.interpret.float64_differences import apart, outputs_of
from samebits.interpret.given_integers import facts_of, given_arrays
from samebits.interpret.inner_equations import equations
from samebits.interpret.oracle import Oracle
from samebits.interpret.other_values import Counterexample, Other, other_integers
from samebits.interpret.problem import Question, first_place
from samebits.numerics import floats
from samebits.prove.problem import at_inputs
from samebits.prove.prover import Unproved
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import CompiledPair

_INDEXING = ("dynamic_slice", "dynamic_update_slice", "gather", "scatter")
"""The first words of primitives whose operands are integers."""

_BORDERS = 16
"""At how many borders of shards of an axis programs run: of more, at the first and the last ones."""

_STEPS = (1, 256, 65536)
"""How far a scalar is moved, until an index that is computed from it moves too."""


def at_index_values(usual: OtherInputs) -> dict[str, Counterexample]:
    """Find values of an index argument at which a compiled program gives another leaf than is written, by leaf."""
    moved, tried = usual.proofs.movement(usual.job).holds, _index_values_tried(usual)
    first = next(tried, None)
    if first is None:
        return {}
    return first_found(usual.leaves, itertools.chain([first], tried), lambda other, path: _wrong(other, path, moved))


def _wrong(inputs: OtherInputs, path: str, moved: bool) -> Counterexample | None:
    """Return what a side gives otherwise than is written."""
    for side, array in enumerate((inputs.ran[0][path], inputs.ran[1][path])):
        at = None if path not in inputs.question.outputs else _place(inputs, side, path, moved)
        if at is not None:
            with np.errstate(all="ignore"):
                expected = inputs.written(side, path).astype(array.dtype)
            on = f" on {inputs.job.on_mesh.mesh.id}" if side and inputs.job.on_mesh.on_mesh else ""
            shown = f"{floats.show(expected[at])} as written, and {floats.show(array[at])}"
            words = f"{COMPILER} {inputs.words}: {place(path, at)} is {shown} where '{inputs.sides[side]}' runs{on}"
            return replace(inputs.counterexample(path, words), kind="compiler", values=(expected, array))
    return None


def _place(inputs: OtherInputs, side: int, path: str, moved: bool) -> tuple[int, ...] | None:
    """Return the first element of a leaf that is not what is written, but for rounding unless data only moves."""
    array, value = inputs.ran[side][path], inputs.written(side, path)
    if value.shape != array.shape or value.dtype.kind not in "biuf":  # complex numbers, and leaves without values
        return None
    with np.errstate(all="ignore"):
        expected = value.astype(array.dtype)
        wrong = apart(array, expected, 0.0) if floats.is_float(array.dtype) else np.asarray(array != value)
        if not wrong.any() or (moved and _moves(inputs, path)):
            return first_place(wrong) if wrong.any() else None
        if not floats.is_float(array.dtype):  # what is rounded on the way decides them
            wrong &= all(argument.integers is not None for argument in inputs.question.inputs)
            return first_place(wrong) if wrong.any() else None
        ran = np.asarray(array, np.float64)  # float64 has no range to leave on the way
        wrong = apart(array, expected, WRONG * float(ml_dtypes.finfo(array.dtype).eps))
        wrong &= np.isfinite(ran) & np.isfinite(np.asarray(expected, np.float64))
        if wrong.any():
            wrong &= ~(np.abs(ran - value) <= WRONG * inputs.bound(side, path))
    return first_place(wrong) if wrong.any() else None


def _moves(inputs: OtherInputs, path: str) -> bool:
    """Return whether both sides only move data at these values too: at others, as of equal indices, they may add."""
    proofs = inputs.proofs.prover.movement(inputs.question)
    return not isinstance(proofs, Unproved) and path in proofs and proofs[path].only_moved


def _index_values_tried(usual: OtherInputs) -> Iterator[OtherInputs]:
    """Yield the record with other integers; where an array is given, only those within an axis may be."""
    mesh, question = _mesh(usual), usual.question
    places = _places(usual, mesh)
    others = other_integers(question, places)
    if mesh.devices > 1:
        others = itertools.chain(others, _moved_arrays(question, places), _reaching(question, places))
    for other in others:
        record = at_inputs(usual.record, other.question)
        changed = [array for name, array in record.items() if not np.array_equal(array, usual.record[name])]
        if any(array.dtype.kind == "b" or max(-int(array.min()), int(array.max())) >= 2**31 - 1 for array in changed):
            continue  # no index is at an end of a dtype
        inside = all(array.min() >= 0 and array.max() < max(places, default=0) for array in changed)
        yield replace(usual, record=record, words=f"with {other.words}", allowed=other.allowed or inside)


def _mesh(usual: OtherInputs) -> MeshSpec:
    """Return the mesh that the variant runs on, or was partitioned for."""
    pair = usual.proofs.execution.pair
    if isinstance(pair, CompiledPair):
        return MeshSpec.parse(pair.layouts[usual.job.point.case])
    return usual.job.on_mesh.mesh


def _places(usual: OtherInputs, mesh: MeshSpec) -> list[int]:
    """Return the ends of the axes that both programs index, and the borders of their shards."""
    both, places = (usual.question.reference, usual.question.variant), list[int]()
    for equation in (each for program in both for each in equations(program.jaxpr)):
        if not equation.primitive.name.startswith(_INDEXING):
            continue
        shape = equation.invars[0].aval.shape
        sizes = equation.params.get("slice_sizes", (1,) * len(shape))
        if equation.primitive.name == "dynamic_update_slice":
            sizes = equation.invars[1].aval.shape
        for length, taken in zip(shape, sizes, strict=True):
            if taken < length or length == 1:
                borders = _borders(length, mesh)
                places += [length - taken, length - taken + 1, length - 1, length, *borders, *(b - 1 for b in borders)]
    return list(dict.fromkeys([*places, -1]))


def _borders(length: int, mesh: MeshSpec) -> list[int]:
    """Return where the shards of an axis of an array begin, however axes of the mesh split it."""
    sizes = [size for _, size in mesh.axes if size > 1]
    parts = {math.prod(some) for count in range(len(sizes)) for some in itertools.combinations(sizes, count + 1)}
    cuts = {-(-length // count) for count in parts}
    borders = sorted({border for cut in cuts if cut for border in range(cut, length, cut)})
    half = _BORDERS // 2
    return borders if len(borders) <= _BORDERS else [*borders[:half], *borders[-half:]]


def _moved_arrays(question: Question, places: Sequence[int]) -> Iterator[Other]:
    """Yield the question with each given array of integers moved so that its smallest or largest is at a place."""
    for argument in given_arrays(question):
        values = np.asarray(argument.values)
        if values.dtype.kind == "b":
            continue
        facts, number = facts_of(argument, question).facts.values(), question.inputs.index(argument)
        ends = int(values.min()), int(values.max())
        for step in dict.fromkeys(wanted - end for wanted in places for end in ends):
            if not step or ends[0] + step < 0 or ends[1] + step >= max(places):
                continue
            rows = values.astype(np.int64).reshape(-1, values.shape[-1] or 1) + step
            if all(fact.holds(rows) for fact in facts if fact.needed):
                words = f"'{argument.name}' {'+' if step > 0 else '-'} {abs(step)}"
                yield Other(question.having({number: values + step}), words, allowed=True, small=False)


def _reaching(question: Question, places: Sequence[int]) -> Iterator[Other]:
    """Yield the question with a scalar at which an index that is computed from it is at a place."""
    for number, argument in enumerate(question.inputs):
        if argument.integers is None or argument.values.size != 1 or argument.values.dtype.kind == "b":
            continue
        at, (low, high) = int(argument.values.reshape(-1)[0]), argument.integers
        tried = {*places, at}
        for begin, step, way in _ways(question, number, at, high):
            for value in (at + (wanted - begin) * step // way for wanted in places):
                if value not in tried and low <= value <= high:
                    tried.add(value)
                    other = question.having({number: np.full_like(argument.values, value)})
                    yield Other(other, f"'{argument.name}' = {value}", _is_inside(other), small=False)


def _ways(question: Question, number: int, at: int, high: int) -> list[tuple[int, int, int]]:
    """Return where indices begin that move with a scalar, by how much it was moved, and how far they came."""
    before = _indices(question)
    for step in _STEPS:
        if at + step > high:
            break
        values = np.full_like(question.inputs[number].values, at + step)
        after = _indices(question.having({number: values}))
        if before is None or after is None or before[0].shape != after[0].shape:
            break
        ways = {(int(a), step, int(b - a)) for a, b in zip(before[0], after[0], strict=True) if a != b}
        if ways:
            return sorted(ways)
    return []


def _is_inside(question: Question) -> bool:
    """Return whether every index is within its axis."""
    known = _indices(question)
    return known is not None and bool(np.all((known[0] >= 0) & (known[0] < known[1])))


def _indices(question: Question) -> tuple[Array, Array] | None:
    """Return all indices of both programs and the lengths of their axes; None where a program has no values there."""
    seen = _IndexOracle()
    try:
        for program in question.sides:
            outputs_of(question, program, seen)
    except NotCovered:
        return None
    empty = np.empty(0, np.int64)
    return np.concatenate([*seen.indices, empty]), np.concatenate([*seen.lengths, empty])


class _IndexOracle(Oracle):
    """The domain of float64 numbers, which records what indices come out as."""

    def __init__(self) -> None:
        super().__init__()
        self.indices: list[Array] = []
        self.lengths: list[Array] = []
        self._operands = 0

    def concrete(self, step: Step, value: Array) -> Array:
        """The numbers themselves, recorded."""
        if step.name.startswith(_INDEXING):
            self._record(step, value)
        return super().concrete(step, value)

    def apply(self, step: Step, values: Sequence[Array]) -> list[Array]:
        """Plain arithmetic; the indices of a scatter are recorded."""
        if step.name.startswith("scatter"):
            self._record(step, values[1])
        return super().apply(step, values)

    def _record(self, step: Step, value: Array) -> None:
        shape, numbers = step.inputs[0].shape, step.params.get("dimension_numbers")
        if step.name.startswith("dynamic"):  # one operand for each axis, in their order
            axes: Any = [self._operands % len(shape)]
            self._operands += 1
        else:
            self._operands = 0
            axes = getattr(numbers, "start_index_map", None) or getattr(numbers, "scatter_dims_to_operand_dims", ())
        self.indices.append(np.asarray(value, np.int64).reshape(-1))
        self.lengths.append(np.resize(np.array([shape[axis] for axis in axes], np.int64), np.size(value)))
