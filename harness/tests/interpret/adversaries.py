"""Pairs of unequal functions that a proof could take for equal, by class: roots, range, constants, thresholds."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any
Function = Callable[..., Any]

RNG = np.random.default_rng(5)
POSITIVE = RNG.uniform(0.3, 2, (4, 6)).astype(np.float32)
MIXED = RNG.normal(size=(4, 6)).astype(np.float32)
OTHER = RNG.normal(size=(4, 6)).astype(np.float32)
ONE_NEGATIVE = np.array([-1.5], np.float32)
ONE_POSITIVE = np.array([0.4], np.float32)
TOKENS = np.arange(7, dtype=np.int32)
LARGE = (MIXED * 150).astype(np.float32)


@dataclass(frozen=True)
class Adversary:
    """Two functions that are not the same one.

    Args:
        reference, variant: the functions.
        args: the numbers of the case.
        assumes: the assumption that must be listed where the functions agree at these inputs; None where they must
            be told apart.
    """

    reference: Function
    variant: Function
    args: tuple[Any, ...]
    assumes: str | None = None


def _apart(reference: Function, variant: Function, *args: Any) -> Adversary:
    return Adversary(reference, variant, args)


def _listed(word: str, reference: Function, variant: Function, *args: Any) -> Adversary:
    return Adversary(reference, variant, args, word)


def stored(function: Function, *args: Any) -> Function:
    """A function that returns what another one gave for these arguments, as a constant."""

    @functools.cache
    def results() -> Any:  # not before it is called: importing tests starts no backend
        with jax.ensure_compile_time_eval():
            return jax.tree.map(np.asarray, function(*args))

    return lambda *others: jax.tree.map(jnp.asarray, results())


def two(function: Function) -> Function:
    """With a root beside it whose law is needed, so that roots are taken in the extended field."""
    return lambda x: function(x) + jnp.sqrt(x * x + 1.0) * jnp.sqrt(x * x + 1.0)


def plain(function: Function) -> Function:
    """The same beside the square of that root."""
    return lambda x: function(x) + (x * x + 1.0)


def softmax(x: Array) -> Array:
    return jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True)


def masked(value: float, where: Any = None) -> Function:
    keep = np.tri(4, 6, 2, dtype=bool) if where is None else where
    return lambda x: jax.nn.softmax(jnp.where(keep, x, value), -1)


ROOTS: dict[str, Adversary] = {
    "sqrt(x x) for x": _apart(lambda x: x, lambda x: jnp.sqrt(x * x), ONE_NEGATIVE),
    "beside 1e4": _apart(lambda x: x + 1e4, lambda x: jnp.sqrt(x * x) + 1e4, ONE_NEGATIVE),
    "beside 1e8": _apart(lambda x: x + 1e8, lambda x: jnp.sqrt(x * x) + 1e8, ONE_NEGATIVE),
    "beside 1e12": _apart(lambda x: x + 1e12, lambda x: jnp.sqrt(x * x) + 1e12, ONE_NEGATIVE),
    "beside 1e20": _apart(lambda x: x + 1e20, lambda x: jnp.sqrt(x * x) + 1e20, ONE_NEGATIVE),
    "beside a large element": _apart(
        lambda x: jnp.append(x, 1e9), lambda x: jnp.append(jnp.sqrt(jnp.square(x)), 1e9), ONE_NEGATIVE
    ),
    "a sum with a large row": _apart(
        lambda x: (x * 1e-3).sum() + 1e7, lambda x: (jnp.sqrt(x**2) * 1e-3).sum() + 1e7, ONE_NEGATIVE
    ),
    "a power of one half": _apart(lambda x: x + 1e8, lambda x: (x * x) ** 0.5 + 1e8, ONE_NEGATIVE),
    "a power of three halves": _apart(lambda x: x**3 + 1e8, lambda x: (x * x) ** 1.5 + 1e8, ONE_NEGATIVE),
    "rsqrt": _apart(lambda x: 1 / x + 1e8, lambda x: lax.rsqrt(x * x) + 1e8, ONE_NEGATIVE),
    "a norm of one element": _apart(
        lambda x: x + 1e8, lambda x: jnp.sqrt((x[:, None] * x[:, None]).sum(-1)) + 1e8, ONE_NEGATIVE
    ),
    "a norm by einsum": _apart(
        lambda x: x + 1e8, lambda x: jnp.sqrt(jnp.einsum("ij,ij->i", x[:, None], x[:, None])) + 1e8, ONE_NEGATIVE
    ),
    "a square that is expanded": _apart(
        lambda x, y: x + (y + 1e8), lambda x, y: jnp.sqrt(x * x + 2 * x * y + y * y) + 1e8, ONE_NEGATIVE, ONE_POSITIVE
    ),
    "sqrt(x x y y) for x y": _apart(
        lambda x, y: x * y + 1e8, lambda x, y: jnp.sqrt(x * x * (y * y)) + 1e8, ONE_NEGATIVE, ONE_POSITIVE
    ),
    "sqrt(x) sqrt(x y y) for x y": _apart(
        lambda x, y: x * y + 1e8, lambda x, y: jnp.sqrt(x) * jnp.sqrt(x * (y * y)) + 1e8, ONE_POSITIVE, ONE_NEGATIVE
    ),
    "nested": _apart(lambda x: x + 1e8, lambda x: jnp.sqrt(jnp.sqrt(x**4)) + 1e8, ONE_NEGATIVE),
    "the root of exp(2 x) x x": _apart(
        lambda x: x * jnp.exp(x) + 1e8, lambda x: jnp.sqrt(jnp.exp(2 * x) * x * x) + 1e8, ONE_NEGATIVE
    ),
    "the root of a quotient": _apart(
        lambda x, y: x / y + 1e8, lambda x, y: jnp.sqrt(x * x / (y * y)) + 1e8, ONE_NEGATIVE, ONE_POSITIVE
    ),
    "the law of another root beside it": _apart(
        plain(lambda x: x + 1e8), two(lambda x: jnp.sqrt(x * x) + 1e8), ONE_NEGATIVE
    ),
    "a hypotenuse without its other side": _apart(
        lambda x: x + 1e8, lambda x: jnp.hypot(x, jnp.zeros_like(x)) + 1e8, ONE_NEGATIVE
    ),
}

RANGE: dict[str, Adversary] = {
    "an exponential that underflows": _listed("underflow", lambda x: x, lambda x: x + jnp.exp(x - 800), MIXED),
    "one that underflows, times a large number": _listed(
        "underflow", lambda x: x, lambda x: x + 1e30 * jnp.exp(x - 900), MIXED
    ),
    "a mask of -1000 for -inf": _listed("underflow", masked(-np.inf), masked(-1000.0), MIXED),
    "a mask of -1e9 for -inf": _listed("underflow", masked(-np.inf), masked(-1e9), MIXED),
    "a softmax without its maximum": _listed("range", jax.nn.softmax, softmax, MIXED),
    "a softmax without its maximum, overflowing": _apart(jax.nn.softmax, softmax, LARGE),
    "a log of a sum of exponentials, overflowing": _apart(
        lambda x: jax.nn.logsumexp(x, -1), lambda x: jnp.log(jnp.exp(x).sum(-1)), LARGE
    ),
    "the same in float16": _apart(lambda x: jax.nn.softmax(x), lambda x: softmax(x), (MIXED * 30).astype(np.float16)),
    "a square of large numbers": _apart(
        lambda x, y: x * jnp.sqrt(1 + (y / x) ** 2), lambda x, y: jnp.sqrt(x * x + y * y), 1e25 * POSITIVE, POSITIVE
    ),
    "by 2^100 and back": _listed("range", lambda x: x, lambda x: x * 2.0**100 * 2.0**-100, MIXED),
    "by 2^100 and back, overflowing": _apart(lambda x: x, lambda x: x * 2.0**100 * 2.0**-100, 1e12 * POSITIVE),
    "by 2^-100 and back, underflowing": _apart(lambda x: x, lambda x: x * 2.0**-100 * 2.0**100, 1e-20 * POSITIVE),
    "through float16, overflowing": _apart(
        lambda x: x, lambda x: x.astype(np.float16).astype(np.float32), 1e6 * POSITIVE
    ),
    "a mean of large numbers": _apart(lambda x: (x / 24).sum(), lambda x: x.sum() / 24, 5e37 * POSITIVE),
    "a softplus that overflows": _apart(jax.nn.softplus, lambda x: jnp.log1p(jnp.exp(x)), LARGE * 2),
    "a sigmoid in the wrong form": _apart(jax.nn.sigmoid, lambda x: jnp.exp(x) / (1 + jnp.exp(x)), LARGE * 2),
}

CONSTANTS: dict[str, Adversary] = {
    "a stored argmax": _apart(lambda x: x.argmax(-1), stored(lambda x: x.argmax(-1), MIXED), MIXED),
    "a stored top_k": _apart(lambda x: lax.top_k(x, 2)[1], stored(lambda x: lax.top_k(x, 2)[1], MIXED), MIXED),
    "a stored argsort": _apart(lambda x: jnp.argsort(x, -1), stored(lambda x: jnp.argsort(x, -1), MIXED), MIXED),
    "a stored comparison": _apart(lambda x: x > 0, stored(lambda x: x > 0, MIXED), MIXED),
    "a stored count": _apart(lambda x: (x > 0).sum(-1), stored(lambda x: (x > 0).sum(-1), MIXED), MIXED),
    "a stored floor": _apart(lambda x: jnp.floor(x * 3), stored(lambda x: jnp.floor(x * 3), MIXED), MIXED),
    "a stored round": _apart(lambda x: jnp.round(x * 3), stored(lambda x: jnp.round(x * 3), MIXED), MIXED),
    "a stored ceil, in a product": _apart(
        lambda x, y: y * jnp.ceil(x * 3), lambda x, y: y * np.ceil(MIXED * 3), MIXED, POSITIVE
    ),
    "stored integers": _apart(
        lambda x: (x * 3).astype(np.int32), stored(lambda x: (x * 3).astype(np.int32), MIXED), MIXED
    ),
    "stored integers in a product": _apart(
        lambda x, y: y * (x * 3).astype(np.int32), lambda x, y: y * (MIXED * 3).astype(np.int32), MIXED, POSITIVE
    ),
    "one stored floor": _apart(lambda x: jnp.floor(x), stored(jnp.floor, ONE_NEGATIVE), ONE_NEGATIVE),
    "one stored comparison": _apart(lambda x: x > 0, stored(lambda x: x > 0, ONE_NEGATIVE), ONE_NEGATIVE),
    "a stored sign of one number": _apart(jnp.sign, stored(jnp.sign, ONE_NEGATIVE), ONE_NEGATIVE),
    "a stored sign": _apart(lambda x, y: y * jnp.sign(x), lambda x, y: y * np.sign(MIXED), MIXED, POSITIVE),
    "a stored choice": _apart(
        lambda x, y: jnp.where(x > 0, y, 2 * y), lambda x, y: jnp.where(MIXED > 0, y, 2 * y), MIXED, POSITIVE
    ),
    "a stored routing": _apart(
        lambda x, y: jnp.take_along_axis(y, x.argmax(-1)[:, None], 1),
        lambda x, y: jnp.take_along_axis(y, MIXED.argmax(-1)[:, None], 1),
        MIXED,
        POSITIVE,
    ),
    "a stored maximum's place in a table": _apart(
        lambda x: jnp.arange(6.0)[x.argmax(-1)], stored(lambda x: jnp.arange(6.0)[x.argmax(-1)], MIXED), MIXED
    ),
    "a stored number of integer tokens": _apart(
        lambda n: (n % 3).sum(),
        stored(lambda n: (n % 3).sum(), np.arange(7, dtype=np.int32)),
        np.arange(7, dtype=np.int32),
    ),
    "a stored result of floats": _apart(lambda x: x * 2, stored(lambda x: x * 2, MIXED), MIXED),
    "floor for round": _apart(lambda x: jnp.round(x), lambda x: jnp.floor(x), POSITIVE * 0.2),
    "round half up for half even": _apart(
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        MIXED * 3,
    ),
    "floor of other numbers": _apart(lambda x: jnp.floor(x), lambda x: jnp.floor(x * 0.999), POSITIVE + 0.1),
    "a finite check for ones": _listed("comparisons", lambda x: jnp.where(jnp.isfinite(x), x, 0), lambda x: x, MIXED),
}

THRESHOLDS: dict[str, Adversary] = {
    "where(x > 100)": _listed("comparisons", lambda x: x, lambda x: jnp.where(x > 100, 0, x), MIXED),
    "a clip that nothing reaches": _listed("comparisons", lambda x: x, lambda x: jnp.clip(x, -50, 50), MIXED),
    "relu of positive numbers": _listed("comparisons", lambda x: x, jax.nn.relu, POSITIVE),
    "abs of positive numbers": _listed("comparisons", lambda x: x, jnp.abs, POSITIVE),
    "the first of a maximum's ties": _listed(
        "comparisons", lambda x: x.argmax(-1), lambda x: 5 - x[:, ::-1].argmax(-1), MIXED
    ),
    "nan_to_num": _listed("comparisons", lambda x: x, lambda x: jnp.nan_to_num(x), MIXED),
    "a branch that is not taken": _listed(
        "comparisons", lambda x: x, lambda x: lax.cond(x.sum() > 1e3, lambda x: -x, lambda x: x, x), MIXED
    ),
    "a loop that depends on the inputs": _listed(
        "comparisons",
        lambda x: 4 * x,
        lambda x: lax.while_loop(lambda c: c.max() < 4 * x.max(), lambda c: c + c, x),
        POSITIVE,
    ),
}

ALL = {**ROOTS, **RANGE, **CONSTANTS, **THRESHOLDS}
