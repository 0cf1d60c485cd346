"""Token exchange by sort, ragged all-to-all and local permutation: every row is sent once, to its destination.

The offsets and sizes come from one small table of counts that every shard gathers. `jax.lax.ragged_all_to_all` moves
the rows; XLA:CPU has none, so there `copy_segments` does what its documentation says, and no more than that: rows of
the destination that nobody sends stay as they were, which is NaN. That is what a TPU's uninitialised memory may hold.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

GROUP, EXPERT, FEATURE = "fsdp", "expert", "tensor"
"""The mesh axes of independent groups of tokens, of experts, and of the features of a token."""

OPERATIONS = ("dispatch", "combine", "round_trip")


class Sizes(NamedTuple):
    """What is known before the routing is: how many tokens, rows and experts a shard has."""

    local: int  # tokens that start out on a shard
    buffer: int  # rows of a shard's buffer
    owned: int  # experts of a shard
    shards: int


class Exchange(NamedTuple):
    """The tables of one `jax.lax.ragged_all_to_all`, int32 [shards] each, in its own words."""

    input_offsets: jax.Array  # where my rows for shard j begin in my operand
    send_sizes: jax.Array  # how many I send to shard j
    output_offsets: jax.Array  # where they begin in the destination of shard j
    recv_sizes: jax.Array  # how many shard j sends to me


def ragged_all_to_all(
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

    Equivalent to `all_gather_and_mask`, whose docstring has the arguments, the layout and the rule for dropping;
    for one group and a buffer that takes every token, on shard `s`:

        mine = experts // (num_experts // shards) == s
        buffer = rows[mine][jnp.argsort(experts[mine], stable=True)]   # dispatch; combine puts them back

    Args:
        rows: [groups * n, D] tokens, or for `combine` [groups * shards * R, D] outputs of experts.
        experts: [groups * n] integers in [0, num_experts).
        operation: `dispatch`, `combine` or `round_trip`.
        num_experts: of all shards together.
        shards: the size of the mesh axis `expert`; without a mesh, 1.
        groups: the size of the mesh axis `fsdp`; without a mesh, 1.
        buffer_factor: rows of a shard's buffer per local token; 0 for a buffer that takes every token.
        batch_sharded: whether the tokens of a group are split over `expert`, or every shard has all of them.

    Returns:
        `dispatch`: {"rows": [groups * shards * R, D], "sizes": int32 [groups, num_experts]}; otherwise [groups * n, D].

    Raises:
        ValueError: an unknown operation, experts that are not integers, sizes that do not divide or do not match.

    Source: Gale et al., MegaBlocks, arXiv 2211.15841, section 5; `jax.lax.ragged_all_to_all`'s own documentation.
    """
    sizes = _check(rows, experts, operation, num_experts, shards, groups, buffer_factor, batch_sharded)
    if operation == "combine":
        return _combine(rows, experts, sizes, batch_sharded)
    held, counts = _dispatch(rows, experts, sizes, batch_sharded)
    if operation == "dispatch":
        return {"rows": held, "sizes": counts}
    return _combine(_apply_experts(held, counts, sizes), experts, sizes, batch_sharded)


# The tables. `table[i, j]` counts the tokens that go from shard i to experts of shard j.


def before(counts: jax.Array, axis: int = 0) -> jax.Array:
    """The exclusive prefix sum: `before([3, 1, 2]) == [0, 3, 4]`."""
    return jnp.cumsum(counts, axis) - counts


def fitting(counts: jax.Array, room: int) -> jax.Array:
    """How many of each count fit into `room` rows, first come, first served: `fitting([3, 4, 2], 5) == [3, 2, 0]`."""
    return jnp.clip(room - before(counts), 0, counts)


def dispatch_plan(table: jax.Array, me: jax.Array | int, room: int) -> Exchange:
    """Tokens to their experts: segments are cut out of all my tokens, and packed where they arrive."""
    fits = fitting(table, room)
    return Exchange(before(table[me]), fits[me], before(fits)[me], fits[:, me])


