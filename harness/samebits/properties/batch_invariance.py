"""`samebits.assert_batch_invariant`: whether the bits of a row depend on the batch that it is in.

The function is compiled and run here at batches of other sizes, with the rows at other positions, among other rows, and
padded. A row that moves by rounding is told apart from one that reads other rows: evaluated in float64 the first stays.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from samebits.errors import CouldNotRun, NotCovered, NothingCompared
from samebits.host.backend_start import require_answer
from samebits.interpret.equation import Array
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.properties.call import running
from samebits.properties.outcome import Conclusion
from samebits.properties.row_batch import BatchChange, RowBatch, row_batch
from samebits.schema.difference import extent
from samebits.user_errors import one_line

SHRUNK = 0.01
"""The share of a difference that may remain in float64: of rounding far less does."""

NOTHING = 1e-10
"""A difference in float64 that is rounding there, relative to the largest value."""

SHOWN = 4
"""Changes of the batch that a message shows."""

ROUNDING = ("rounding", "sign of zero", "subnormal flushed", "NaN payload")
"""Classes of difference that are rounding where float64 cannot decide."""


class MovedRow(NamedTuple):
    """A row whose bits are not the same in a changed batch: in which output, by its number, and how they differ."""

    change: BatchChange
    output: int
    comparison: Comparison
    row: int

    def text(self, size: int) -> str:
        """Return both values of the first element, and how many elements of all rows compared differ."""
        seen = self.comparison
        if seen.witness is None:
            return f"{self.change.text}: {seen.path}: {seen.detail}"
        whole, here = seen.witness.values
        return (
            f"{self.change.text}: row {self.row}, {seen.witness.at}: {whole} in the batch of {size}, {here} here; "
            f"{extent(seen.differences, seen.elements)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BatchInvariance(Conclusion):
    """Which changes of a batch move the bits of its rows.

    Args:
        name: of the function.
        size: how many rows the batch has.
        changes: what was tried, in words.
        moved: the rows that moved, by change and output.
        coupling: why a difference is more than rounding, as a row that reads others has it; None where it is rounding.
        cause: the first equation whose result moves, evaluated one at a time; None where no row moved.
        cure: what was tried to keep the bits, and whether it does.
        notes: what a reader should know, such as outputs without an axis of the batch.
    """

    name: str
    size: int
    changes: tuple[str, ...]
    moved: tuple[MovedRow, ...] = ()
    coupling: str | None = None
    cause: str | None = None
    cure: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether every row had the same bits in every batch."""
        return not self.moved

    def text(self) -> str:
        """Return the result as lines."""
        notes = [f"note: {note}" for note in self.notes]
        if self.ok:
            head = f"{self.name}: rows of a batch of {self.size} keep their bits under {len(self.changes)} changes"
            return "\n".join([head, *notes])
        texts = dict.fromkeys(each.change.text for each in self.moved)
        what = "a row depends on its batch" if self.coupling else "the bits of a row depend on its batch"
        lines = [f"{self.name}: {what}: {len(texts)} of {len(self.changes)} changes move rows"]
        lines += [each.text(self.size) for each in self.moved[:SHOWN]]
        if len(self.moved) > SHOWN:
            shown = {each.change.text for each in self.moved[:SHOWN]}
            others = [text for text in texts if text not in shown] or ["outputs"]
            lines.append(f"and {len(self.moved) - SHOWN} more: {'; '.join(others)}")
        reason = self.coupling or "rounding: in float64 the rows stay"
        return "\n".join([*lines, *(line for line in (reason, self.cause, self.cure) if line), *notes])


