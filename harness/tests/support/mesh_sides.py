"""Functions that are right on a mesh of four devices alone, and honest ones, each with its reference on one device."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

Side = Callable[..., Any]
ROWS, REPLICATED = PartitionSpec("dp"), PartitionSpec()


def divided(function: Side, out: Any = ROWS, mesh: Any = None) -> Side:
    """A function of the rows of each device."""

    def on_mesh(x: jax.Array) -> Any:
        specs: dict[str, Any] = {"in_specs": ROWS, "out_specs": out, "check_vma": False}
        return jax.shard_map(function, mesh=mesh, **specs)(x)

    return on_mesh


def centred(x: jax.Array) -> Any:
    return x - x.mean(0, keepdims=True)


def normed(x: jax.Array) -> Any:
    return x / jnp.sqrt(jnp.sum(x * x, 0, keepdims=True))


def mean(x: jax.Array) -> Any:
    return x.mean(0)


def rolled(x: jax.Array) -> Any:
    return jnp.roll(x, 1, 0)


def total(x: jax.Array) -> Any:
    return x.sum(0)


def _mean(size: Callable[[], Any], x: jax.Array) -> Any:
    return lax.psum(x.mean(0, keepdims=True), "dp") / size()


def _ring(count: Callable[[], int], x: jax.Array) -> Any:
    """The total by adding what the neighbours hand on."""
    found = partial_sum = x.sum(0)
    for _ in range(count() - 1):
        size = lax.axis_size("dp")
        partial_sum = lax.ppermute(partial_sum, "dp", [(i, (i + 1) % size) for i in range(size)])
        found = found + partial_sum
    return found


def _by_pairs(rounds: Callable[[], int], x: jax.Array) -> Any:
    """The total by exchanges with a partner at twice the distance each time."""
    found, size = x.sum(0), lax.axis_size("dp")
    for distance in (1 << each for each in range(rounds())):
        found = found + lax.ppermute(found, "dp", [(i, (i + distance) % size) for i in range(size)])
    return found


def _gathered(size: Callable[[], int], x: jax.Array) -> Any:
    return lax.all_gather(x, "dp").reshape(-1, x.shape[-1])[: size() * x.shape[0]].sum(0)


def _where_many(x: jax.Array) -> Any:
    """A sum over devices that is left out on two."""
    return x - (lax.psum(x.sum(0), "dp") if lax.axis_size("dp") > 2 else x.sum(0))


def _four() -> int:
    return 4


def _size() -> Any:
    return lax.axis_size("dp")


ON_FOUR: dict[str, tuple[Side, Side]] = {
    "a mean by four": (centred, divided(lambda x: x - _mean(_four, x))),
    "a quarter": (mean, divided(lambda x: lax.psum(0.25 * x.mean(0), "dp"), REPLICATED)),
    "a root of four": (normed, divided(lambda x: x / (2 * jnp.sqrt(lax.pmean((x * x).sum(0), "dp"))))),
    "a ring of four": (total, divided(partial(_ring, _four), REPLICATED)),
    "two rounds of exchanges": (total, divided(partial(_by_pairs, lambda: 2), REPLICATED)),
    "a table of four": (
        total,
        divided(lambda x: lax.psum(x.sum(0) * jnp.ones(4).sum() / 4 * _size() / 4, "dp"), REPLICATED),
    ),
    "a sum where there are more than two": (lambda x: x - x.sum(0), divided(_where_many)),
    "rows of four devices": (total, divided(lambda x: lax.psum(x.sum(0), "dp") * (x.shape[0] / 3), REPLICATED)),
}
ON_ANY: dict[str, tuple[Side, Side]] = {
    "a mean by the size": (centred, divided(lambda x: x - _mean(_size, x))),
    "a mean by a sum of ones": (centred, divided(lambda x: x - _mean(lambda: lax.psum(1, "dp"), x))),
    "a mean": (mean, divided(lambda x: lax.pmean(x.mean(0), "dp"), REPLICATED)),
    "a ring": (total, divided(partial(_ring, _size), REPLICATED)),
    "all rows": (total, divided(partial(_gathered, _size), REPLICATED)),
}