def combine_plan(table: jax.Array, me: jax.Array | int, room: int) -> Exchange:
    """The way back: segments are cut out of what arrived, and written where they were cut out of all tokens.

    The offsets at the owner of the tokens are those of the whole table: a dropped row leaves its place empty.
    """
    fits = fitting(table, room)
    return Exchange(before(fits[:, me]), fits[:, me], before(table, 1)[:, me], fits[me])


def broadcast_plan(totals: jax.Array, me: jax.Array | int, room: int) -> Exchange:
    """The way back where every shard has all tokens: each sends all that it holds to everyone.

    Args:
        totals: int32 [shards], the tokens for the experts of each shard.
        me: this shard.
        room: rows of a buffer.
    """
    fits = jnp.minimum(totals, room)
    everyone = jnp.ones_like(totals)
    return Exchange(0 * everyone, fits[me] * everyone, before(totals)[me] * everyone, fits)


# One exchange.


def exchange(operand: jax.Array, rows: int, plan: Exchange) -> jax.Array:
    """Send segments of `operand` as the plan says; rows of the result that nobody writes are NaN.

    Args:
        operand: [any, D], this shard's rows.
        rows: of the result.
        plan: this shard's tables.

    Returns:
        [rows, D]; the smallest number stands in for NaN where the dtype is an integer.
    """
    lowest = jnp.nan if jnp.issubdtype(operand.dtype, jnp.inexact) else jnp.iinfo(operand.dtype).min
    poison = jax.lax.pcast(jnp.full((rows, operand.shape[1]), lowest, operand.dtype), _axes(), to="varying")
    if EXPERT not in _axes():
        return emulated(operand, poison, *plan)
    real = partial(jax.lax.ragged_all_to_all, axis_name=EXPERT)
    return jax.lax.platform_dependent(operand, poison, *plan, cpu=emulated, default=real)


def emulated(
    operand: jax.Array,
    output: jax.Array,
    input_offsets: jax.Array,
    send_sizes: jax.Array,
    output_offsets: jax.Array,
    recv_sizes: jax.Array,
) -> jax.Array:
    """`jax.lax.ragged_all_to_all` over the axis `expert`, for a backend without it: everybody gets everything."""
    with jax.named_scope("emulated_ragged_all_to_all"):
        tables = _gathered(jnp.stack([input_offsets, send_sizes, output_offsets]))
        starts, lengths, places = tables[:, :, _me()].T
        return copy_segments(_gathered(operand), output, starts, lengths, places, recv_sizes)


def copy_segments(
    sent: jax.Array,
    output: jax.Array,
    starts: jax.Array,
    lengths: jax.Array,
    places: jax.Array,
    expected: jax.Array,
) -> jax.Array:
    """What one shard receives; what the documentation leaves undefined is not written, so that it shows.

    Equivalent to `for i in range(shards): output[places[i]:][:lengths[i]] = sent[i, starts[i]:][:lengths[i]]`.

    Args:
        sent: [shards, n, D], the operands of all.
        output: [rows, D], the destination as it was.
        starts, lengths, places: [shards], each sender's segment for this shard, and where it goes here.
        expected: [shards], how many rows this shard believes it gets; a segment of another length is not written.

    Returns:
        [rows, D]; rows covered by two segments are not written either.
    """
    shards, n, width = sent.shape
    row = jnp.arange(output.shape[0])[:, None]
    valid = (lengths == expected) & (starts >= 0) & (starts + lengths <= n)
    covers = valid & (places <= row) & (row < places + lengths)
    index = jnp.where(covers, row - places + starts + n * jnp.arange(shards), 0).sum(1)
    once = covers.sum(1, keepdims=True) == 1
    return jnp.where(once, _take(sent.reshape(-1, width), jnp.where(once[:, 0], index, 0)), output)


# The three steps, each for one shard and then for all.


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _dispatch(rows: jax.Array, experts: jax.Array, sizes: Sizes, batch_sharded: bool) -> tuple[jax.Array, jax.Array]:
    """Tokens to buffers; where every shard has all tokens it picks its own, and nothing is sent."""
    tokens, buffers, counts = _specs(batch_sharded)
    step = partial(_send if batch_sharded else _pick, sizes=sizes)
    return _on_shards(step, (tokens, PartitionSpec(tokens[0])), (buffers, counts))(rows, experts)


