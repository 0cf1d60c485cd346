"""Random small jax programs: a tape of bytes says which operations, of which values, with which parameters.

A program reads its tape anew whenever it is traced, so the interpreter and jax get the same one. Operations are in
tables, by the name of their primitive; what is here only moves elements.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint

Array = jax.Array

LARGEST = 200
"""Elements of a value; larger ones are not carried on."""


def few(examples: int) -> settings:
    """Settings of a property that compiles something for each example; a shorter tape would be no clearer one."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


class Skip(Exception):
    """An operation does not fit the values at hand."""


class Tape:
    """Choices by number: each takes the next byte, and after the last one the first option."""

    def __init__(self, numbers: bytes) -> None:
        self.left = list(reversed(numbers))

    def __call__(self, count: int) -> int:
        """A number from 0 up to, and without, `count`."""
        return (self.left.pop() if self.left else 0) % count

    def of(self, options: Sequence[Any]) -> Any:
        """One of several."""
        return options[self(len(options))]

    def order(self, count: int) -> list[int]:
        """The numbers below `count` in some order."""
        rest = list(range(count))
        return [rest.pop(self(len(rest))) for _ in range(count)]

    def some(self, count: int, size: int) -> tuple[int, ...]:
        """So many of the numbers below `count`, growing."""
        return tuple(sorted(self.order(count)[:size]))

    def integers(self, low: int, high: int, shape: Sequence[int]) -> Any:
        """An int32 array from low up to, and with, high; one byte."""
        return np.random.default_rng(self(256)).integers(low, high + 1, tuple(shape), dtype=np.int32)


@dataclass(frozen=True)
class Op:
    """An operation.

    Args:
        kinds: the kinds of dtype that it takes, of `f`, `i`, `u` and `b`.
        function: of the tape, a value, and all values of its dtype, itself among them.
    """

    kinds: str
    function: Callable[[Tape, Array, list[Array]], Any]


@dataclass(frozen=True)
class Program:
    """A program made by a tape."""

    tape: bytes
    table: Mapping[str, Op] = field(repr=False, hash=False)
    outputs: int = 4

    def __call__(self, *inputs: Any) -> list[Array]:
        pick, names = Tape(self.tape), sorted(self.table)
        values = [jnp.asarray(one) for one in inputs]
        made: list[Array] = []
        while pick.left:
            op, number = self.table[pick.of(names)], pick(6)
            fitting = [value for value in values if kind_of(value) in op.kinds]
            if not fitting:
                continue
            x = fitting[-1 - number % len(fitting)]
            try:
                found = op.function(pick, x, [value for value in values if value.dtype == x.dtype])
            except Skip:
                continue
            new = [one for one in jax.tree.leaves(found) if 0 < one.size <= LARGEST]
            values, made = values + new, made + new
        return made[-self.outputs :] or [values[0]]


def kind_of(value: Array) -> str:
    """The kind of a dtype in one letter; bfloat16 is a float too."""
    return "f" if jnp.issubdtype(value.dtype, jnp.floating) else np.dtype(value.dtype).kind


# -- operations that only move


def resized(x: Array, shape: Sequence[int]) -> Array:
    """The elements of an array again and again, in another shape."""
    return jnp.resize(x, tuple(shape))


def _broadcast_in_dim(pick: Tape, x: Array, others: list[Array]) -> Array:
    rank = x.ndim + pick(3)
    dims = pick.some(rank, x.ndim)
    shape = [1 + pick(3) for _ in range(rank)]
    for own, dim in enumerate(dims):
        shape[dim] = x.shape[own] if x.shape[own] > 1 else shape[dim]
    return lax.broadcast_in_dim(x, shape, dims)


def _concatenate(pick: Tape, x: Array, others: list[Array]) -> Array:
    axis = pick(_ranked(x).ndim)
    fitting = [
        y for y in others if y.ndim == x.ndim and np.delete(y.shape, axis).tolist() == np.delete(x.shape, axis).tolist()
    ]
    return lax.concatenate([pick.of(fitting) for _ in range(1 + pick(3))] + [x], axis)


