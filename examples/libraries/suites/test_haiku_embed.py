"""`haiku.Embed` by index against its own one-hot product."""

from __future__ import annotations

import haiku as hk

from samebits import Arg, Case, Exemption, Integers, Pair, pair_test


def rows(table, ids, style):
    layer = hk.transform(lambda ids: hk.Embed(16, 8, lookup_style=style)(ids))
    return layer.apply({"embed": {"embeddings": table}}, None, ids)


def by_index(table, ids):
    return rows(table, ids, "ARRAY_INDEX")


def one_hot(table, ids):
    return rows(table, ids, "ONE_HOT")


PAIR = Pair(
    name="haiku_embed",
    reference=by_index,
    variants={"one_hot": one_hot},
    args={"table": Arg(shape=(16, 8)), "ids": Arg(shape=(4, 6), dtype="int32", values=Integers(high=16))},
    exemptions=(
        Exemption(
            variant="one_hot",
            dtype="bfloat16",
            kind="dtype",
            reason="the one-hot rows are float32, and so is the output",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_haiku_embed = pair_test(PAIR)
