"""Rows by index against `jnp.take` and a product with one-hot rows; and what each does beyond the table."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Exemption, Integers, Pair, pair_test


def index(table, ids):
    return table[ids]


def take(table, ids):
    return jnp.take(table, ids, axis=0)


def one_hot(table, ids):
    return jax.nn.one_hot(ids, len(table), dtype=table.dtype) @ table


def arguments(case, mesh):
    beyond = (16,) if case.id == "beyond" else ()
    return {
        "table": Arg(shape=(16, 8)),
        "ids": Arg(shape=(4, 6), dtype="int32", values=Integers(high=16, also=beyond)),
    }


PAIR = Pair(
    name="jax_take",
    reference=index,
    variants={"take": take, "one_hot": one_hot},
    args=arguments,
    cases=(Case(id="inside"), Case(id="beyond")),
    exemptions=(
        Exemption(case="beyond", variant="take", direction="forward", reason="id 16 of 16: the last row, NaN here"),
        Exemption(case="beyond", variant="one_hot", direction="forward", reason="id 16 of 16: the last row, 0 here"),
    ),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_take = pair_test(PAIR)