def _ranked(x: Array, least: int = 1) -> Array:
    if x.ndim < least:
        raise Skip
    return x


def _starts(pick: Tape, x: Array) -> list[Any]:
    return [np.int32(pick(n + 6) - 3) for n in x.shape]  # some stick out, and are pushed back


@dataclass(frozen=True)
class Windows:
    """The dimension numbers that a gather and a scatter share, in the words of the gather."""

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    mapped: tuple[int, ...]
    batching: tuple[int, ...]
    sizes: tuple[int, ...]
    indices: Any
    shape: tuple[int, ...]

    @property
    def steered(self) -> tuple[int, ...]:
        """The batch dimension of the indices, where the operand has one."""
        return (0,) if self.batching else ()


def windows(pick: Tape, x: Array, mode: str, *, apart: bool = False) -> Windows:
    """Any dimension numbers that fit an operand; `apart`: no two windows overlap, so that a scatter is defined."""
    parts = [pick.of(("row", "window", "whole", "part", "first", "row")) for _ in _ranked(x).shape]
    if pick(3) == 0:
        parts[pick(len(parts))] = "batch"
    mapped = [dim for dim, part in enumerate(parts) if part in ("row", "window")]
    if not mapped:
        raise Skip
    one = ("row", "first", "batch")
    sizes = [
        1 if part in one else n if part == "whole" else 1 + pick(n) for part, n in zip(parts, x.shape, strict=True)
    ]
    mapped = [mapped[number] for number in pick.order(len(mapped))]
    batching = tuple(dim for dim, part in enumerate(parts) if part == "batch")
    extra = [1 + pick(3) for _ in range(pick(3))]
    if apart and "window" in parts:
        extra = [1] * len(extra)
    count = int(np.prod(extra, dtype=int))
    out = 0 if mode == "promise_in_bounds" or (apart and mode == "clip") else 2
    spans = [np.arange(-out, x.shape[dim] - sizes[dim] + 1 + out) for dim in mapped]
    grid = np.stack(np.meshgrid(*spans, indexing="ij"), -1).reshape(-1, len(mapped))
    chosen = np.random.default_rng(pick(256))
    places = [
        chosen.choice(len(grid), count, replace=not apart)
        for _ in range(x.shape[batching[0]] if batching else 1)
        if count <= len(grid) or not apart
    ]
    if not places:
        raise Skip
    lead = [x.shape[dim] for dim in batching] + extra
    indices = grid[np.stack(places)].reshape(*lead, len(mapped)).astype(np.int32)
    kept = [n for n, part in zip(sizes, parts, strict=True) if part not in one]
    rank = len(lead) + len(kept)
    offset, rest, own = pick.some(rank, len(kept)), iter(lead), iter(kept)
    shape = [next(own) if dim in offset else next(rest) for dim in range(rank)]
    collapsed = tuple(dim for dim, part in enumerate(parts) if part in ("row", "first"))
    return Windows(offset, collapsed, tuple(mapped), batching, tuple(sizes), indices, tuple(shape))


MODES = ("fill", "clip", "promise_in_bounds")


def _gather(pick: Tape, x: Array, others: list[Array]) -> Array:
    mode = pick.of(MODES)
    w = windows(pick, x, mode)
    numbers = lax.GatherDimensionNumbers(w.offset, w.collapsed, w.mapped, w.batching, w.steered)
    fill = pick.of((None, 0)) if mode == "fill" else None
    return lax.gather(x, w.indices, numbers, w.sizes, mode=mode, fill_value=fill)