def _send(rows: jax.Array, experts: jax.Array, sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    counts = _gathered(_count(experts, sizes.owned * sizes.shards))
    plan = dispatch_plan(_by_shard(counts, sizes), _me(), sizes.buffer)
    arrived = exchange(_take(rows, _order(experts)), sizes.buffer, plan)
    by_expert, kept = _local_order(counts, sizes)
    return _first(_take(arrived, by_expert), kept.sum()), kept.sum(0)[None]


def _pick(rows: jax.Array, experts: jax.Array, sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    local = experts - _me() * sizes.owned
    local = jnp.where((local >= 0) & (local < sizes.owned), local, sizes.owned)  # The others' tokens sort last.
    kept = fitting(_count(local, sizes.owned), sizes.buffer)
    order = _order(local)[jnp.minimum(jnp.arange(sizes.buffer), sizes.local - 1)]
    return _first(_take(rows, order), kept.sum()), kept[None]


def _apply_experts(held: jax.Array, counts: jax.Array, sizes: Sizes) -> jax.Array:
    """Stand-in for the experts themselves: each multiplies its rows by its number plus one."""

    def step(held: jax.Array, counts: jax.Array) -> jax.Array:
        expert = _me() * sizes.owned + _segment(counts[0], sizes.buffer)
        return held * (expert + 1).astype(held.dtype)[:, None]

    _, buffers, each = _specs(True)
    return _on_shards(step, (buffers, each), buffers)(held, counts)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _combine(held: jax.Array, experts: jax.Array, sizes: Sizes, batch_sharded: bool) -> jax.Array:
    """Buffers to tokens; where every shard has all tokens, all of them get everything."""
    tokens, buffers, _ = _specs(batch_sharded)
    step = partial(_return if batch_sharded else _broadcast, sizes=sizes)
    # After a broadcast all shards hold the same rows, which is more than the types can know.
    return _on_shards(step, (buffers, PartitionSpec(tokens[0])), tokens, check_vma=batch_sharded)(held, experts)


# A token has at most one row in the buffers, so each of the two is the other's transpose, and a gradient travels as the
# values do. (Autodiff would scatter-add; and the transpose that jax gives to a ragged all-to-all writes the answers of
# several receivers of one row over each other.)
_dispatch.defvjp(
    lambda rows, experts, *static: (_dispatch(rows, experts, *static), experts),
    lambda sizes, split, experts, cotangents: (_combine(cotangents[0], experts, sizes, split), None),
)
_combine.defvjp(
    lambda held, experts, *static: (_combine(held, experts, *static), experts),
    lambda sizes, split, experts, cotangent: (_dispatch(cotangent, experts, sizes, split)[0], None),
)


def _return(held: jax.Array, experts: jax.Array, sizes: Sizes) -> jax.Array:
    counts = _gathered(_count(experts, sizes.owned * sizes.shards))
    table = _by_shard(counts, sizes)
    by_expert, _ = _local_order(counts, sizes)
    back = exchange(_take(held, _order(by_expert)), sizes.local, combine_plan(table, _me(), sizes.buffer))
    return _unsort(back, experts, table[_me()], fitting(table, sizes.buffer)[_me()], sizes)


def _broadcast(held: jax.Array, experts: jax.Array, sizes: Sizes) -> jax.Array:
    totals = _count(experts, sizes.owned * sizes.shards).reshape(sizes.shards, -1).sum(1)
    back = exchange(held, sizes.local, broadcast_plan(totals, _me(), sizes.buffer))
    return _unsort(back, experts, totals, jnp.minimum(totals, sizes.buffer), sizes)


# Their parts.


def _order(ids: jax.Array) -> jax.Array:
    """The stable argsort; of a permutation, its inverse.

    Not `jnp.argsort`: in a `shard_map` its order is typed as the same on all shards even where `ids` differs between
    them (jax 0.10.2 and 0.12.0.1), and a gradient through it is summed over shards before its rows are in place.
    """
    return jax.lax.sort((ids, jnp.arange(ids.size)), num_keys=1, is_stable=True)[1]


def _take(rows: jax.Array, index: jax.Array) -> jax.Array:
    """`rows[index]`, for indices that are known to be in range."""
    return rows.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _count(ids: jax.Array, length: int) -> jax.Array:
    return (ids[:, None] == jnp.arange(length)).sum(0, dtype=jnp.int32)


def _by_shard(counts: jax.Array, sizes: Sizes) -> jax.Array:
    """Tokens per (source, expert) to tokens per (source, shard)."""
    return counts.reshape(-1, sizes.shards, sizes.owned).sum(2)


def _segment(lengths: jax.Array, rows: int) -> jax.Array:
    """The segment that each row lies in, for segments laid end to end; rows beyond the last get `len(lengths)`."""
    return (jnp.arange(rows)[:, None] >= jnp.cumsum(lengths)).sum(1)


def _local_order(counts: jax.Array, sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    """From rows as they arrive, by (source, expert), to rows by (expert, source).

    Returns:
        [buffer] the permutation, rows beyond the last that arrived staying last; [shards, owned] the rows kept.
    """
    mine = jax.lax.dynamic_slice_in_dim(counts, _me() * sizes.owned, sizes.owned, axis=1)
    kept = fitting(mine.reshape(-1), sizes.buffer)
    segment = _segment(kept, sizes.buffer)
    local = jnp.where(segment < kept.size, segment % sizes.owned, sizes.owned)
    return _order(local), kept.reshape(mine.shape)


def _unsort(back: jax.Array, experts: jax.Array, sent: jax.Array, kept: jax.Array, sizes: Sizes) -> jax.Array:
    """Rows sorted by expert to the places of their tokens; those beyond the first `kept` for a shard were dropped."""
    row = jnp.arange(sizes.local)[:, None]
    returned = ((before(sent) <= row) & (row < before(sent) + kept)).any(1, keepdims=True)
    return _take(jnp.where(returned, back, 0), _order(_order(experts)))


def _first(rows: jax.Array, count: jax.Array) -> jax.Array:
    """The first `count` rows, the others 0."""
    return jnp.where((jnp.arange(rows.shape[0]) < count)[:, None], rows, 0)


# The mesh.


def _axes() -> tuple[str, ...]:
    known = jax.sharding.get_abstract_mesh().axis_names
    return tuple(axis for axis in (GROUP, EXPERT, FEATURE) if axis in known)


def _me() -> jax.Array | int:
    return jax.lax.axis_index(EXPERT) if EXPERT in _axes() else 0


def _gathered(x: jax.Array) -> jax.Array:
    return jax.lax.all_gather(x, EXPERT) if EXPERT in _axes() else x[None]


def _specs(batch_sharded: bool) -> tuple[PartitionSpec, PartitionSpec, PartitionSpec]:
    """How tokens, buffers and counts lie on the mesh."""
    group, expert, feature = (tuple({axis} & set(_axes())) for axis in (GROUP, EXPERT, FEATURE))
    buffers = PartitionSpec(group + expert, feature)
    return buffers if batch_sharded else PartitionSpec(group, feature), buffers, PartitionSpec(group, expert)


def _on_shards(step: Any, in_specs: Any, out_specs: Any, check_vma: bool = True) -> Any:
    if jax.sharding.get_abstract_mesh().empty:
        return step
    return jax.shard_map(step, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma)


def _check(
    rows: jax.Array,
    experts: jax.Array,
    operation: str,
    num_experts: int,
    shards: int,
    groups: int,
    buffer_factor: float,
    batch_sharded: bool,
) -> Sizes:
    mesh = jax.sharding.get_abstract_mesh()
    for name, size, axis in (("shards", shards, EXPERT), ("groups", groups, GROUP)):
        if mesh.shape.get(axis, 1) != size:
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
    return Sizes(local, buffer, num_experts // shards, shards)
