"""What engineers write in two ways, and what is wrong at some sizes or values alone, with shapes in symbols."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.family import Family, Shaped

Function = Callable[..., Any]


@dataclass(frozen=True)
class Written:
    """Two functions of one family.

    Args:
        name: of the test.
        reference, variant: the functions.
        shapes: by argument, `dtype[shape]` or `dtype[shape] < bound`.
        directions: in which they are compared.
    """

    name: str
    reference: Function
    variant: Function
    shapes: dict[str, str]
    directions: tuple[str, ...] = field(default=("forward", "gradient"))

    @property
    def family(self) -> Family:
        """The shapes, with a symbol for each name in them."""
        args = {}
        for name, text in self.shapes.items():
            found = re.fullmatch(r"(\w+)\[(.*?)\](?: < (.*))?", text)
            assert found is not None
            args[name] = Shaped(tuple(size.strip() for size in found[2].split(",")), found[1], found[3])
        names = re.findall(r"[a-z]\w*", " ".join(str(size) for arg in args.values() for size in arg.shape))
        return Family(symbols=dict.fromkeys(names, 1), args=args)


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return jnp.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def _rope_by_halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = jnp.moveaxis(x.reshape(*x.shape[:-1], -1, 2), -1, 0)
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    return jnp.stack(jnp.split(rotated, 2, -1), -1).reshape(x.shape)


def _patches(x: Any) -> Any:
    rows, columns, channels = x.shape
    cut = x.reshape(rows // 2, 2, columns // 2, 2, channels)
    return cut.transpose(0, 2, 1, 3, 4).reshape(-1, 4 * channels)


def _strided_patches(x: Any) -> Any:
    return jnp.concatenate([x[i::2, j::2] for i in (0, 1) for j in (0, 1)], -1).reshape(-1, 4 * x.shape[2])


def _chunked(x: Any, w: Any) -> Any:
    return lax.scan(lambda total, rows: (total + (rows @ w).sum(), None), 0.0, x.reshape(4, -1, x.shape[1]))[0]


MN = {"x": "float32[m, n]"}
N = {"x": "float32[n]"}
TWO = {"x": "float32[2*n]"}
ROPE = {"x": "float32[s, 2*h]", "cos": "float32[s, h]", "sin": "float32[s, h]"}
LOOKUP = {"table": "float32[v, d]", "ids": "int32[t] < v"}
CACHE = {"cache": "float32[n, d]", "row": "float32[1, d]", "at": "int32[1] < n"}
GROUPED = {"q": "float32[h*g, s, d]", "k": "float32[h, t, d]"}
FORWARD = ("forward",)

RIGHT = (
    Written(
        "rotated by an index",
        lambda x: x[(jnp.arange(x.shape[0]) + x.shape[0] // 2) % x.shape[0]],
        lambda x: jnp.roll(x, x.shape[0] // 2),
        TWO,
    ),
    Written(
        "tiled", lambda x: jnp.tile(x, (1, 3)), lambda x: jnp.concatenate([x, x, x], axis=1), MN
    ),  # its gradient is a sum over 3 places
    Written("patches", _patches, _strided_patches, {"x": "float32[2*h, 2*w, c]"}),
    Written(
        "interleaved",
        lambda x, y: jnp.stack([x, y], -1).reshape(-1),
        lambda x, y: jnp.zeros(2 * x.shape[0], x.dtype).at[::2].set(x).at[1::2].set(y),
        {**N, "y": "float32[n]"},
    ),
    Written("rope", _rope, _rope_by_halves, ROPE),
    Written(
        "rows of a table",
        lambda table, ids: table[ids],
        lambda table, ids: jax.nn.one_hot(ids, table.shape[0]) @ table,
        LOOKUP,
    ),
    Written(
        "cache",
        lambda cache, row, at: lax.dynamic_update_slice(cache, row, (at[0], 0)),
        lambda cache, row, at: jnp.where((jnp.arange(cache.shape[0]) == at[0])[:, None], row, cache),
        CACHE,
    ),
    Written(
        "grouped heads",
        lambda q, k: jnp.einsum("hsd,htd->hst", q, jnp.repeat(k, q.shape[0] // k.shape[0], 0)),
        lambda q, k: jnp.einsum("hgsd,htd->hgst", q.reshape(k.shape[0], -1, *q.shape[1:]), k).reshape(
            q.shape[0], q.shape[1], -1
        ),
        GROUPED,
    ),
    Written(
        "softmax",
        lambda x: jax.nn.softmax(x, -1),
        lambda x: jnp.exp(x - jax.nn.logsumexp(x, -1, keepdims=True)),
        MN,
        FORWARD,
    ),
    Written(
        "positions in floats",
        lambda x: x * jnp.cos(0.5 * jnp.arange(x.shape[0])),
        lambda x: x * jnp.cos(0.5 * jnp.arange(x.shape[0], dtype=jnp.float32)),
        N,
        FORWARD,
    ),
    Written("microbatches", lambda x, w: (x @ w).sum(), _chunked, {"x": "float32[4*b, d]", "w": "float32[d, f]"}),
    Written("causal", jnp.tril, lambda x: x * jnp.tri(x.shape[0]), {"x": "float32[n, n]"}),
)


def _wrong_backward_at(size: int) -> Function:
    @jax.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2.0

    def backward(_: None, g: Any) -> tuple[Any]:
        return (g * 3.0 if g.shape[0] == size else g * 2.0,)

    doubled.defvjp(lambda x: (doubled(x), None), backward)
    return doubled


def _permuted(pairs: list[tuple[int, int]]) -> Function:
    mesh, spec = MeshSpec.parse("ring4").abstract("auto"), jax.sharding.PartitionSpec("ring")
    return jax.shard_map(lambda x: lax.ppermute(x, "ring", pairs), mesh=mesh, in_specs=spec, out_specs=spec)


def _kept(x: Any) -> Any:
    return x


SQUARE = {"x": "float32[n, n]"}
CHOSEN = {**N, "i": "int32[k]"}

REFUTED = (
    Written(
        "rotated back at odd n", lambda x: jnp.roll(x, x.shape[0] // 2), lambda x: jnp.roll(x, -(x.shape[0] // 2)), N
    ),
    Written(
        "rotated by one less",
        lambda x: x[(jnp.arange(x.shape[0]) + x.shape[0] // 2) % x.shape[0]],
        lambda x: x[(jnp.arange(x.shape[0]) + x.shape[0] // 2 - 1) % x.shape[0]],
        TWO,
        FORWARD,
    ),
    Written("tiled twice", lambda x: jnp.tile(x, 3), lambda x: jnp.concatenate([x, x, jnp.flip(x)]), N, ("gradient",)),
    Written("squeezed at one", _kept, lambda x: x if x.shape[0] > 1 else jnp.squeeze(x), N),
    Written("square alone", lambda x: x.sum(0), lambda x: x.sum(0 if x.shape[0] != x.shape[1] else 1), MN),
    Written("axes of squares", lambda x: jnp.cumsum(x, 0), lambda x: jnp.cumsum(x, 1), SQUARE),
    Written(
        "narrow index", _kept, lambda x: jnp.take(x, jnp.arange(x.shape[0], dtype=jnp.int16), mode="clip"), N, FORWARD
    ),
    Written("last partial chunk", _kept, lambda x: jnp.pad(x[: x.shape[0] // 4 * 4], (0, x.shape[0] % 4)), N),
    Written(
        "dropped row", lambda x: x[::2].sum() + x[1::2].sum(), lambda x: x[: x.shape[0] // 2 * 2].sum(), N, FORWARD
    ),
    Written("window of four", lambda x: jnp.tril(x, 3), lambda x: jnp.tril(x, 4), SQUARE, FORWARD),
    Written("backward at 16", lambda x: x * 2.0, _wrong_backward_at(16), N, ("gradient",)),
    Written("gradient stopped", lambda x: x * x, lambda x: lax.stop_gradient(x) * x, N, ("gradient",)),
    Written(
        "switched at a size", _kept, lambda x: lax.cond(jnp.asarray(x.shape[0]) == 16, jnp.flip, _kept, x), N, FORWARD
    ),
    Written("a device left out", _kept, _permuted([(0, 0), (1, 1), (2, 2)]), {"x": "float32[4*n]"}, FORWARD),
    Written("mean of one less", lambda x: x.mean(), lambda x: x.sum() / jnp.maximum(x.shape[0] - 1, 1), N, FORWARD),
    Written(
        "softmax of the other axis", lambda x: jax.nn.softmax(x, 0), lambda x: jax.nn.softmax(x, 1), SQUARE, FORWARD
    ),
    Written(
        "largest not added back", jax.nn.logsumexp, lambda x: jnp.log(jnp.exp(x - x.max()).sum()) + x[0], N, FORWARD
    ),
    Written(
        "positions from one",
        lambda x: x * jnp.arange(x.shape[0]),
        lambda x: x * jnp.arange(1, x.shape[0] + 1, dtype=jnp.float32),
        N,
        FORWARD,
    ),
)

NOT_PROVED = (
    Written("clip and wrap", lambda x, i: x[i], lambda x, i: jnp.take(x, i, mode="clip"), CHOSEN),
    Written(
        "fill and zero",
        lambda x, i: x.at[i].get(mode="fill"),
        lambda x, i: x.at[i].get(mode="fill", fill_value=0),
        CHOSEN,
        FORWARD,
    ),
    Written("below zero", lambda x, i: jax.nn.one_hot(i, x.shape[0]) @ x, lambda x, i: x[i], CHOSEN),
    Written("set and add", lambda x, i: x.at[i].set(1.0), lambda x, i: x.at[i].add(1.0 - x[i]), CHOSEN, FORWARD),
    Written("order of ties", lambda x, i: i[jnp.argsort(-i)], lambda x, i: i[jnp.argsort(i)[::-1]], CHOSEN, FORWARD),
    Written("rounded down", lambda x, i: x[0] * (i // 2), lambda x, i: x[0] * lax.div(i, 2), CHOSEN, FORWARD),
    Written("remainder", lambda x, i: x[0] * (i % 3), lambda x, i: x[0] * lax.rem(i, 3), CHOSEN, FORWARD),
    Written("through floats", lambda x, i: i.astype(jnp.float32).astype(jnp.int32), lambda x, i: i, CHOSEN, FORWARD),
    Written("through 16 bits", lambda x, i: i.astype(jnp.int16).astype(jnp.int32), lambda x, i: i, CHOSEN, FORWARD),
    Written("clamped start", lambda x, i: lax.dynamic_slice(x, (i[0],), (1,)), lambda x, i: x[i[:1]], CHOSEN, FORWARD),
    Written("logarithm of a negative", lambda x: jnp.exp(jnp.log(x)), _kept, N, FORWARD),
    Written("root of a negative", lambda x: jnp.sqrt(x * x), _kept, N, FORWARD),
    Written(
        "index in floats", _kept, lambda x: x[jnp.arange(x.shape[0], dtype=jnp.float32).astype(jnp.int32)], N, FORWARD
    ),
    Written("on a condition of values", _kept, lambda x: lax.cond(x[0] > 100.0, jnp.flip, _kept, x), N, FORWARD),
)
"""Wrong at some values: refuted, or undecided."""
