"""Tokens sorted by their experts, written as an argsort and a gather of rows, whose derivative is autodiff's.

Source: the dispatch of Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts", 2022 (arXiv
2211.15841), section 5.2: the rows of one expert lie next to each other, so that its matrix product is one block.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def argsort_take(rows: jax.Array, experts: jax.Array, *, num_experts: int) -> dict[str, jax.Array]:
    """One row for each choice of a token, those of an expert together, in each group by itself.

    For one group, with `choices = experts.reshape(-1)` and `k` choices per token:

        order = sorted(range(tokens * k), key=lambda i: (choices[i], i))
        rows = [rows[i // k] for i in order]
        sizes = [list(choices).count(expert) for expert in range(num_experts)]

    The gradient of a row is the sum of the cotangents of its `k` copies, added to zeros one by one in the dtype of the
    rows.

    Args:
        rows: `[groups, tokens, width]`, the tokens of groups that never meet, such as shards of a batch.
        experts: `[groups, tokens, k]`, an integer dtype, in `[0, num_experts)`; a token may choose an expert twice.
        num_experts: how many there are; some may be chosen by nobody.

    Returns:
        `rows`, `[groups, tokens * k, width]`, and `sizes`, int32 `[groups, num_experts]`; split as the rows are, their
        tokens not at all.

    Raises:
        ValueError: the experts are not integers, there is none, or the shapes do not fit.
    """
    if not jnp.issubdtype(experts.dtype, jnp.integer):
        raise ValueError(f"experts have dtype {experts.dtype}; expected an integer dtype")
    if num_experts < 1:
        raise ValueError(f"num_experts is {num_experts}; expected at least 1")
    if rows.ndim != 3 or experts.ndim != 3 or experts.shape[:2] != rows.shape[:2]:
        raise ValueError(
            f"rows and experts have shapes {rows.shape} and {experts.shape}; expected [groups, tokens, width], "
            "[groups, tokens, k]"
        )

    def group(rows: jax.Array, experts: jax.Array) -> dict[str, jax.Array]:
        order = jnp.argsort(experts.reshape(-1), stable=True)
        sizes = jnp.sum(experts.reshape(-1) == jnp.arange(num_experts)[:, None], axis=1, dtype=jnp.int32)
        return {"rows": jnp.take(rows, order // experts.shape[1], axis=0, mode="clip"), "sizes": sizes}

    spec = jax.typeof(rows).sharding.spec
    # A sort has no sharding rule: where shardings are part of types, leave this step to the compiler.
    return jax.sharding.auto_axes(
        jax.vmap(group), out_sharding={"rows": PartitionSpec(spec[0], None, spec[2]), "sizes": PartitionSpec(spec[0])}
    )(rows, experts)
