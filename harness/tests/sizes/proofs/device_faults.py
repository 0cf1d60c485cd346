"""Exchanges between devices written with a number of devices: honest ones, and ones that are wrong on some numbers."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from samebits import Arg, AxisSize, Case, Pair

AXIS = "context"
SPLIT = PartitionSpec(AXIS)

Exchange = Callable[..., jax.Array]


def on_devices(exchange: Exchange, cp: int, *arrays: jax.Array, specs: Any = SPLIT, out: Any = SPLIT) -> jax.Array:
    """The exchange under `shard_map`, where the context has the mesh axis with this number of devices."""
    if jax.sharding.get_abstract_mesh().shape.get(AXIS, 1) != cp:
        raise ValueError(f"cp is {cp}; expected the size of the axis {AXIS}")
    result: jax.Array = jax.shard_map(exchange, in_specs=specs, out_specs=out, axis_names={AXIS})(*arrays)
    return result


def rolled(x: jax.Array, *, cp: int) -> jax.Array:
    """The part of each device is that of the device before."""
    return jnp.roll(x.reshape(cp, -1), 1, axis=0).reshape(x.shape)


def ring(hops: Callable[[int], Iterable[tuple[int, int]]]) -> Exchange:
    """`rolled` as one permutation, of the table for a number of devices."""

    def variant(x: jax.Array, *, cp: int) -> jax.Array:
        return on_devices(lambda part: lax.ppermute(part, AXIS, list(hops(cp))), cp, x)

    return variant


def next_ones(cp: int, step: int = 1) -> list[tuple[int, int]]:
    """The table of a ring."""
    return [(rank, (rank + step) % cp) for rank in range(cp)]


def short(cp: int) -> list[tuple[int, int]]:
    """A ring that was written for up to 8 devices, and is closed after the eighth."""
    closed = next_ones(min(cp, 8))
    return closed + [(rank, rank) for rank in range(8, cp)]


def gathered(steps_back: Callable[[int], int]) -> Exchange:
    """`rolled` by gathering all parts on each device, of which it takes one."""

    def variant(x: jax.Array, *, cp: int) -> jax.Array:
        def exchange(part: jax.Array) -> jax.Array:
            number = (lax.axis_index(AXIS) - steps_back(cp)) % cp
            parts: jax.Array = lax.all_gather(part, AXIS)
            own: jax.Array = lax.dynamic_index_in_dim(parts, number, keepdims=False)
            return own

        return on_devices(exchange, cp, x)

    return variant


def negated_on_one(x: jax.Array, *, cp: int) -> jax.Array:
    """A special path for one device, which is wrong."""
    return -x if cp == 1 else ring(next_ones)(x, cp=cp)


def transposed(x: jax.Array, *, cp: int) -> jax.Array:
    """The blocks of a square, row by row, column by column."""
    return x.reshape(cp, cp, -1).swapaxes(0, 1).reshape(x.shape)


def exchanged(turned_at: int = 0) -> Exchange:
    """`transposed` as an exchange of all with all; on one number of devices, what comes in is in the wrong order."""

    def variant(x: jax.Array, *, cp: int) -> jax.Array:
        def exchange(part: jax.Array) -> jax.Array:
            blocks: jax.Array = lax.all_to_all(part, AXIS, 0, 0, tiled=True)
            return blocks.reshape(cp, -1)[::-1].reshape(part.shape) if cp == turned_at else blocks

        return on_devices(exchange, cp, x)

    return variant


def looked_up(table: jax.Array, ids: jax.Array, *, cp: int) -> jax.Array:
    """Rows of a table."""
    return jnp.take(table, ids, axis=0, mode="clip")


def summed(asked: Callable[[int], int]) -> Exchange:
    """`looked_up` in a table whose rows are split: a sum of the parts of the devices, of the first so many alone."""

    def variant(table: jax.Array, ids: jax.Array, *, cp: int) -> jax.Array:
        def exchange(rows: jax.Array, ids: jax.Array) -> jax.Array:
            rank = lax.axis_index(AXIS)
            local = ids - rank * rows.shape[0]
            own = (local >= 0) & (local < rows.shape[0]) & (rank < asked(cp))
            total: jax.Array = lax.psum(jnp.where(own[:, None], jnp.take(rows, local, axis=0, mode="clip"), 0), AXIS)
            return total

        return on_devices(exchange, cp, table, ids, specs=(SPLIT, PartitionSpec()), out=PartitionSpec())

    return variant


RINGS: dict[str, Exchange] = {"ppermute": ring(next_ones), "all_gather": gathered(lambda cp: 1)}
WRONG_RINGS: dict[str, tuple[int, Exchange]] = {
    "closed_after_eight": (9, ring(short)),
    "wrong_at_sixteen": (16, ring(lambda cp: next_ones(cp, 2 if cp == 16 else 1))),
    "wrong_at_odd": (3, ring(lambda cp: next_ones(cp, -1 if cp % 2 else 1))),
    "wrong_at_one": (1, negated_on_one),
    "drops_the_last": (7, ring(lambda cp: next_ones(cp)[: cp - (cp == 7)])),
    "gathers_in_another_order_at_twelve": (12, gathered(lambda cp: 2 if cp == 12 else 1)),
}
"""By name, the smallest number of devices on which the ring is wrong."""

EXCHANGES: dict[str, Exchange] = {"all_to_all": exchanged()}
WRONG_EXCHANGES: dict[str, tuple[int, Exchange]] = {"turned_at_six": (6, exchanged(6))}

SUMS: dict[str, Exchange] = {"psum": summed(lambda cp: cp)}
WRONG_SUMS: dict[str, tuple[int, Exchange]] = {
    "forgets_the_last_of_more_than_eight": (9, summed(lambda cp: cp - (cp > 8))),
    "forgets_the_last_of_sixteen": (16, summed(lambda cp: cp - (cp == 16))),
}


def _pair(reference: Exchange, variants: dict[str, Exchange], args: dict[str, Arg], **case: Any) -> Pair:
    declared = Case(id="small", statics={"cp": AxisSize(axis=AXIS)}, **case)
    return Pair(
        name=reference.__name__,
        reference=reference,
        variants=variants,
        args=args,
        cases=(declared,),
        dtypes=("float32",),
        meshes=("context2", "context4", "data2_context2"),
        modes=("auto", "explicit"),
    )


def ring_pair(variants: dict[str, Exchange]) -> Pair:
    """Variants of `rolled`."""
    args = {"x": Arg(shape=("length",), spec=(AXIS,))}
    return _pair(rolled, variants, args, sizes={"length": 24}, symbols={"length": "context*group"})


def exchange_pair(variants: dict[str, Exchange]) -> Pair:
    """Variants of `transposed`."""
    args = {"x": Arg(shape=("length",), spec=(AXIS,))}
    return _pair(transposed, variants, args, sizes={"length": 48}, symbols={"length": "context*context*group"})


def sum_pair(variants: dict[str, Exchange]) -> Pair:
    """Variants of `looked_up`."""
    args = {
        "table": Arg(shape=("rows", "width"), spec=(AXIS,)),
        "ids": Arg(shape=("tokens",), dtype="int32", below="rows"),
    }
    sizes = {"rows": 8, "width": 2, "tokens": 3}
    return _pair(looked_up, variants, args, sizes=sizes, symbols={"rows": "context*part"})
