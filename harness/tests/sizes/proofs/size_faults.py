"""Functions that only move data, and wrong forms of them, with shapes in symbols: no wrong one is the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped, SizeOf

Function = Callable[..., Any]
LINE = {"x": Shaped(("n",))}
TABLE = {"x": Shaped(("m", "n"))}


@dataclass(frozen=True)
class Honest:
    """Two functions that are the same for all sizes, and functions that are not."""

    name: str
    reference: Function
    variant: Function
    family: Family
    wrong: dict[str, Function] = field(default_factory=dict)


def _balanced(x: jax.Array, cp: Any) -> jax.Array:
    ranks = jnp.arange(cp)
    order = jnp.stack([ranks, 2 * cp - 1 - ranks], axis=1).reshape(2 * cp)
    return jnp.take(x.reshape(2 * cp, -1), order, axis=0).reshape(x.shape)


def _structured(x: jax.Array, cp: Any, *, flip: bool = True, axis: int = 1, swap: bool = False) -> jax.Array:
    early, late = jnp.split(x.reshape(2 * cp, x.shape[0] // (2 * cp)), 2, axis=0)
    late = lax.rev(late, (0,)) if flip else late
    return jnp.stack([late, early] if swap else [early, late], axis=axis).reshape(x.shape)


def _where_cp(number: int) -> Function:
    return lambda x, cp: _structured(x, cp, flip=False) if cp == number else _structured(x, cp)


def _at(number: int, wrong: Function, right: Function, axis: int = 0) -> Function:
    """Wrong at one size alone."""
    return lambda x: wrong(x) if x.shape[axis] == number else right(x)


def _odd(x: jax.Array) -> jax.Array:
    return x if x.shape[0] % 2 == 0 else lax.rev(x, (0,))


def _beyond(x: jax.Array) -> jax.Array:
    place = jnp.arange(x.shape[0])
    return jnp.take(x, jnp.where(place > 65536, place - 1, place), mode="clip")


def _flipped(x: jax.Array) -> jax.Array:
    return x[::-1]


CHUNKED = Family(symbols={"c": 1, "g": 1}, args={"x": Shaped(("2*c*g",))}, statics={"cp": SizeOf("c")})
EVEN = Family(symbols={"h": 1}, args={"x": Shaped(("2*h",))})
ON_LINE = Family(symbols={"n": 1}, args=LINE)
ON_TABLE = Family(symbols={"m": 1, "n": 1}, args=TABLE)
PAIRED = Family(symbols={"m": 1, "n": 1}, args={"x": Shaped(("m",)), "y": Shaped(("n",))})

HONEST = (
    Honest(
        "balance",
        _balanced,
        _structured,
        CHUNKED,
        {
            "no flip": lambda x, cp: _structured(x, cp, flip=False),
            "halves swapped": lambda x, cp: _structured(x, cp, swap=True),
            "stacked first": lambda x, cp: _structured(x, cp, axis=0),
            "as it was": lambda x, cp: x,
            "flipped whole": lambda x, cp: lax.rev(x, (0,)),
            "wrong at cp 3": _where_cp(3),
            "wrong at cp 16": _where_cp(16),
            "wrong at cp 500": _where_cp(500),
            "tokens flipped too": lambda x, cp: lax.rev(_structured(x, cp, flip=False), (0,)),
        },
    ),
    Honest(
        "flip",
        _flipped,
        lambda x: jnp.take(x, x.shape[0] - 1 - jnp.arange(x.shape[0])),
        ON_LINE,
        {
            "not at all": lambda x: x,
            "one off": lambda x: jnp.take(x, x.shape[0] - 2 - jnp.arange(x.shape[0]), mode="clip"),
            "wrong at 7": _at(7, lambda x: x, _flipped),
            "wrong at 65537": _at(65537, lambda x: x, _flipped),
            "first stays": lambda x: jnp.concatenate([x[:1], x[1:][::-1]]),
            "even lengths alone": lambda x: lax.rev(_odd(x), (0,)),
        },
    ),
    Honest(
        "as it is",
        lambda x: x,
        lambda x: jnp.concatenate([x[: x.shape[0] // 2], x[x.shape[0] // 2 :]]),
        EVEN,
        {
            "beyond 65536": _beyond,
            "halves swapped": lambda x: jnp.concatenate([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]),
            "second half twice": lambda x: jnp.concatenate([x[x.shape[0] // 2 :]] * 2),
            "rolled": lambda x: jnp.roll(x, 1),
            "last dropped": lambda x: jnp.concatenate([x[:1], x[:-1]]),
            "pairs swapped": lambda x: lax.rev(x.reshape(-1, 2), (1,)).reshape(x.shape),
            "a zero at the end": lambda x: x.at[-1].set(0.0),
            "a zero at 40": lambda x: jnp.where(jnp.arange(x.shape[0]) == 40, 0.0, x),
            "a group of one": _at(2, lambda x: lax.rev(x, (0,)), lambda x: x),
        },
    ),
    Honest(
        "transpose",
        lambda x: x.T.reshape(-1),
        lambda x: (
            jnp.stack([x[i] for i in range(1)], 1).reshape(-1) if x.shape[0] == 1 else jnp.swapaxes(x, 0, 1).ravel()
        ),
        ON_TABLE,
        {
            "not at all": lambda x: x.reshape(-1),
            "rows flipped": lambda x: x[::-1].T.reshape(-1),
            "columns flipped": lambda x: x[:, ::-1].T.reshape(-1),
            "square ones alone": lambda x: x.reshape(-1) if x.shape[0] == x.shape[1] else x.T.reshape(-1),
            "with 9 columns": _at(9, lambda x: x.reshape(-1), lambda x: x.T.reshape(-1), axis=1),
            "read by columns twice": lambda x: x.T.reshape(x.shape).T.reshape(-1),
        },
    ),
    Honest(
        "join",
        lambda x, y: jnp.concatenate([x, y]),
        lambda x, y: lax.dynamic_update_slice(jnp.pad(x, (0, y.shape[0])), y, (x.shape[0],)),
        PAIRED,
        {
            "other order": lambda x, y: jnp.concatenate([y, x]),
            "one place early": lambda x, y: lax.dynamic_update_slice(jnp.pad(x, (0, y.shape[0])), y, (x.shape[0] - 1,)),
            "y left out": lambda x, y: jnp.pad(x, (0, y.shape[0])),
            "x left out": lambda x, y: jnp.pad(y, (x.shape[0], 0)),
            "y flipped": lambda x, y: jnp.concatenate([x, y[::-1]]),
        },
    ),
    Honest(
        "shift",
        lambda x: jnp.concatenate([jnp.zeros((1,), x.dtype), x[:-1]]),
        lambda x: jnp.where(jnp.arange(x.shape[0]) == 0, 0.0, jnp.roll(x, 1)),
        ON_LINE,
        {
            "wraps around": lambda x: jnp.roll(x, 1),
            "a negative zero": lambda x: jnp.concatenate([jnp.full((1,), -0.0, x.dtype), x[:-1]]),
            "the other way": lambda x: jnp.concatenate([x[1:], jnp.zeros((1,), x.dtype)]),
            "by two": lambda x: jnp.where(jnp.arange(x.shape[0]) < 2, 0.0, jnp.roll(x, 2)),
            "the first doubled": lambda x: jnp.concatenate([x[:1], x[:-1]]),
        },
    ),
)
