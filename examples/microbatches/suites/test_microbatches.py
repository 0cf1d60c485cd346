"""A table of embeddings that every device has whole loses all but one microbatch of its gradient on a TPU.

Source: openxla/xla#49143, seen with libtpu 0.0.42.1.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from samebits import Arg, Case, Pair, pair_test

ROWS = 96


def gradient_of_table(ids: jax.Array, updates: jax.Array, *, table: P) -> jax.Array:
    """Add up two microbatches, of which each device has a part, in a table with a sharding."""
    ids, updates = (x.reshape(2, -1, *x.shape[1:]) for x in (ids, updates))
    ids, updates = (jax.lax.with_sharding_constraint(x, P(None, "data")) for x in (ids, updates))

    def add(total: jax.Array, microbatch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return jax.lax.with_sharding_constraint(total.at[microbatch[0]].add(microbatch[1]), table), None

    return jax.lax.scan(add, jnp.zeros((ROWS, *updates.shape[3:])), (ids, updates))[0]


PAIR = Pair(
    name="microbatches",
    reference=partial(gradient_of_table, table=P()),
    variants={"divided": partial(gradient_of_table, table=P("data"))},
    args={
        "ids": Arg(shape=("batch", "tokens"), dtype="int32", below="96", spec=("data",)),
        "updates": Arg(shape=("batch", "tokens", "width", "depth"), spec=("data",)),
    },
    cases=(Case(id="two", sizes={"batch": 16, "tokens": 8, "width": 5, "depth": 128}),),
    dtypes=("float32",),
    meshes=("data4",),
    modes=("auto",),
    gradients=False,
)

test_microbatches = pair_test(PAIR)