def assert_batch_invariant(
    f: Callable[..., Any],
    /,
    *args: Any,
    rows: Sequence[str] = (),
    axis: int = 0,
    sizes: Sequence[int] = (),
    **keywords: Any,
) -> None:
    """Fail unless every row has the same bits whatever batch it is in, as compiled and run on this backend.

    Tried are batches of other sizes, rows at other positions, among other rows, and batches padded with zeros or with
    repeated rows. Equivalent to `batch_invariance(...).raise_for_status()`.

    Args:
        f: a function of arrays, some of which have one entry per row of the batch.
        args: what it is called with: arrays, trees of arrays, and anything else, which is passed on.
        rows: which arguments have the rows, by name, or arrays in them by shell patterns such as `cache.*`. By default
            those with the size of the first array along `axis`.
        axis: along which the rows of the arguments lie; 0 by default.
        sizes: the sizes of batches to try; by default 1, half, one less, one more and twice as many.
        keywords: more arguments of the function.

    Raises:
        AssertionError: a row moved. The message says in which batch, both values, whether that is rounding or the row
            reads other rows, the first equation whose result moves, and what keeps the bits where that is rounding.
        RequestError: it cannot be told which arguments or outputs have the rows.
        NothingCompared: no row of an output depends on its own inputs.
        CouldNotRun: the function raised, or does not repeat its own bits.
    """
    __tracebackhide__ = True
    batch_invariance(f, *args, rows=rows, axis=axis, sizes=sizes, **keywords).raise_for_status()


def batch_invariance(
    f: Callable[..., Any],
    /,
    *args: Any,
    rows: Sequence[str] = (),
    axis: int = 0,
    sizes: Sequence[int] = (),
    **keywords: Any,
) -> BatchInvariance:
    """Say which changes of a batch move the bits of its rows; arguments are those of `assert_batch_invariant`.

    Args:
        f: as for `assert_batch_invariant`.
        args: as for `assert_batch_invariant`.
        rows: as for `assert_batch_invariant`.
        axis: as for `assert_batch_invariant`.
        sizes: as for `assert_batch_invariant`.
        keywords: as for `assert_batch_invariant`.

    Returns:
        What was tried and what moved; `text()` is the message of `assert_batch_invariant`.
    """
    require_answer()
    batch = row_batch(f, args, keywords, rows, axis)
    changes = list(batch.changes(sizes))
    with running(f"'{batch.name}' could not run:"):
        base, again = (batch.run(batch.whole) for _ in range(2))
    if any(each.comparison.kinds for each in _compared(batch, batch.whole, base, again)):
        raise CouldNotRun(f"'{batch.name}' does not repeat its own bits on the same batch, so that no row has any")
    _require_read(batch, [change for change in changes if change.others and len(change.order) == batch.size])
    moved, notes = _moved(batch, batch.run, changes)
    coupling = cause = cure = None
    if moved:
        worst, coupling = _coupling(batch, moved)
        cause = _cause(batch, worst)
        cure = None if coupling else _cure(batch, changes)
    return BatchInvariance(
        name=batch.name,
        size=batch.size,
        changes=tuple(change.text for change in changes),
        moved=tuple(moved),
        coupling=coupling,
        cause=cause,
        cure=cure,
        notes=(*batch.notes, *notes),
    )


Run = Callable[[BatchChange], list[Any]]


def _moved(batch: RowBatch, run: Run, changes: Sequence[BatchChange]) -> tuple[list[MovedRow], list[str]]:
    """Run every change of the batch, and return the rows that moved, and which changes the function does not take."""
    base = run(batch.whole)
    moved: list[MovedRow] = []
    notes: dict[str, None] = {}
    for change in changes:
        try:
            outputs = run(change)
        except Exception as error:  # the function takes not every size
            notes[f"not tried: {change.text}: {one_line(error)}"] = None
            continue
        moved += [each for each in _compared(batch, change, base, outputs) if each.comparison.kinds]
    return moved, [*notes]


def _require_read(batch: RowBatch, changes: Sequence[BatchChange]) -> None:
    """Reject a function whose rows do not change with their own inputs."""
    base = batch.run(batch.whole)
    compared = (each for change in changes for each in _compared(batch, change.of_others(), base, batch.run(change)))
    if changes and not any(each.comparison.kinds for each in compared):
        raise NothingCompared(f"'{batch.name}': no row of an output changes with its own inputs; nothing was compared")


