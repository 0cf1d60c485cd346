"""Compiled programs at the boundary values of index arguments: is what runs what is written?

A compiler that shards a slice may be wrong at a few starts alone, and what the programs say is evaluated without it
(`interpret.other_values`). So the programs that are compiled already run at the ends of each index argument's range,
at the ends of the axes that the programs index, and at the borders of their shards. Where the result is not what the
same program gives when it is evaluated as written, the compiled program is wrong, whatever the other side gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.check.point_proofs import PointProofs
from samebits.check.rounding import COMPILER
from samebits.errors import CouldNotRun, NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.float64_differences import evaluated
from samebits.interpret.inner_equations import equations
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question, first_place
from samebits.interpret.rounding_error.estimate import estimate_errors
from samebits.numerics import floats
from samebits.programs.inputs import Record, is_key
from samebits.prove.input_facts import integer_range
from samebits.prove.prover import Unproved
from samebits.schema.case import Arg
from samebits.schema.values import Given

MOST = 12
"""How many values of one argument are tried."""

FAR = 64.0
"""A float that was computed is wrong from so many units in the last place on, and from so many times its bound."""

_INDEXING = ("dynamic_slice", "dynamic_update_slice", "gather", "scatter", "scatter-add", "scatter_add")


class IndexValues:
    """The boundary values of the index arguments of the points of one pair.

    Args:
        execution: runs compiled programs.
        proofs: gives the questions of points.
    """

    def __init__(self, execution: Execution, proofs: PointProofs) -> None:
        self.execution = execution
        self.proofs = proofs
        self._cached: tuple[PendingPoint | None, dict[str, Counterexample]] = (None, {})

    def counterexample(self, job: PendingPoint, path: str) -> Counterexample | None:
        """Values of an index argument at which a compiled program gives another leaf than is written."""
        if self._cached[0] is not job:
            self._cached = job, self._of(job)
        return self._cached[1].get(path)

    def _of(self, job: PendingPoint) -> dict[str, Counterexample]:
        wrong_at: dict[str, Counterexample] = {}
        if self.execution.sides.programs.group is not None:  # what is asked lazily must not hang on one process
            return wrong_at
        reference, direction = self.execution.pair.reference_name, job.point.direction
        record, cotangents = next(iter(self.execution.inputs(job.alone, reference, direction).values()))
        moved = self.proofs.movement(job).holds
        for other, words, allowed in self._records(job, record):
            try:
                question = self.proofs.prover.question(
                    direction, job.alone, job.point.variant, job.on_mesh, other, cotangents
                )
                for path, (wrong, values) in self._wrong(job, question, other, cotangents, moved).items():
                    if path not in wrong_at or (allowed and not wrong_at[path].allowed):
                        text, where = f"{COMPILER} with {words}: {wrong}", f"ordinary, with {words}"
                        wrong_at[path] = Counterexample(text, allowed, where, values=values, kind="compiler")
            except (NotCovered, CouldNotRun):  # these values have no result as written
                continue
        return wrong_at

    def _wrong(
        self, job: PendingPoint, question: Question, record: Record, cotangents: dict[str, Array], moved: bool
    ) -> dict[str, tuple[str, tuple[Array, Array]]]:
        """By leaf that a side gives otherwise than is written, how in words, what is written and what it gives."""
        sides = (
            ("alone", self.execution.pair.reference_name, job.alone, question.reference),
            ("variant", job.point.variant, job.on_mesh, question.variant),
        )
        wrong: dict[str, tuple[str, tuple[Array, Array]]] = {}
        before: dict[str, Array] = {}
        for name, side, site, program in sides:
            tree = self.execution.tree_at(job.programs[name], side, site, job.point.direction, record, cotangents)
            ran = {path: leaf.array for path, leaf in tree.leaves.items()}
            if before and all(path in before and _same(before[path], array) for path, array in ran.items()):
                continue  # as the reference, which is as written
            written = dict(zip(question.outputs, evaluated(question, program), strict=True))
            for path, array in ran.items():
                place = _place(array, written.get(path), program, question, path, moved)
                if place is not None and moved and not self._moves(question, path):
                    place = _place(array, written.get(path), program, question, path, moved=False)
                if place is None or path in wrong:
                    continue
                where = f"{path}[{', '.join(map(str, place))}]" if place else path
                on = f" on {site.mesh.id}" if site.on_mesh else ""
                with np.errstate(all="ignore"):
                    expected = np.asarray(written[path]).astype(array.dtype)
                shown = floats.show(expected[place]), floats.show(array[place])
                words = f"{where} is {shown[0]} as written, and {shown[1]} where '{side}' runs{on}"
                wrong[path] = words, (expected, array)
            before = ran
        return wrong

    def _moves(self, question: Question, path: str) -> bool:
        """Whether both sides only move data at these values too: at others, as of equal indices, they may add."""
        proofs = self.proofs.prover.movement(question)
        return not isinstance(proofs, Unproved) and path in proofs and proofs[path].only_moved

    def _records(self, job: PendingPoint, record: Record) -> Iterator[tuple[Record, str, bool]]:
        """The record with other values of each of its index arguments in turn, and of all scalars together.

        With the values in words, and whether they may be given: without a stated range only those within an axis.
        """
        args, case = self.execution.sides.args(job.alone), job.alone.case
        places = list(dict.fromkeys(p for name in ("alone", "variant") for p in _places(job, name)))
        last: dict[str, Array] = {}
        for name, array in record.items():
            bounds = integer_range(name, args[name], array, case)
            if not _is_index(args[name], array) or bounds is None:
                continue
            numbers, stated = _numbers(bounds, places), bounds[1] < np.iinfo(array.dtype).max
            chosen = [np.resize(np.array(numbers, array.dtype), array.shape)] if array.size > 1 else []
            chosen += [np.full(array.shape, number, array.dtype) for number in numbers if array.size == 1]
            for values in chosen:
                if not np.array_equal(values, array):
                    within = stated or 0 <= int(values.reshape(-1)[0]) < max(places, default=0)
                    yield {**record, name: values}, f"'{name}' {_shown(values)}", within
            if array.size == 1 and stated:
                last[name] = np.full(array.shape, numbers[-1], array.dtype)
        if len(last) > 1:
            words = " and ".join(f"'{name}' {_shown(values)}" for name, values in last.items())
            yield {**record, **last}, words, True


def _is_index(arg: Arg, array: Array) -> bool:
    """Whether the integers of an argument may be others: of several that are given, some hang together."""
    if array.dtype.kind not in "iu" or not array.size or is_key(arg) or arg.equals is not None:
        return False
    if isinstance(arg.values, Given):
        return array.size == 1 and not arg.values.exactly
    return array.size == 1 or not callable(arg.values)


def _numbers(bounds: tuple[int, int], places: list[int]) -> list[int]:
    """The numbers of a range to try: all of a small one, else its ends where it is stated, and the places."""
    low, high = bounds
    if high - low < MOST:
        return list(range(low, high + 1))
    ends = [number for number in bounds if -(2**31) < number < 2**31 - 1]  # of a dtype they are nobody's
    inside = [number for number in (*ends, 0, *places, -1) if low <= number <= high]
    return sorted(list(dict.fromkeys(inside))[:MOST], key=lambda number: (number < 0, number))


def _places(job: PendingPoint, name: str) -> list[int]:
    """The ends of the axes that a program indexes, and the borders of their shards."""
    devices = [size for _, size in job.on_mesh.mesh.axes if size > 1]
    places: list[int] = []
    for equation in equations(job.programs[name].traced.jaxpr.jaxpr):
        if not equation.primitive.name.startswith(_INDEXING):
            continue
        shape = equation.invars[0].aval.shape
        sizes = equation.params.get("slice_sizes")
        if sizes is None:
            sizes = equation.invars[1].aval.shape if equation.primitive.name == "dynamic_update_slice" else [1] * 9
        for length, taken in zip(shape, sizes, strict=False):
            if taken < length or length == 1:
                borders = [length // n for n in devices if length % n == 0]
                places += [length - taken, length - taken + 1, length - 1, length, *borders, *(b - 1 for b in borders)]
    return places


def _shown(values: Array) -> str:
    flat = values.reshape(-1).tolist()
    return f"= {flat[0]}" if len(flat) == 1 else f"of {', '.join(map(str, flat[:3]))}, ... {flat[-1]}"


def _same(first: Array, second: Array) -> bool:
    """Whether two arrays are the same but for rounding."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.tobytes() == second.tobytes():
        return True
    return floats.is_float(first.dtype) and not np.any(_beyond(first, np.asarray(second, np.float64), 1))


