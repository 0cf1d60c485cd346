"""MaxText's `reorder_sequence` for load-balanced context parallelism against a gather by position, and back again."""

from __future__ import annotations

import jax.numpy as jnp
from maxtext.utils.max_utils import reorder_sequence

from samebits import Arg, Case, Pair, pair_test


def gather(tensor, *, cp_size, to_contiguous):
    size = tensor.shape[1] // (2 * cp_size)
    ranks = jnp.arange(cp_size)
    chunks = jnp.stack([ranks, 2 * cp_size - 1 - ranks], axis=1).reshape(-1)
    order = (chunks[:, None] * size + jnp.arange(size)).reshape(-1)
    return tensor[:, jnp.argsort(order) if to_contiguous else order]


SIZES = {"batch": 2, "length": 16, "width": 4}
SYMBOLS = {"cp_size": "2*c", "length": "4*c*g"}

PAIR = Pair(
    name="maxtext_reorder_sequence",
    reference=gather,
    variants={"maxtext": reorder_sequence},
    args={"tensor": Arg(shape=("batch", "length", "width"))},
    cases=(
        Case(id="reordered", sizes=SIZES, symbols=SYMBOLS, statics={"cp_size": 4, "to_contiguous": False}),
        Case(id="contiguous", sizes=SIZES, symbols=SYMBOLS, statics={"cp_size": 4, "to_contiguous": True}),
    ),
    dtypes=("float32", "bfloat16"),
)
test_maxtext_reorder_sequence = pair_test(PAIR)
