"""Compiled programs at the boundary values of index arguments: is what runs what is written?

A compiler that shards a slice may be wrong at a few starts alone, and what the programs say is evaluated without it
(`interpret.other_values`). So the compiled programs also run at the integers of that evaluation, at the ends of the
axes that the programs index, and at the borders of their shards. Where a result is not what the same program gives when
it is evaluated as written, the compiled program is wrong, whatever the other side gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np

from samebits.check.other_inputs import OtherInputs, first_found, place
from samebits.check.rounding import COMPILER, WRONG
from samebits.interpret.float64_differences import apart
from samebits.interpret.inner_equations import equations
from samebits.interpret.other_values import Counterexample, other_integers
from samebits.interpret.problem import first_place
from samebits.numerics import floats
from samebits.prove.problem import at_inputs
from samebits.prove.prover import Unproved

_INDEXING = ("dynamic_slice", "dynamic_update_slice", "gather", "scatter")
"""The first words of primitives whose operands are integers."""


def at_index_values(usual: OtherInputs) -> dict[str, Counterexample]:
    """Find values of an index argument at which a compiled program gives another leaf than is written, by leaf.

    Args:
        usual: the inputs of a case.
    """
    moved = usual.proofs.movement(usual.job).holds
    return first_found(usual.leaves, _inputs(usual), lambda other, path: _wrong(other, path, moved))


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


def _inputs(usual: OtherInputs) -> Iterator[OtherInputs]:
    """Yield the record with other integers; where an array is given, only those within an axis may be."""
    places = _places(usual)
    for other in other_integers(usual.question, places):
        record = at_inputs(usual.record, other.question)
        changed = [array for name, array in record.items() if not np.array_equal(array, usual.record[name])]
        if any(array.dtype.kind == "b" or max(-int(array.min()), int(array.max())) >= 2**31 - 1 for array in changed):
            continue  # no index is at an end of a dtype
        inside = all(array.min() >= 0 and array.max() < max(places, default=0) for array in changed)
        yield replace(usual, record=record, words=f"with {other.words}", allowed=other.allowed or inside)


def _places(usual: OtherInputs) -> list[int]:
    """Return the ends of the axes that both programs index, and the borders of their shards."""
    devices = [size for _, size in usual.job.on_mesh.mesh.axes if size > 1]
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
                borders = [length // n for n in devices if length % n == 0]
                places += [length - taken, length - taken + 1, length - 1, length, *borders, *(b - 1 for b in borders)]
    return list(dict.fromkeys([*places, -1]))
