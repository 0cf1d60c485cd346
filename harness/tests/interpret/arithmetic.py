"""Operations of arithmetic and of order for random programs, by the name of their primitive.

Floats are kept tame, and what is compared is rounded coarsely first, so that the last bit decides nothing.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.interpret.programs import MOVING, Array, Op, Skip, Tape, kind_of, resized, scattered

Tree = list[Array]


def near(x: Array) -> Array:
    """Between -3 and 3, in the same order."""
    return 3 * x / (1 + jnp.abs(x))


def positive(x: Array) -> Array:
    return jnp.abs(x) + 0.3


def inside(x: Array) -> Array:
    return 0.3 * near(x)


def alike(pick: Tape, x: Array, others: Tree) -> Array:
    """A value of the same shape, any of those at hand."""
    return resized(pick.of(others), x.shape)


def unary(function: Callable[[Array], Array], prepare: Callable[[Array], Array] = near) -> Callable[..., Array]:
    return lambda pick, x, others: function(prepare(x) if kind_of(x) == "f" else x)


def binary(function: Callable[..., Array], second: Callable[[Array], Array] = near) -> Callable[..., Array]:
    def op(pick: Tape, x: Array, others: Tree) -> Array:
        y = alike(pick, x, others)
        return function(near(x), second(y)) if kind_of(x) == "f" else function(x, y)

    return op


def shift(function: Callable[..., Array]) -> Callable[..., Array]:
    """By amounts beyond the number of bits, and below zero, too."""

    def op(pick: Tape, x: Array, others: Tree) -> Array:
        amounts = pick.integers(0, 70, x.shape) - (10 if kind_of(x) == "i" else 0)
        return function(x, amounts.astype(x.dtype))

    return op


def _axis(pick: Tape, x: Array) -> int:
    if not x.ndim:
        raise Skip
    return pick(x.ndim)


def _axes(pick: Tape, x: Array) -> tuple[int, ...]:
    return pick.some(x.ndim, pick(x.ndim + 1))


def along(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda pick, x, others: function(held(x), _axis(pick, x), reverse=bool(pick(2)))


def over(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda pick, x, others: function(held(x), _axes(pick, x))


def held(x: Array) -> Array:
    """Tame, and computed once: where it is compared with a copy of itself, both have the same bits."""
    found: Array = lax.optimization_barrier(near(x) if kind_of(x) == "f" else x)
    return found


def tied(x: Array) -> Array:
    """With many ties, and none of numbers that are only nearly equal."""
    return lax.stop_gradient(jnp.floor(2 * near(x) + 0.1234) / 2) if kind_of(x) == "f" else x


def comparison(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda pick, x, others: function(tied(x), tied(alike(pick, x, others)))


def _dot_general(pick: Tape, x: Array, others: Tree) -> Array:
    x, y = held(x), held(pick.of(others))
    free = list(range(y.ndim))
    contracted: list[tuple[int, int]] = []
    batch: list[tuple[int, int]] = []
    for dim in pick.order(x.ndim):
        fitting = [other for other in free if y.shape[other] == x.shape[dim]]
        role = pick.of((contracted, batch, None))
        if fitting and role is not None:
            role.append((dim, pick.of(fitting)))
            free.remove(role[-1][1])
    sums, batches = (([a for a, _ in pairs], [b for _, b in pairs]) for pairs in (contracted, batch))
    return lax.dot_general(x, y, (sums, batches))


def _clamp(pick: Tape, x: Array, others: Tree) -> Array:
    low = lax.stop_gradient(resized(pick.of(others), pick.of((x.shape, ()))))
    return lax.clamp(low, x, low + jnp.ones((), x.dtype))


def _convert(pick: Tape, x: Array, others: Tree) -> Array:
    to = np.dtype(pick.of(("float64", "int32", "uint8", "bool", "int8")))
    if kind_of(x) == "f":
        return lax.convert_element_type((x if to == x.dtype else tied(x) + 0.1234) * pick.of((1.0, 99.0, 1e12)), to)
    return lax.convert_element_type(x, to)


def _integer_pow(pick: Tape, x: Array, others: Tree) -> Array:
    power = pick.of((0, 1, 2, 3, 5))
    if kind_of(x) != "f":
        return lax.integer_pow(x, power)
    return lax.integer_pow(near(x), power) if pick(2) else lax.integer_pow(positive(x), -power)


def _sort(pick: Tape, x: Array, others: Tree) -> Any:
    keys = 1 + pick(2)
    return lax.sort((tied(x), tied(alike(pick, x, others)), x), dimension=_axis(pick, x), num_keys=keys)


def _top_k(pick: Tape, x: Array, others: Tree) -> Any:
    axis = _axis(pick, x)
    return lax.top_k(tied(x), 1 + pick(x.shape[axis]), axis=axis)


def _index_of(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda pick, x, others: function(tied(x), _axis(pick, x), jnp.int32)


FLOATS: dict[str, Any] = {
    "acos": unary(lax.acos, inside),
    "asin": unary(lax.asin, inside),
    "atan": unary(lax.atan),
    "atan2": binary(lax.atan2, positive),
    "cbrt": unary(lax.cbrt, positive),
    "ceil": unary(lax.ceil),
    "cos": unary(lax.cos),
    "cosh": unary(lax.cosh),
    "erf": unary(lax.erf),
    "erfc": unary(lax.erfc),
    "exp": unary(lax.exp),
    "exp2": unary(lax.exp2),
    "expm1": unary(lax.expm1),
    "floor": unary(lax.floor),
    "is_finite": lambda pick, x, others: lax.is_finite(x * pick.of((1.0, np.inf))),
    "log": unary(lax.log, positive),
    "log1p": unary(lax.log1p, positive),
    "logistic": unary(lax.logistic),
    "nextafter": lambda pick, x, others: lax.nextafter(lax.stop_gradient(x), jnp.zeros_like(x)),
    "pow": lambda pick, x, others: lax.pow(positive(near(x)), inside(alike(pick, x, others))),
    "reduce_precision": unary(lambda x: lax.reduce_precision(x, 11, 52)),
    "round": lambda pick, x, others: lax.round(
        tied(x) + pick.of((0.0, 0.1234)),
        pick.of((lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN)),
    ),
    "rsqrt": unary(lax.rsqrt, positive),
    "sin": unary(lax.sin),
    "sinh": unary(lax.sinh),
    "sqrt": unary(lax.sqrt, positive),
    "tan": unary(lax.tan, inside),
    "tanh": unary(lax.tanh),
}

NUMBERS: dict[str, Any] = {
    "add": binary(lax.add),
    "argmax": _index_of(lax.argmax),
    "argmin": _index_of(lax.argmin),
    "clamp": _clamp,
    "convert_element_type": _convert,
    "cummax": along(lax.cummax),
    "cummin": along(lax.cummin),
    "cumprod": along(lax.cumprod),
    "cumsum": along(lax.cumsum),
    "div": binary(lax.div, positive),
    "dot_general": _dot_general,
    "eq": comparison(lax.eq),
    "ge": comparison(lax.ge),
    "gt": comparison(lax.gt),
    "integer_pow": _integer_pow,
    "iota": lambda pick, x, others: lax.broadcasted_iota(x.dtype, (2, 3), pick(2)) + x.reshape(-1)[0],
    "le": comparison(lax.le),
    "lt": comparison(lax.lt),
    "max": binary(lax.max),
    "min": binary(lax.min),
    "mul": binary(lax.mul),
    "ne": comparison(lax.ne),
    "neg": unary(lax.neg),
    "reduce_max": over(lax.reduce_max),
    "reduce_min": over(lax.reduce_min),
    "reduce_prod": over(lax.reduce_prod),
    "reduce_sum": over(lax.reduce_sum),
    "rem": binary(lax.rem, positive),
    "scatter-add": lambda pick, x, others: scattered(pick, x, others, add=True),
    "sign": unary(lax.sign),
    "sort": _sort,
    "square": unary(lax.square),
    "sub": binary(lax.sub),
    "top_k": _top_k,
}

BITS: dict[str, Any] = {
    "and": binary(lax.bitwise_and),
    "not": unary(lax.bitwise_not),
    "or": binary(lax.bitwise_or),
    "reduce_and": over(lax.reduce_and),
    "reduce_or": over(lax.reduce_or),
    "reduce_xor": over(lax.reduce_xor),
    "xor": binary(lax.bitwise_xor),
}

SHIFTS: dict[str, Any] = {
    "bitcast_convert_type": lambda pick, x, others: lax.bitcast_convert_type(x, np.dtype(f"u{x.dtype.itemsize}")),
    "shift_left": shift(lax.shift_left),
    "shift_right_arithmetic": shift(lax.shift_right_arithmetic),
    "shift_right_logical": shift(lax.shift_right_logical),
}


def _gather(pick: Tape, x: Array, others: Tree) -> Array:
    """Without NaN out of range: of that XLA assumes now and then that it is not there, as in |x| >= 0."""
    found: Array = MOVING["gather"].function(pick, x, others)
    return jnp.where(jnp.isnan(found), 0.25, found) if kind_of(x) == "f" else found


TABLE: dict[str, Op] = {
    **MOVING,
    "gather": Op("fiub", _gather),
    **{name: Op("f", op) for name, op in FLOATS.items()},
    **{name: Op("fiu", op) for name, op in NUMBERS.items()},
    **{name: Op("iub", op) for name, op in BITS.items()},
    **{name: Op("iu", op) for name, op in SHIFTS.items()},
    "abs": Op("fi", unary(lax.abs)),
}