def _place(
    array: Array, written: Any, program: Any, question: Question, path: str, moved: bool
) -> tuple[int, ...] | None:
    """The first element of a leaf that is not what is written; None where there is none."""
    import jax

    value = np.asarray(written)
    if value.shape != array.shape or value.dtype.kind not in "biuf":  # complex numbers, and leaves without values
        return None
    if not floats.is_float(array.dtype):
        wrong = array != value if moved or all(aval.dtype.kind not in "fV" for aval in program.in_avals) else None
    else:
        wrong = _beyond(array, value, 0 if moved else FAR)
        if wrong.any() and not moved:
            inputs = [np.asarray(argument.values) for argument in question.inputs]
            bounds = estimate_errors(program, question, inputs, jax.default_backend()).bounds[path]
            with np.errstate(all="ignore"):
                wrong &= np.abs(np.asarray(array, np.float64) - value) > FAR * bounds
    return first_place(np.asarray(wrong)) if wrong is not None and np.any(wrong) else None


def _beyond(array: Array, value: Array, units: float) -> Array:
    """Which finite elements are farther from a value than so many units of the largest; flushed ones are not."""
    info = ml_dtypes.finfo(array.dtype)
    ran = np.asarray(array, np.float64)
    with np.errstate(all="ignore"):
        exact = value.astype(array.dtype).astype(np.float64)
        finite = np.isfinite(ran) & np.isfinite(exact)
        largest = float(np.max(np.abs(exact), where=finite, initial=0.0))
        far = np.abs(ran - exact) > units * float(info.eps) * largest + float(info.smallest_normal)
        lost = np.isfinite(exact) != np.isfinite(ran) if not units else np.zeros(ran.shape, bool)
    return np.asarray((finite & far) | lost)
