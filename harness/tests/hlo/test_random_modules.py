"""Random programs, whole and cut, as XLA:CPU runs them and as their translation: integers, bit by bit."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.hlo.execution import compiled
from tests.hlo.test_collectives import mesh

SIZE = 8
SPECS: tuple[Any, ...] = (
    P(),
    P("a"),
    P("b"),
    P(None, "a"),
    P("a", "b"),
    P("b", "a"),
    P(("a", "b")),
    P(None, ("b", "a")),
)


def product(x: Any, y: Any, axis: int) -> Any:
    left, right = (jnp.clip(side, -8, 8).astype(jnp.float32) for side in (x, y))
    return lax.dot_general(left, right, (((axis,), (1 - axis,)), ((), ()))).astype(jnp.int32)


def by_key(x: Any, y: Any, axis: int) -> Any:
    return lax.sort((x & 3, y), dimension=axis, num_keys=1)[1]


def halves_swapped(x: Any) -> Any:
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int16)[..., ::-1], jnp.int32)


def cut_and_joined(x: Any, y: Any, axis: int, n: int) -> Any:
    parts = lax.slice_in_dim(x, n, SIZE, axis=axis), lax.slice_in_dim(y, 0, n, axis=axis)
    return jnp.concatenate(parts, axis)


def put(x: Any, y: Any, axis: int, n: int) -> Any:
    start = [jnp.int32(n) if at == axis else y[0, 0] for at in (0, 1)]
    return lax.dynamic_update_slice(x, y[:3, 1:5], start)


def taken(x: Any, y: Any, axis: int) -> Any:
    return jnp.pad(lax.dynamic_slice(x, (y[1, 1], y[2, 2]), (5, 6)), ((1, 2), (0, 2)))


def windowed(x: Any, axis: int) -> Any:
    size = (3, 1) if axis == 0 else (1, 3)
    return lax.reduce_window(x, np.int32(0), lax.add, size, (1, 1), "SAME")


def repeated(x: Any, y: Any, n: int) -> Any:
    return lax.while_loop(lambda c: c[0] < (y[0, 0] & 3) + n, lambda c: (c[0] + 1, c[1] * 2 - y), (jnp.int32(0), x))[1]


OPERATIONS: Mapping[str, Callable[[Any, Any, int, int], Any]] = {
    "add": lambda x, y, axis, n: x + y,
    "multiply": lambda x, y, axis, n: x * y - n,
    "divide": lambda x, y, axis, n: lax.div(x, y | 1) + lax.rem(x, y | 1),
    "shift": lambda x, y, axis, n: (x << (n + 1)) ^ lax.shift_right_logical(y, np.int32(n)),
    "transpose": lambda x, y, axis, n: x.T,
    "flip": lambda x, y, axis, n: jnp.flip(x, axis),
    "roll": lambda x, y, axis, n: jnp.roll(x, n + 1, axis),
    "reduce": lambda x, y, axis, n: y - jnp.sum(x, axis, keepdims=True),
    "largest": lambda x, y, axis, n: y + jnp.argmax(x, axis, keepdims=True) - jnp.max(x),
    "cumulate": lambda x, y, axis, n: lax.cumsum(x, axis),
    "window": lambda x, y, axis, n: windowed(x, axis),
    "sort": lambda x, y, axis, n: by_key(x, y, axis),
    "select": lambda x, y, axis, n: jnp.where(x > y, x, n),
    "slice": cut_and_joined,
    "strides": lambda x, y, axis, n: jnp.concatenate([x[::2], y[1::2]]),
    "reshape": lambda x, y, axis, n: jnp.swapaxes(x.reshape(2, 4, SIZE), 0, 1).reshape(SIZE, SIZE),
    "dynamic slice": lambda x, y, axis, n: taken(x, y, axis),
    "dynamic update": put,
    "gather": lambda x, y, axis, n: jnp.take(x, y[n], axis=axis, mode="clip"),
    "scatter": lambda x, y, axis, n: x.at[y[n]].add(x[0]) if axis == 0 else x.at[:, y[n]].max(y),
    "product": lambda x, y, axis, n: product(x, y, axis),
    "scan": lambda x, y, axis, n: lax.scan(lambda c, v: (c * 2 + v, c - v), y[n], x)[1],
    "loop": lambda x, y, axis, n: repeated(x, y, n),
    "branch": lambda x, y, axis, n: lax.switch(y[n, 0], [lambda: x + 1, lambda: y * 2, lambda: x - y]),
    "narrow": lambda x, y, axis, n: x.astype(jnp.int8) + y.astype(jnp.bfloat16).astype(jnp.int32),
    "bits": lambda x, y, axis, n: halves_swapped(x),
}  # fmt: skip


class Move(NamedTuple):
    """One operation: on which of the arrays so far, along which axis, and how its result lies."""

    name: str
    first: int
    second: int
    axis: int
    number: int
    spec: Any


MOVES = st.builds(
    Move,
    name=st.sampled_from(sorted(OPERATIONS)),
    first=st.integers(0, 9),
    second=st.integers(0, 9),
    axis=st.integers(0, 1),
    number=st.integers(0, 3),
    spec=st.sampled_from((None, *SPECS)),
)
PROGRAMS = st.lists(MOVES, min_size=3, max_size=8)
PLACES = st.none() | st.tuples(
    st.sampled_from(SPECS), st.sampled_from(SPECS), st.sampled_from(("in order", "permuted"))
)


def agrees(moves: list[Move], places: Any, seed: int) -> None:
    on = None if places is None else mesh(places[2])

    def function(*arrays: Any) -> Any:
        known = [*arrays]
        for name, first, second, axis, number, spec in moves:
            result = OPERATIONS[name](known[first % len(known)], known[-1 - second % len(known)], axis, number)
            if on is not None and spec is not None:
                result = lax.with_sharding_constraint(result, NamedSharding(on, spec))
            known.append(result)
        return known[-2:]

    arrays = np.random.default_rng(seed).integers(-9, 10, (2, SIZE, SIZE)).astype(np.int32)
    program = compiled(function, *arrays, specs=None if places is None else places[:2], mesh=on)
    assert program.differences(program.translated()) == []
    jax.clear_caches()


@given(PROGRAMS, PLACES, st.integers(0, 3))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_random_programs(moves: list[Move], places: Any, seed: int) -> None:
    agrees(moves, places, seed)


@pytest.mark.slow
@given(PROGRAMS, PLACES, st.integers(0, 99))
@settings(derandomize=True, deadline=None, max_examples=500)
def test_five_hundred_random_programs(moves: list[Move], places: Any, seed: int) -> None:
    agrees(moves, places, seed)
