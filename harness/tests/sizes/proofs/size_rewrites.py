"""Functions that agree by laws of remainders, digits, signs and comparisons, and wrong forms of them, in symbols."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped
from tests.sizes.proofs.size_faults import Honest

STAGES = 4


def _iteration(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(-2, 12, shape).astype(np.int32)


STEPS = Family(
    symbols={"m": 1},
    args={"x": Shaped(("m",)), "parts": Shaped((str(STAGES),)), "at": Shaped((), "int32", None, _iteration)},
)
CHUNKS = Family(symbols={"c": 1, "p": 1}, args={"x": Shaped(("c*p",)), "y": Shaped(("c*p",)), "blocks": Shaped(("c",))})
HALVES = Family(symbols={"h": 1}, args={"x": Shaped(("2*h",))})
ROWS = Family(symbols={"m": 1, "n": 1}, args={"x": Shaped(("m", "n"))})


def _scattered(x: Any, parts: Any, at: Any, *, delay: int = 1) -> Any:
    """What goes back to each microbatch, stage by stage."""
    begun = jnp.maximum(jnp.maximum(at, 0) - delay * jnp.arange(STAGES), 0)
    return (0 * x).at[begun % x.shape[0]].add(parts)


def _window(x: Any, parts: Any, at: Any, *, delay: int = 1, fault: str = "") -> Any:
    """The same as a window that is laid round the end, folded and reversed."""
    count, length = x.shape[0], delay * (STAGES - 1) + 1
    at = jnp.maximum(at, 0)
    waits = at <= delay * jnp.arange(STAGES) + 1 if fault == "waits two longer" else at < delay * jnp.arange(STAGES)
    moving = jnp.where(waits, 0, parts)
    if fault == "the last is dropped":
        moving = moving.at[-1].set(0)
    turns = 2 + (length - 1) // count
    laid = jnp.zeros((STAGES, delay)).at[:, 0].set(moving).reshape(-1)[:length]
    start = (-at if fault == "one later" else -1 - at) % count
    folded = lax.dynamic_update_slice(jnp.tile(0 * x, turns), laid, (start,)).reshape(turns, count)
    if fault == "the last turn is dropped":
        folded = folded[:-1]
    falling = folded.sum(0)
    rising = falling if fault == "not reversed" or (fault == "wrong at five" and count == 5) else falling[::-1]
    first = 0 if fault == "waiting is dropped" else jnp.where(waits, parts, 0).sum()
    return 0 * x + rising + first * (jnp.arange(count) == 0)


_WINDOWS = ("waits two longer", "the last is dropped", "one later", "the last turn is dropped", "not reversed")
_WINDOW_FAULTS = (*_WINDOWS, "wrong at five", "waiting is dropped")


def _product(x: Any, y: Any, blocks: Any) -> Any:
    return jnp.sum(x * y)


def _chunks(x: Any, y: Any, blocks: Any, *, fault: str = "") -> Any:
    """The same, chunk by chunk from the last one to the first."""
    count = blocks.shape[0]
    first, second = x.reshape(count, -1)[::-1], y.reshape(count, -1)[::-1]
    if fault == "one is not reversed":
        second = second[::-1]
    if fault == "reversed inside":
        second = second[:, ::-1]
    if fault == "the last is dropped":
        first, second = first[1:], second[1:]
    if fault == "wrong at three" and count == 3:
        first = first[::-1]
    return jnp.sum(first * second)


def _norm(x: Any) -> Any:
    return jnp.sum(jnp.square(x))


def _halved(x: Any, *, fault: str = "") -> Any:
    half = x.shape[0] // 2
    first, second = jnp.sum(jnp.square(x[:half])), jnp.sum(jnp.square(x[half:]))
    if fault == "first half twice" or (fault == "wrong at six" and x.shape[0] == 6):
        second = first
    return first if fault == "second half dropped" else first + second


def _clipped(x: Any, norm: Any, *, most: float = 1.0) -> Any:
    return jnp.where(norm < most, x * norm, x / norm)


def _guarded(x: Any, total: Any) -> Any:
    return jnp.where(total >= 0, jnp.exp(x) * total, 0)


def _powers(x: Any) -> Any:
    return jnp.sum(jnp.exp(x), axis=1, keepdims=True)


REWRITES = (
    Honest(
        "window round the end",
        _scattered,
        _window,
        STEPS,
        {name: functools.partial(_window, fault=name) for name in _WINDOW_FAULTS},
    ),
    Honest(
        "strided window",
        functools.partial(_scattered, delay=2),
        functools.partial(_window, delay=2),
        STEPS,
        {
            "another stride": functools.partial(_window, delay=3),
            **{name: functools.partial(_window, delay=2, fault=name) for name in _WINDOW_FAULTS},
        },
    ),
    Honest(
        "chunks from the end",
        _product,
        _chunks,
        CHUNKS,
        {
            name: functools.partial(_chunks, fault=name)
            for name in ("one is not reversed", "reversed inside", "the last is dropped", "wrong at three")
        },
    ),
)
"""Those whose faults are refuted at sizes."""

COMPARED = (
    Honest(
        "norm of halves",
        lambda x: _clipped(x, _norm(x)),
        lambda x: _clipped(x, _halved(x)),
        HALVES,
        {
            **{
                name: lambda x, name=name: _clipped(x, _halved(x, fault=name))
                for name in ("first half twice", "wrong at six", "second half dropped")
            },
            "another limit": lambda x: _clipped(x, _halved(x), most=2.0),
            "up to the limit": lambda x: jnp.where(_halved(x) <= 1, x * _norm(x), x / _norm(x)),
            "the other way round": lambda x: jnp.where(_halved(x) < 1, x / _norm(x), x * _norm(x)),
        },
    ),
    Honest(
        "sum of exponentials",
        lambda x: jnp.exp(x) * _powers(x),
        lambda x: _guarded(x, _powers(x)),
        ROWS,
        {
            "a sum of numbers": lambda x: _guarded(x, x.sum(1, keepdims=True)) + 0 * _powers(x),
            "less one": lambda x: jnp.where(_powers(x) - 1 >= 0, jnp.exp(x) * _powers(x), 0),
            "negative": lambda x: jnp.where(_powers(x) < 0, jnp.exp(x) * _powers(x), 0),
            "not positive": lambda x: jnp.where(-_powers(x) >= 0, jnp.exp(x) * _powers(x), 0),
        },
    ),
)
"""Those whose faults may be undecided, as finite fields have no order."""