def _compared(batch: RowBatch, change: BatchChange, base: Sequence[Any], outputs: Sequence[Any]) -> Iterator[MovedRow]:
    """Compare the rows of each output that has them; each with the row of the batch that its witness is in."""
    for number, (name, axis) in enumerate(zip(batch.outputs, batch.axes, strict=True)):
        if axis is None:
            continue
        left, right = (Leaf(array=each) for each in batch.rows_of(number, change, base, outputs))
        comparison, row = compare_leaf(name, left, right), change.own[0]
        if witness := comparison.witness:
            index, place = list(witness.index), witness.index[axis.dimension]
            row = change.own[place // axis.width]
            index[axis.dimension] = row * axis.width + place % axis.width
            comparison = replace(comparison, witness=replace(witness, index=tuple(index)))
        yield MovedRow(change, number, comparison, row)


def _coupling(batch: RowBatch, moved: Sequence[MovedRow]) -> tuple[MovedRow, str | None]:
    """Return a row that moves by more than rounding, and why that is so; else the first, and None."""
    from samebits.properties.row_movement import float64_outputs

    order = sorted(moved, key=lambda each: (len(each.change.order) != batch.size, not each.change.others))
    wide = functools.cache(lambda change: float64_outputs(*batch.program(change)))
    for each in order:
        change = each.change
        try:
            sides = batch.rows_of(each.output, change, wide(batch.whole), wide(change))
        except NotCovered as error:
            if each.comparison.kind in ROUNDING:
                continue
            return each, f"not rounding, by the size of the difference (float64 could not be evaluated: {error})"
        share = _remaining(*sides, *batch.rows_of(each.output, change, batch.run(batch.whole), batch.run(change)))
        if share is not None:
            return each, (
                f"not rounding: evaluated in float64 the row moves too, {share}: it reads other rows, its position or "
                "the size of the batch"
            )
    return order[0], None


def _remaining(left: Array, right: Array, first: Array, second: Array) -> str | None:
    """Say what remains in float64 of a difference of rows; None where that is as little as rounding leaves."""
    if left.shape != right.shape or left.dtype.kind not in "biuf":
        return "and has other shapes there" if left.shape != right.shape else None
    left, right, first, second = (np.asarray(side, np.float64) for side in (left, right, first, second))
    if (np.isnan(left) != np.isnan(right)).any():
        return "from a number to NaN"
    with np.errstate(invalid="ignore"):
        far, narrow = (np.nan_to_num(np.abs(a - b)) for a, b in ((left, right), (first, second)))
    largest = float(np.nanmax(np.abs(left), initial=0.0))
    if not ((far > SHRUNK * narrow) & (far > NOTHING * largest)).any():
        return None
    return f"by up to {far.max() / largest:.2g} of its largest value" if largest else f"by up to {far.max():.2g}"


def _cause(batch: RowBatch, moved: MovedRow) -> str:
    """Name the first equation whose result moves."""
    from samebits.properties.row_movement import first_movement

    try:
        text = first_movement(batch, moved.change, moved.output)
    except Exception as error:  # an equation that does not run alone, as a collective
        return f"first equation: not found: {one_line(error)}"
    return f"first equation ({moved.change.text}): {text}"


def _cure(batch: RowBatch, changes: Sequence[BatchChange]) -> str:
    """Say what keeps the bits, as it was run: batches of one size, or one row at a time."""
    size = max(len(change.order) for change in changes)
    padded = [change.padded(size) for change in changes]
    ways: tuple[tuple[str, Run, Sequence[BatchChange]], ...] = (
        (f"every batch padded with zeros to {size} rows", lambda change: batch.run(change.padded(size)), padded),
        ("one row at a time, by jax.lax.map", batch.one_by_one, changes),
    )
    for text, run, tried in ways:
        with contextlib.suppress(Exception):  # the function does not take such batches
            if _moved(batch, run, tried) == ([], []):
                return f"cure, verified under the same {len(changes)} changes: {text}"
    return f"neither {ways[0][0]} nor {ways[1][0]}, keeps the bits"
