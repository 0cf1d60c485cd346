"""MaxText's `reorder_sequence` for load-balanced context parallelism against split, flip and stack, and back again.

It gathers by a table; `structured` is the form of `optimized_impls/sequence_reorder.py`. All are proved for all sizes.
"""

from __future__ import annotations

import jax.numpy as jnp
from maxtext.utils.max_utils import reorder_sequence

from samebits import Arg, Case, Pair, pair_test


def structured(tensor, *, cp_size, to_contiguous):
    batch, length, *rest = tensor.shape
    size = length // (2 * cp_size)
    if to_contiguous:
        early, late = jnp.split(tensor.reshape(batch, cp_size, 2 * size, *rest), 2, axis=2)
        return jnp.concatenate([early, jnp.flip(late, 1)], axis=1).reshape(tensor.shape)
    early, late = jnp.split(tensor.reshape(batch, 2 * cp_size, size, *rest), 2, axis=1)
    return jnp.stack([early, jnp.flip(late, 1)], axis=2).reshape(tensor.shape)


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
    reference=structured,
    variants={"maxtext": reorder_sequence, "gather": gather},
    args={"tensor": Arg(shape=("batch", "length", "width"))},
    cases=(
        Case(id="reordered", sizes=SIZES, symbols=SYMBOLS, statics={"cp_size": 4, "to_contiguous": False}),
        Case(id="contiguous", sizes=SIZES, symbols=SYMBOLS, statics={"cp_size": 4, "to_contiguous": True}),
    ),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_maxtext_reorder_sequence = pair_test(PAIR)
