"""A function of a batch: which of its arrays have the rows, and the batches that are made of others' rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from samebits.errors import NotCovered, RequestError
from samebits.interpret.equation import Array, is_key
from samebits.properties.call import FlatCall, is_of
from samebits.user_errors import one_line

CANDIDATES = 6
"""Of so many arguments it is tried which have the rows; of more, their names are asked for."""

ZEROS = -1
"""The place of a row of zeros in an order of rows."""


class BatchChange(NamedTuple):
    """A batch made of another's rows.

    Args:
        text: what is changed, in words.
        order: for each row of the changed batch, which row of the first it is; -1 for zeros.
        rows: the positions in the changed batch that are compared with the rows that they are.
        factor: by which the floats of all other rows are multiplied.
    """

    text: str
    order: tuple[int, ...]
    rows: tuple[int, ...]
    factor: int = 1

    @property
    def own(self) -> tuple[int, ...]:
        """Return the rows of the first batch with which the compared positions are compared."""
        return tuple(self.order[at] for at in self.rows)

    @property
    def others(self) -> tuple[int, ...]:
        """Return the positions of replaced rows, where the compared ones are where they were."""
        return () if self.own != self.rows else tuple(at for at in range(len(self.order)) if at not in self.rows)

    def of_others(self) -> BatchChange:
        """Return the change by which the replaced rows are compared with what they were."""
        return self._replace(order=tuple(range(len(self.order))), rows=self.others)

    def padded(self, size: int) -> BatchChange:
        """Return the same rows in a batch of another size, padded with zeros."""
        return self._replace(order=(*self.order, *[ZEROS] * (size - len(self.order))))


class RowAxis(NamedTuple):
    """Where the rows of a batch lie in a value: `width` neighbours along a dimension are a row's."""

    dimension: int
    width: int

    def rows(self, array: Any, rows: Sequence[int], *, inner: bool = False) -> Array:
        """Take rows out of an array; with `inner` those of one row are apart, and a batch's lie together."""
        array, at = on_host(array), self.dimension
        count = array.shape[at] // self.width
        steps = [
            np.arange(self.width) * count + row if inner else np.arange(self.width) + row * self.width for row in rows
        ]
        return np.take(array, np.concatenate(steps), axis=at)


def on_host(value: Any) -> Array:
    """Return an array on the host; of random keys their data."""
    import jax

    return np.asarray(jax.random.key_data(value) if is_key(getattr(value, "dtype", None)) else value)


def row_axis(shape: Sequence[int], other: Sequence[int], sizes: tuple[int, int]) -> RowAxis | None:
    """Return where rows lie in a value that has these shapes at two batch sizes; None where it has no such axis.

    Raises:
        NotCovered: several dimensions differ, or one that is not a multiple of the batch.
    """
    differing = [n for n, pair in enumerate(zip(shape, other, strict=False)) if pair[0] != pair[1]]
    if tuple(shape) == tuple(other):
        return None
    if len(shape) == len(other) and len(differing) == 1:
        (at,) = differing
        width, rest = divmod(shape[at], sizes[0])
        if not rest and width and width * sizes[1] == other[at]:
            return RowAxis(at, width)
    raise NotCovered(f"shapes {list(shape)} and {list(other)} at batches of {sizes[0]} and {sizes[1]}")