def scattered(pick: Tape, x: Array, others: list[Array], *, add: bool) -> Array:
    """A scatter with unique targets, or one that adds, with any."""
    mode = pick.of(MODES)
    w = windows(pick, x, mode, apart=not add)
    numbers = lax.ScatterDimensionNumbers(w.offset, w.collapsed, w.mapped, w.batching, w.steered)
    scatter = lax.scatter_add if add else lax.scatter
    return scatter(x, w.indices, resized(pick.of(others), w.shape), numbers, unique_indices=not add, mode=mode)


def _pad(pick: Tape, x: Array, others: list[Array]) -> Array:
    config = [(pick(5) - 2, pick(5) - 2, pick(3)) for _ in x.shape]
    if any(low + n + (n - 1) * between + high < 0 for (low, high, between), n in zip(config, x.shape, strict=True)):
        raise Skip
    value = pick.of((jnp.zeros((), x.dtype), jnp.ones((), x.dtype), x.reshape(-1)[0]))
    return lax.pad(x, value, config)


def _reshape(pick: Tape, x: Array, others: list[Array]) -> Array:
    first = pick.of([n for n in range(1, x.size + 1) if x.size % n == 0])
    return lax.reshape(x, (first, x.size // first), pick.of((None, tuple(pick.order(x.ndim)))))


def _select_n(pick: Tape, x: Array, others: list[Array]) -> Array:
    cases = [resized(pick.of(others), x.shape) for _ in range(1 + pick(2))]
    which = pick.integers(0, len(cases), pick.of((x.shape, ())))
    return lax.select_n(which.astype(bool) if len(cases) == 1 else which, x, *cases)


def _slice(pick: Tape, x: Array, others: list[Array]) -> Array:
    starts = [pick(n) for n in x.shape]
    limits = [start + 1 + pick(n - start) for start, n in zip(starts, x.shape, strict=True)]
    return lax.slice(x, starts, limits, [1 + pick(3) for _ in x.shape])


def _split(pick: Tape, x: Array, others: list[Array]) -> Any:
    axis = pick(_ranked(x).ndim)
    first = pick(x.shape[axis] + 1)
    return lax.split(x, (first, x.shape[axis] - first), axis)


MOVING: dict[str, Op] = {
    name: Op("fiub", function)
    for name, function in {
        "broadcast_in_dim": _broadcast_in_dim,
        "concatenate": _concatenate,
        "copy": lambda pick, x, others: jnp.array(x, copy=True),
        "device_put": lambda pick, x, others: jax.device_put(x),
        "dynamic_slice": lambda pick, x, others: lax.dynamic_slice(x, _starts(pick, x), [1 + pick(n) for n in x.shape]),
        "dynamic_update_slice": lambda pick, x, others: lax.dynamic_update_slice(
            x, resized(pick.of(others), [1 + pick(n) for n in x.shape]), _starts(pick, x)
        ),
        "gather": _gather,
        "layout_constraint": lambda pick, x, others: with_layout_constraint(x, Layout(tuple(range(x.ndim)))),
        "name": lambda pick, x, others: checkpoint_name(x, "kept"),
        "optimization_barrier": lambda pick, x, others: lax.optimization_barrier((x, pick.of(others))),
        "pad": _pad,
        "reshape": _reshape,
        "rev": lambda pick, x, others: lax.rev(x, pick.some(x.ndim, pick(x.ndim + 1))),
        "scatter": lambda pick, x, others: scattered(pick, x, others, add=False),
        "select_n": _select_n,
        "slice": _slice,
        "split": _split,
        "squeeze": lambda pick, x, others: lax.squeeze(x[None], (0,)),
        "stack": lambda pick, x, others: jnp.stack([x, resized(pick.of(others), x.shape)], pick(x.ndim + 1)),
        "stop_gradient": lambda pick, x, others: lax.stop_gradient(x),
        "tile": lambda pick, x, others: lax.tile(x, [1 + pick(2) for _ in x.shape]),
        "transpose": lambda pick, x, others: lax.transpose(x, pick.order(x.ndim)),
        "unstack": lambda pick, x, others: jnp.unstack(_ranked(x), axis=pick(x.ndim)),
    }.items()
}
