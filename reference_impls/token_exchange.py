"""Token exchange by gathering everything and masking: the rows of a shard are found by counting, row by row.

The plain form of expert parallelism (Lepikhin et al., GShard, arXiv 2006.16668, section 3.2): every shard sees
the tokens of all shards and keeps those that are routed to its own experts. No sort, no offsets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, PartitionSpec

GROUP, EXPERT, FEATURE = "fsdp", "expert", "tensor"
"""The mesh axes of independent groups of tokens, of experts, and of the features of a token."""

OPERATIONS = ("dispatch", "combine", "round_trip")


class _Sizes(NamedTuple):
    tokens: int  # of a group
    local: int  # of these on each shard
    buffer: int  # rows of each shard's buffer
    owned: int  # experts of each shard
    shards: int


def all_gather_and_mask(
    rows: jax.Array,
    experts: jax.Array,
    *,
    operation: str,
    num_experts: int,
    shards: int,
    groups: int = 1,
    buffer_factor: float = 0.0,
    batch_sharded: bool = True,
) -> Any:
    """Move tokens to the shards that own their experts, back again, or both ways.

    Tokens come in `groups` blocks of `n` that never meet. Within a group, shard `s` owns the `num_experts // shards`
    experts from `s * num_experts // shards` on, and a buffer of `R` rows. With `local` tokens of a group on each
    shard, `R` is `int(local * buffer_factor)`, or `n` for a factor of 0, so that every token fits. For one group:

        arrival = sorted(range(n), key=lambda i: (i // local if batch_sharded else 0, experts[i], i))
        for s in range(shards):
            kept = [i for i in arrival if experts[i] in owned[s]][:R]  # the last to arrive are dropped
            buffer[s, : len(kept)] = [rows[i] for i in sorted(kept, key=lambda i: (experts[i], i))]  # the rest is 0

    Args:
        rows: [groups * n, D], the tokens, for `dispatch` and `round_trip`; for `combine` the experts' outputs
            [groups * shards * R, D], laid out as `dispatch` gives them; rows beyond those kept are not looked at.
        experts: [groups * n] integers in [0, num_experts), the expert of each token.
        operation: `dispatch`, `combine`, or `round_trip`: dispatch, multiply each row by the number of its expert
            plus one, combine.
        num_experts: of all shards together.
        shards: into how many parts the experts are cut; on a mesh, the size of its axis `expert`.
        groups: on a mesh, the size of its axis `fsdp`.
        buffer_factor: rows of a shard's buffer per local token; 0 for a buffer that takes every token.
        batch_sharded: whether the tokens of a group are split over `expert`, or every shard has all of them.

    Returns:
        `dispatch`: {"rows": [groups * shards * R, D], "sizes": int32 [groups, num_experts]}, the buffers and how many
        rows of each expert are in them. Otherwise [groups * n, D]: every token's row at its own place, 0 where dropped.

    Raises:
        ValueError: an unknown operation, experts that are not integers, sizes that do not divide or do not match.
    """
    mesh = jax.sharding.get_abstract_mesh()
    sizes = _check(mesh, rows, experts, operation, num_experts, shards, groups, buffer_factor, batch_sharded)

    def device(rows: jax.Array, experts: jax.Array) -> Any:
        """One group on one device: a shard on a mesh, all shards without."""
        experts = _gathered(experts, mesh, batch_sharded)
        first, count = (jax.lax.axis_index(EXPERT), 1) if EXPERT in mesh.shape else (0, sizes.shards)
        mine = first * sizes.owned + jnp.arange(count * sizes.owned)
        slots = first * sizes.buffer + jnp.arange(count * sizes.buffer)
        kept, slot = places(experts, sizes, batch_sharded)
        held = kept & (slot == slots[:, None])  # [slots, tokens], at most one true in a row
        token = jnp.where(held, np.arange(sizes.tokens), 0).sum(1)  # 0 too where no token is
        if operation != "combine":
            tokens = _gathered(rows, mesh, batch_sharded)
            rows = jnp.where(held.any(1, keepdims=True), tokens[token], 0)
        if operation == "dispatch":
            return {"rows": rows, "sizes": (kept & (experts == mine[:, None])).sum(1, dtype=jnp.int32)[None]}
        if operation == "round_trip":
            rows = rows * (experts[token] + 1).astype(rows.dtype)[:, None]
        back = jnp.where(kept[:, None], _gathered(rows, mesh, True)[slot], 0)
        if batch_sharded and EXPERT in mesh.shape:
            back = jax.lax.dynamic_slice_in_dim(back, first * sizes.local, sizes.local)
        return back

    if mesh.empty:
        out = jax.vmap(device)(rows.reshape(groups, -1, rows.shape[-1]), experts.reshape(groups, -1))
        return jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), out)
    group, expert, feature = (tuple({axis} & set(mesh.axis_names)) for axis in (GROUP, EXPERT, FEATURE))
    buffers = PartitionSpec(group + expert, feature)
    tokens = buffers if batch_sharded else PartitionSpec(group, feature)
    before = buffers if operation == "combine" else tokens
    after: Any = {"rows": buffers, "sizes": PartitionSpec(group, expert)} if operation == "dispatch" else tokens
    return jax.shard_map(device, in_specs=(before, PartitionSpec(tokens[0])), out_specs=after)(rows, experts)


def places(experts: jax.Array, sizes: _Sizes, batch_sharded: bool) -> tuple[jax.Array, jax.Array]:
    """Which tokens of a group are kept, and each one's row in the buffers of all shards laid end to end.

    Both are ranks, counted by comparing every token with every other: the rank in order of arrival at the
    shard says who is dropped, the rank by expert among those kept is the row.

    Args:
        experts: [tokens] the expert of each token.
        sizes: of the group and its buffers.
        batch_sharded: whether tokens start out on the shard `position // local`, or all of them on every shard.

    Returns:
        kept: bool [tokens]; slot: integer [tokens], in [0, shards * buffer), 0 where not kept.
    """
    position = np.arange(sizes.tokens, dtype=np.int32)
    source = position // sizes.local if batch_sharded else 0 * position
    shard = jax.lax.div(experts, np.asarray(sizes.owned, experts.dtype))
    by_expert = experts * sizes.tokens + position
    by_arrival = source * (sizes.owned * sizes.shards * sizes.tokens) + by_expert
    together = shard[:, None] == shard
    kept = (together & (by_arrival < by_arrival[:, None])).sum(1) < sizes.buffer
    slot = shard * sizes.buffer + (together & kept & (by_expert < by_expert[:, None])).sum(1)
    return kept, jnp.where(kept, slot, 0)  # the count of a token that is not kept may be out of range


def _gathered(x: jax.Array, mesh: AbstractMesh, split: bool) -> jax.Array:
    """What all shards of a group have of `x`, end to end."""
    if not split or EXPERT not in mesh.shape:
        return x
    everything: jax.Array = jax.lax.all_gather(x, EXPERT, axis=0, tiled=True, to="invarying")
    return everything


def _check(
    mesh: AbstractMesh,
    rows: jax.Array,
    experts: jax.Array,
    operation: str,
    num_experts: int,
    shards: int,
    groups: int,
    buffer_factor: float,
    batch_sharded: bool,
) -> _Sizes:
    for name, size, axis in (("shards", shards, EXPERT), ("groups", groups, GROUP)):
        if size < 1 or (not mesh.empty and mesh.shape.get(axis, 1) != size):
            raise ValueError(f"{name}={size}; the mesh axis '{axis}' has size {mesh.shape.get(axis, 1)}")
    blocks = groups * (shards if batch_sharded else 1)
    if operation not in OPERATIONS:
        raise ValueError(f"operation={operation!r}; expected one of {', '.join(OPERATIONS)}")
    if num_experts % shards:
        raise ValueError(f"num_experts={num_experts} does not divide by shards={shards}")
    if experts.ndim != 1 or experts.size % blocks or not jnp.issubdtype(experts.dtype, jnp.integer):
        raise ValueError(f"experts are {experts.dtype}{list(experts.shape)}; expected integers [multiple of {blocks}]")
    tokens = experts.size // groups
    local = tokens // shards if batch_sharded else tokens
    buffer = int(local * buffer_factor) if buffer_factor else tokens
    if buffer < 1:
        raise ValueError(f"buffer_factor={buffer_factor} of {local} local tokens leaves a buffer without rows")
    expected = groups * shards * buffer if operation == "combine" else experts.size
    if rows.ndim != 2 or rows.shape[0] != expected:
        raise ValueError(f"rows are {list(rows.shape)}; {operation} of {experts.size} tokens expects [{expected}, D]")
    return _Sizes(tokens, local, buffer, num_experts // shards, shards)