class RowBatch:
    """A function and the arrays of one batch.

    Args:
        call: the function and its arrays.
        axis: along which rows lie.
        chosen: which arrays have rows, by their places.
        other: another size of the batch, which the function takes.
    """

    def __init__(self, call: FlatCall, axis: int, chosen: frozenset[int], other: int) -> None:
        import jax

        self.name, self._call, self._axis, self._chosen = call.name, call, axis, chosen
        self.outputs = tuple[str, ...]()
        self.size = int(call.arrays[min(chosen)].shape[axis])
        self.whole = BatchChange("the batch itself", tuple(range(self.size)), tuple(range(self.size)))
        self.other = BatchChange("", tuple(at % self.size for at in range(other)), ())
        self._jitted, self._mapped = jax.jit(self._flat), jax.jit(self._one_by_one)
        own, grown = (jax.eval_shape(self._flat, self.arrays(change)) for change in (self.whole, self.other))
        self.axes: list[RowAxis | None] = [None] * len(own)
        for number, (first, second) in enumerate(zip(own, grown, strict=True)):
            with contextlib.suppress(NotCovered):
                self.axes[number] = row_axis(first.shape, second.shape, (self.size, other))
        self.notes = [
            f"{name} {list(output.shape)} has no axis of the batch, and is not compared"
            for name, axis, output in zip(self.outputs, self.axes, own, strict=True)
            if axis is None
        ]
        if all(each is None for each in self.axes):
            raise RequestError(f"'{self.name}': no output has an axis of the batch; there are no rows to compare")

    def _flat(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs, whose names are then in `outputs`."""
        import jax

        paths = jax.tree_util.tree_leaves_with_path(self._call.run(arrays))
        self.outputs = tuple(f"out{jax.tree_util.keystr(path)}" for path, _ in paths)
        return [jax.numpy.asarray(leaf) for _, leaf in paths]

    def arrays(self, change: BatchChange) -> list[Any]:
        """Return the arguments of a changed batch."""
        return [
            self._taken(array, change) if at in self._chosen else array for at, array in enumerate(self._call.arrays)
        ]

    def _taken(self, array: Any, change: BatchChange) -> Any:
        import jax

        order = np.asarray(change.order)
        if is_key(array.dtype):
            return jax.numpy.take(array, np.maximum(order, 0), axis=self._axis)
        taken = np.take(np.asarray(array), np.maximum(order, 0), axis=self._axis)
        rows = np.moveaxis(taken, self._axis, 0)
        rows[order == ZEROS] = 0
        if change.factor != 1 and rows.dtype.kind not in "biu":
            rows[list(change.others)] *= np.asarray(change.factor, rows.dtype)
        return jax.numpy.asarray(taken)

    def run(self, change: BatchChange) -> list[Any]:
        """Return the outputs for a changed batch, as compiled for its size."""
        return list(self._jitted(self.arrays(change)))

    def one_by_one(self, change: BatchChange) -> list[Any]:
        """Return the outputs for a changed batch, whose rows a loop of one program takes one at a time."""
        return list(self._mapped(self.arrays(change)))

    def _one_by_one(self, arrays: Sequence[Any]) -> list[Any]:
        import jax

        def of_row(rows: Mapping[int, Any]) -> list[Any]:
            alone = [
                jax.numpy.expand_dims(rows[at], self._axis) if at in rows else array for at, array in enumerate(arrays)
            ]
            return self._flat(alone)

        stacked = jax.lax.map(of_row, {at: jax.numpy.moveaxis(arrays[at], self._axis, 0) for at in self._chosen})

        def beside(axis: RowAxis | None, output: Any) -> Any:
            if axis is None:
                return output
            shape = (moved := jax.numpy.moveaxis(output, 0, axis.dimension)).shape
            return moved.reshape(*shape[: axis.dimension], -1, *shape[axis.dimension + 2 :])

        return [beside(axis, output) for axis, output in zip(self.axes, stacked, strict=True)]

    def rows_of(
        self, output: int, change: BatchChange, base: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Array, Array]:
        """Return the compared rows of an output in the batch itself and in a changed one."""
        axis = self.axes[output]
        assert axis is not None
        return axis.rows(base[output], change.own), axis.rows(outputs[output], change.rows)

    def program(self, change: BatchChange) -> tuple[Any, list[Any]]:
        """Return the jaxpr for a changed batch, and its inputs."""
        import jax

        arrays = self.arrays(change)
        return jax.make_jaxpr(self._flat)(arrays), arrays

    def changes(self, sizes: Sequence[int]) -> Iterator[BatchChange]:
        """Yield the batches to try: of other sizes, with rows elsewhere, among other rows, and padded."""
        size, whole = self.size, self.whole.order
        for smaller in sorted({n for n in sizes or (1, size // 2, size - 1) if 0 < n < size}):
            rows, word = tuple(range(smaller)), "row" if smaller == 1 else f"{smaller} rows"
            yield BatchChange(f"the first {word} alone", whole[:smaller], rows)
            yield BatchChange(f"the last {word} alone", whole[-smaller:], rows)
        if size > 1:
            yield BatchChange("rows in reverse order", whole[::-1], whole)
            yield BatchChange("rows moved up by one", (*whole[1:], 0), whole)
            for first, word in ((0, "even"), (1, "odd")):
                rows = whole[first::2]
                yield BatchChange(f"all but {word} rows zero", tuple(n if n in rows else ZEROS for n in whole), rows)
                yield BatchChange(f"all but {word} rows times 8", whole, rows, 8)
                order = tuple(n if n in rows else (n + 1) % size for n in whole)
                yield BatchChange(f"all but {word} rows replaced by others", order, rows)
        for larger in sorted({n for n in sizes or (size + 1, 2 * size) if n > size}):
            yield BatchChange(f"padded with zeros to {larger} rows", (*whole, *[ZEROS] * (larger - size)), whole)
            repeated = tuple(n % size for n in range(larger))
            yield BatchChange(f"repeated to {larger} rows", repeated, tuple(range(larger)))


def row_batch(
    f: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], rows: Sequence[str], axis: int
) -> RowBatch:
    """Return the batch of a call: the arrays named have the rows, or those with the size of the first array.

    Raises:
        RequestError: a name is not of an array, sizes differ, or the function takes no batch of another size.
    """
    call = FlatCall(f, args, keywords)
    name = call.name
    if not call.arrays:
        raise RequestError(f"'{name}' is called with no array; expected arrays with one entry for each row of a batch")
    tried = [_named(call, rows, axis)] if rows else list(_with_first_size(call, axis, name))
    why = ""
    for chosen in tried:
        size = int(call.arrays[min(chosen)].shape[axis])
        for other in (2 * size, size + 1, size - 1, 1):
            if other in (0, size):
                continue
            try:
                return RowBatch(call, axis, chosen, other)
            except RequestError:
                raise
            except Exception as error:  # of the user's function, traced with a batch of another size
                why = why or one_line(error)
    names = ", ".join(call.names[at] for at in sorted(tried[0]))
    hint = "" if rows else f"; name the arrays that have the rows, as in rows=({call.names[-1]!r},)"
    raise RequestError(f"'{name}' takes no batch of another size, with rows in {names}: {why}{hint}")


def _named(call: FlatCall, rows: Sequence[str], axis: int) -> frozenset[int]:
    """Return the arrays that patterns name."""
    if isinstance(rows, str):
        raise RequestError(f"rows={rows!r}; expected names, as in rows=({rows!r},)")
    chosen = set[int]()
    for pattern in rows:
        matching = {at for at, name in enumerate(call.names) if is_of(name, pattern) or fnmatchcase(name, pattern)}
        if not matching:
            raise RequestError(f"rows={pattern!r}: there is no such array; the arrays are {call.listed}")
        chosen |= matching
    sizes = {_size(call.arrays[at], axis) for at in chosen}
    if len(sizes) > 1 or None in sizes:
        text = ", ".join(f"{call.names[at]} {list(call.arrays[at].shape)}" for at in sorted(chosen))
        raise RequestError(f"the arrays with rows have not the same size along axis {axis}: {text}")
    return frozenset(chosen)


def _with_first_size(call: FlatCall, axis: int, name: str) -> Iterator[frozenset[int]]:
    """Yield choices of the arguments whose arrays all have the size of the first array, most of them first."""
    size = _size(call.arrays[0], axis)
    if size is None:
        raise RequestError(f"'{name}': the first array {list(call.arrays[0].shape)} has no axis {axis}")
    groups: dict[str, list[int]] = {}
    for at, leaf in enumerate(call.names):
        groups.setdefault(leaf.partition(".")[0], []).append(at)
    first, *others = groups.values()
    first = [at for at in first if _size(call.arrays[at], axis) == size]
    others = [group for group in others if all(_size(call.arrays[at], axis) == size for at in group)]
    if len(others) > CANDIDATES:
        raise RequestError(
            f"'{name}': {len(others) + 1} arguments have {size} entries along axis {axis}; name those with the rows by "
            "rows=(...)"
        )
    for count in range(len(others), -1, -1):
        for groups_chosen in combinations(others, count):
            yield frozenset([*first, *(at for group in groups_chosen for at in group)])


def _size(array: Any, axis: int) -> int | None:
    return int(array.shape[axis]) if -array.ndim <= axis < array.ndim else None
