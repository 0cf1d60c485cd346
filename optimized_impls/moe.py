"""A mixture of experts that runs only the chosen experts: tokens are sent to them, or expert shards see all tokens.

`sparse` sorts the choices by expert, sends every row once to the shard of its expert, and back. `ring` gathers the
tokens over `expert`, lets every shard answer for its own experts, and adds up the answers on the way back: it sends
more and needs no table of who sends what. Neither adds gradients up by scattering: an order's inverse takes them back.

XLA:CPU has no ragged all-to-all; there `copy_segments` does what its documentation says, and no more than that: rows of
the destination that nobody sends stay NaN, as uninitialised memory may be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

BATCH, CONTEXT, EXPERT, TENSOR = ("data", "fsdp", "expert"), "context", "expert", "tensor"
"""The mesh axes of sequences, of the tokens of a sequence, of experts, and of the hidden numbers of an expert."""

ROUTINGS = ("softmax", "sigmoid", "group_limited", "random")

GroupedMatmul = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
WeightSum = Callable[[jax.Array, jax.Array], jax.Array]


class Statics(NamedTuple):
    """How tokens are routed, and what replaces the products and the weighted sum of this file."""

    experts: int
    top_k: int
    routing: str
    groups: int
    top_groups: int
    scaling: float
    grouped_matmul: GroupedMatmul | None
    weight_sum: WeightSum | None


class Sizes(NamedTuple):
    """What a shard knows before the routing: rows that it sends, rows that may arrive, its experts, all shards."""

    rows: int
    buffer: int
    owned: int
    shards: int


class Exchange(NamedTuple):
    """The tables of one `jax.lax.ragged_all_to_all`, int32 [shards] each, in its own words."""

    input_offsets: jax.Array  # where my rows for shard j begin in my operand
    send_sizes: jax.Array  # how many I send to shard j
    output_offsets: jax.Array  # where they begin in the destination of shard j
    recv_sizes: jax.Array  # how many shard j sends to me


class Way(NamedTuple):
    """One exchange, and what comes of it: for each row its place among the operands of all, and whether it has one."""

    plan: Exchange
    source: jax.Array
    written: jax.Array


class Routes(NamedTuple):
    """There and back, the order of what arrives and its inverse, and how many rows arrive."""

    there: Way
    back: Way
    order: jax.Array
    inverse: jax.Array
    arrived: jax.Array


def sparse(
    x: jax.Array,
    router: jax.Array,
    bias: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    *,
    top_k: int,
    routing: str = "softmax",
    groups: int = 1,
    top_groups: int = 1,
    scaling: float = 1.0,
    seed: int = 0,
    grouped_matmul: GroupedMatmul | None = None,
    weight_sum: WeightSum | None = None,
) -> dict[str, jax.Array]:
    """Each choice of a token is one row, sorted by expert, sent to the shard that has the expert, and sent back.

    Equivalent to `dense`, whose docstring has the routings and what is rounded when: logits, weights, sums and the
    balance loss in at least float32; hidden numbers, answers and result rounded to the dtype of `x`. No row is dropped.

    Args:
        x: `[batch, seq, embed]`; split over `data`, `fsdp`, `expert`, and over `context`; axes may be missing.
        router: `[embed, experts]`.
        bias: float32 `[experts]`, for the choice in `sigmoid` and `group_limited`.
        w_gate, w_up: `[experts, embed, hidden]`; split over `expert`, and the last dimension over `tensor`.
        w_down: `[experts, hidden, embed]`; split over `expert` and `tensor`.
        top_k, routing, groups, top_groups, scaling, seed: how tokens are routed.
        grouped_matmul: `(rows [n, D], kernels [experts here, D, F], sizes int32 [experts here]) -> [n, F]`, rows beyond
            the sum of the sizes 0 or not looked at; None is `jax.lax.ragged_dot`.
        weight_sum: `(rows [tokens, top_k, D], weights [tokens, top_k]) -> [tokens, D]`; None is a sum in at least
            float32.

    Returns:
        {"out": `[batch, seq, embed]`, dtype of `x`, split as `x` is; "balance_loss": a number, at least float32}.

    Raises:
        ValueError: an unknown routing, sizes that do not fit or are not divided by the mesh, or more chosen than there
            are.

    Source: Gale et al., MegaBlocks, arXiv 2211.15841, section 5; `jax.lax.ragged_all_to_all`'s own documentation.
    """
    statics = Statics(router.shape[-1], top_k, routing, groups, top_groups, scaling, grouped_matmul, weight_sum)
    return _on_shards(_sparse, statics, seed, x, router, bias, w_gate, w_up, w_down)


def ring(
    x: jax.Array,
    router: jax.Array,
    bias: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    *,
    top_k: int,
    routing: str = "softmax",
    groups: int = 1,
    top_groups: int = 1,
    scaling: float = 1.0,
    seed: int = 0,
    grouped_matmul: GroupedMatmul | None = None,
    weight_sum: WeightSum | None = None,
) -> dict[str, jax.Array]:
    """Every shard sees the tokens of its ring of experts, answers for its own experts, and the answers are added up.

    Equivalent to `dense`, whose docstring has the routings and what is rounded when. The weighted answers of the shards
    are added up in at least float32 and rounded once; their gradient to `x` is added up in the dtype of `x`.

    Args:
        x: `[batch, seq, embed]`; split over `data`, `fsdp`, `expert`, and over `context`; axes may be missing.
        router: `[embed, experts]`.
        bias: float32 `[experts]`, for the choice in `sigmoid` and `group_limited`.
        w_gate, w_up: `[experts, embed, hidden]`; split over `expert`, and the last dimension over `tensor`.
        w_down: `[experts, hidden, embed]`; split over `expert` and `tensor`.
        top_k, routing, groups, top_groups, scaling, seed: how tokens are routed.
        grouped_matmul: `(rows [n, D], kernels [experts here, D, F], sizes int32 [experts here]) -> [n, F]`, rows beyond
            the sum of the sizes 0 or not looked at; None is `jax.lax.ragged_dot`.
        weight_sum: `(rows [tokens, top_k, D], weights [tokens, top_k]) -> [tokens, D]`, with rows of 0 for experts of
            other shards; None is a sum in at least float32.

    Returns:
        {"out": `[batch, seq, embed]`, dtype of `x`, split as `x` is; "balance_loss": a number, at least float32}.

    Raises:
        ValueError: an unknown routing, sizes that do not fit or are not divided by the mesh, or more chosen than there
            are.

    Source: MaxText pull request 4170, "ring of experts".
    """
    statics = Statics(router.shape[-1], top_k, routing, groups, top_groups, scaling, grouped_matmul, weight_sum)
    return _on_shards(_ring, statics, seed, x, router, bias, w_gate, w_up, w_down)


# One shard's part.


def _sparse(statics: Statics, tokens: jax.Array, ids: jax.Array, weights: jax.Array, *kernels: jax.Array) -> jax.Array:
    sizes = _sizes(ids, statics)
    order = _order(ids.reshape(-1))
    rows, counts = _sorted(tokens, order, sizes.rows), _count(ids, statics.experts)
    if sizes.shards == 1:
        returned = _experts(rows, counts, *kernels, matmul=statics.grouped_matmul)
    else:
        counts, me = jax.lax.all_gather(counts, EXPERT), jax.lax.axis_index(EXPERT)
        way, owned = routes(counts, me, sizes), _mine(counts, me, sizes).sum(0)
        answers = _experts(_to_experts(rows, way, sizes), owned, *kernels, matmul=statics.grouped_matmul)
        returned = _to_tokens(answers, way, sizes)
    return _weighted(_restored(returned, order), weights, statics)


def _ring(statics: Statics, tokens: jax.Array, ids: jax.Array, weights: jax.Array, *kernels: jax.Array) -> jax.Array:
    sizes = _sizes(ids, statics)
    tokens, ids, weights = (_gathered(array).reshape(-1, array.shape[1]) for array in (tokens, ids, weights))
    local = ids.reshape(-1) - _me() * sizes.owned
    local = jnp.where((local >= 0) & (local < sizes.owned), local, sizes.owned)  # The others' choices sort last.
    order = _order(local)
    counts = _count(local, sizes.owned)
    held = _first(_sorted(tokens, order, sizes.buffer), counts.sum())
    answers = _experts(held, counts, *kernels, matmul=statics.grouped_matmul)
    out = _weighted(_restored(_first(answers, counts.sum()), order), weights, statics)
    return jax.lax.psum_scatter(out, EXPERT, scatter_dimension=0, tiled=True) if sizes.shards > 1 else out


def _experts(
    held: jax.Array,
    sizes: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    *,
    matmul: GroupedMatmul | None,
) -> jax.Array:
    """The answers of this shard's experts to rows that lie end to end, `sizes[e]` for expert `e`."""
    wide = jnp.promote_types(held.dtype, jnp.float32)
    product = matmul or partial(jax.lax.ragged_dot, preferred_element_type=wide)
    gate, up = (product(held, kernels.astype(held.dtype), sizes).astype(wide) for kernels in (w_gate, w_up))
    hidden = (jax.nn.silu(gate) * up).astype(held.dtype)
    answers = product(hidden, w_down.astype(held.dtype), sizes).astype(wide)
    # Each shard of `tensor` has a part of the hidden numbers, so its answers are summands.
    return _added(answers, (TENSOR,)).astype(held.dtype)


def _weighted(rows: jax.Array, weights: jax.Array, statics: Statics) -> jax.Array:
    """The weighted sum of each token's answers, in at least float32."""
    answers = rows.reshape(*weights.shape, rows.shape[1])
    if statics.weight_sum is not None:
        return statics.weight_sum(answers, weights).astype(weights.dtype)
    return jnp.sum(answers.astype(weights.dtype) * weights[..., None], axis=1)


# Routing.


def _route(statics: Statics, logits: jax.Array, bias: jax.Array, drawn: jax.Array | None) -> tuple[Any, Any]:
    """The experts of each token, and the weights of their answers, `[batch, seq, top_k]` each."""
    if statics.routing == "softmax":
        ids = jax.lax.top_k(jax.lax.stop_gradient(logits), statics.top_k)[1]
        return ids, jax.nn.softmax(_picked(logits, ids), axis=-1)
    if drawn is not None:
        return drawn, _picked(jax.nn.softmax(logits, axis=-1), drawn)
    scores = jax.nn.sigmoid(logits)
    biased = jax.lax.stop_gradient(scores) + bias
    if statics.routing == "group_limited":
        by_group = biased.reshape(*logits.shape[:2], statics.groups, -1)
        best = jax.lax.top_k(by_group, 2)[0].sum(-1)
        chosen = jax.lax.top_k(best, statics.top_groups)[1]
        eligible = (chosen[..., None] == jnp.arange(statics.groups)).any(-2)
        biased = jnp.where(eligible[..., None], by_group, -jnp.inf).reshape(logits.shape)
    ids = jax.lax.top_k(biased, statics.top_k)[1]
    values = _picked(scores, ids)
    return ids, values / (values.sum(-1, keepdims=True) + 1e-20) * statics.scaling


def _picked(scores: jax.Array, ids: jax.Array) -> jax.Array:
    """`take_along_axis(scores, ids, -1)`, whose gradient is a sum over choices instead of a scatter."""
    chosen = ids[..., None] == jnp.arange(scores.shape[-1])
    return jnp.where(chosen, scores[..., None, :], 0).sum(-1)


def _balance(statics: Statics, logits: jax.Array, ids: jax.Array, tokens: int, sequences: int) -> jax.Array:
    """The balance loss of the whole batch; a sequence may be split over `context`, so its sums are made whole first."""
    asked = (ids[..., None] == jnp.arange(statics.experts)).sum((1, 2)).astype(logits.dtype)
    likely = jax.nn.softmax(logits, axis=-1).sum(1)
    asked, likely = _added((asked, likely), (CONTEXT,))
    total = _added(jnp.sum(asked * likely), BATCH)
    return total * (statics.experts / (statics.top_k * sequences * tokens**2))


# Rows and their order.


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _sorted(tokens: jax.Array, order: jax.Array, rows: int) -> jax.Array:
    """The first rows of `repeat(tokens, top_k)[order]`, of which there is one for each choice."""
    return _take(tokens, order[:rows] // (order.size // tokens.shape[0]))


def _sorted_backward(rows: int, saved: tuple[jax.Array, jax.Array], cotangent: jax.Array) -> tuple[jax.Array, None]:
    order, tokens = saved
    wide = jnp.promote_types(cotangent.dtype, jnp.float32)
    copies = _restored(cotangent, order).reshape(tokens.shape[0], -1, cotangent.shape[1])
    return jnp.sum(copies.astype(wide), axis=1).astype(cotangent.dtype), None


# Of the saved tokens only their number is used, and the compiler drops the rest.
_sorted.defvjp(lambda tokens, order, rows: (_sorted(tokens, order, rows), (order, tokens)), _sorted_backward)


@jax.custom_vjp
def _restored(rows: jax.Array, order: jax.Array) -> jax.Array:
    """The inverse of `[order][:n]`: row `i` goes to place `order[i]`, and places beyond the last row are 0."""
    rows = jnp.pad(rows, ((0, order.size - rows.shape[0]), (0, 0)))
    return _take(rows, _order(order))


_restored.defvjp(
    lambda rows, order: (_restored(rows, order), (order, rows)),
    lambda saved, cotangent: (_take(cotangent, saved[0][: saved[1].shape[0]]), None),
)


def _order(ids: jax.Array) -> jax.Array:
    """The stable argsort; of a permutation, its inverse.

    Not `jnp.argsort`: in a `shard_map` its order is typed as the same on all shards even where `ids` differs between
    them (jax 0.10.2 and 0.12.0.1), and a gradient through it is summed over shards before its rows are in place.
    """
    return jax.lax.sort((ids, jnp.arange(ids.size)), num_keys=1, is_stable=True)[1]


def _take(rows: jax.Array, index: jax.Array) -> jax.Array:
    """`rows[index]`, for indices that are known to be in range."""
    return rows.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _first(rows: jax.Array, count: jax.Array) -> jax.Array:
    """The first `count` rows, the others 0."""
    return jnp.where((jnp.arange(rows.shape[0]) < count)[:, None], rows, 0)


def _count(ids: jax.Array, length: int) -> jax.Array:
    return (ids.reshape(-1, 1) == jnp.arange(length)).sum(0, dtype=jnp.int32)


# To the experts and back. `counts[i, e]` is how many rows shard i has for expert e, `table[i, j]` for shard j. Every
# row has one place on either side, so each way is the other's transpose, and a gradient travels as the values do.


def routes(counts: jax.Array, me: jax.Array, sizes: Sizes) -> Routes:
    """How the rows of shard `me` go to the experts and back, from what all shards have for each expert.

    Rows arrive by (source, expert); `order` puts them by (expert, source), and what did not arrive last.
    """
    table = counts.reshape(sizes.shards, sizes.shards, -1).sum(2)
    sent, got, first, place = _row(table, me), _row(table.T, me), _before(table), _before(table.T)
    there = Exchange(_before(sent), sent, _row(first, me), got)
    back = Exchange(_before(got), got, _row(place, me), sent)
    ends = jax.lax.cumsum(_mine(counts, me, sizes).reshape(-1))
    segment = (jnp.arange(sizes.buffer)[:, None] >= ends).sum(1)
    order = _order(jnp.where(segment < ends.size, segment % sizes.owned, sizes.owned))
    ways = _way(there, me, sizes.buffer, sizes.rows), _way(back, me, sizes.rows, sizes.buffer)
    return Routes(*ways, order, _order(order), got.sum())


def _way(plan: Exchange, me: jax.Array, rows: int, sent: int) -> Way:
    """The plan, and its meaning for a backend without the operation; the compiler drops that where it is not used."""
    tables = jax.lax.all_gather(jnp.stack(plan[:3]), EXPERT)
    starts, lengths, places = _row(tables.transpose(2, 1, 0), me)
    return Way(plan, *segments(starts, lengths, places, plan.recv_sizes, rows, sent))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _to_experts(rows: jax.Array, way: Routes, sizes: Sizes) -> jax.Array:
    """Rows by expert to the shards that own them, there by (expert, source); the rest of the buffer is 0."""
    return _first(_take(_exchange(rows, sizes.buffer, way.there), way.order), way.arrived)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _to_tokens(held: jax.Array, way: Routes, sizes: Sizes) -> jax.Array:
    """The way back: segments are cut out of what arrived, and written where they were cut out of the sorted rows."""
    return _exchange(_take(held, way.inverse), sizes.rows, way.back)


_to_experts.defvjp(
    lambda rows, way, sizes: (_to_experts(rows, way, sizes), way),
    lambda sizes, way, cotangent: (_to_tokens(cotangent, way, sizes), None),
)
_to_tokens.defvjp(
    lambda held, way, sizes: (_to_tokens(held, way, sizes), way),
    lambda sizes, way, cotangent: (_to_experts(cotangent, way, sizes), None),
)


def _before(counts: jax.Array) -> jax.Array:
    """How many come before each, along the first dimension: `_before([3, 1, 2]) == [0, 3, 4]`."""
    return jax.lax.cumsum(counts) - counts


def _row(table: jax.Array, number: jax.Array) -> jax.Array:
    row: jax.Array = jax.lax.dynamic_index_in_dim(table, number, keepdims=False, allow_negative_indices=False)
    return row


def _mine(counts: jax.Array, me: jax.Array, sizes: Sizes) -> jax.Array:
    """`[shards, owned]`: how many rows of each shard arrive for each expert of mine."""
    return _row(counts.reshape(sizes.shards, sizes.shards, -1).swapaxes(0, 1), me)


def _exchange(operand: jax.Array, rows: int, way: Way) -> jax.Array:
    """Send segments of `operand` as the plan says; rows of the result that nobody writes are NaN."""
    poison = _like(jnp.full((rows, operand.shape[1]), jnp.nan, operand.dtype), way.written[:1])

    def emulated(operand: jax.Array, poison: jax.Array, way: Way) -> jax.Array:
        with jax.named_scope("emulated_ragged_all_to_all"):
            return jnp.where(way.written, _take(jax.lax.all_gather(operand, EXPERT, tiled=True), way.source), poison)

    def real(operand: jax.Array, poison: jax.Array, way: Way) -> jax.Array:
        return jax.lax.ragged_all_to_all(operand, poison, *way.plan, axis_name=EXPERT)

    arguments = (operand, poison, way)
    if (has := _has_operation()) is not None:
        return real(*arguments) if has else emulated(*arguments)
    return jax.lax.platform_dependent(*arguments, cpu=emulated, default=real)


def _has_operation() -> bool | None:
    """Whether the devices have a ragged all-to-all; None leaves it to the compiler, which is right on all of them.

    `jax.vmap(spmd_axis_name="stage")` types the branches of a conditional as the same on all stages (jax 0.10.2), so
    that on a mesh with stages the devices of the mesh are asked now.
    """
    mesh = jax.sharding.get_abstract_mesh()
    devices = getattr(mesh, "abstract_device", None)
    return devices.platform != "cpu" if "stage" in mesh.axis_names and devices is not None else None


def segments(
    starts: jax.Array, lengths: jax.Array, places: jax.Array, expected: jax.Array, rows: int, sent: int
) -> tuple[jax.Array, jax.Array]:
    """What one shard receives of a ragged all-to-all; what its documentation leaves undefined is not written.

    Equivalent to `for i in range(shards): output[places[i]:][:lengths[i]] = sent[i, starts[i]:][:lengths[i]]`.

    Args:
        starts, lengths, places: [shards], each sender's segment for this shard, and where it goes here.
        expected: [shards], how many rows this shard believes it gets; a segment of another length is not written.
        rows: of the destination.
        sent: rows of each sender's operand.

    Returns:
        [rows] the row of all operands end to end that each row comes from, and [rows, 1] whether exactly one does.
    """
    row = jnp.arange(rows)[:, None]
    valid = (lengths == expected) & (starts >= 0) & (starts + lengths <= sent)
    covers = valid & (places <= row) & (row < places + lengths)
    index = jnp.where(covers, row - places + starts + sent * jnp.arange(starts.size), 0).sum(1)
    once = covers.sum(1, keepdims=True) == 1
    return jnp.where(once[:, 0], index, 0), once


def _like(constant: jax.Array, mapped: jax.Array) -> jax.Array:
    """A constant that varies over shards, and is mapped by `jax.vmap`, where another array does and is.

    `lax.ragged_dot` and `lax.ragged_all_to_all` want all of their operands mapped, or none. The compiler drops this.
    """
    return jnp.where(mapped == 0, constant, constant)


# The mesh.


def _known(axes: tuple[str, ...]) -> tuple[str, ...]:
    names = jax.sharding.get_abstract_mesh().axis_names
    return tuple(axis for axis in axes if axis in names)


def _sizes(ids: jax.Array, statics: Statics) -> Sizes:
    shards = jax.sharding.get_abstract_mesh().shape.get(EXPERT, 1)
    owned = statics.experts // shards
    # Only an expert drawn twice can make a token send more rows to a shard than that has experts.
    most = statics.top_k if statics.routing == "random" else min(statics.top_k, owned)
    return Sizes(ids.size, shards * ids.shape[0] * most, owned, shards)


def _me() -> jax.Array | int:
    return jax.lax.axis_index(EXPERT) if _known((EXPERT,)) else 0


def _gathered(x: jax.Array) -> jax.Array:
    return jax.lax.all_gather(x, EXPERT) if _known((EXPERT,)) else x[None]


def _added(x: Any, axes: tuple[str, ...]) -> Any:
    return jax.lax.psum(x, _known(axes)) if _known(axes) else x


def _on_shards(
    answer: Callable[..., jax.Array], statics: Statics, seed: int, x: jax.Array, *weights: jax.Array
) -> dict[str, jax.Array]:
    """Route every token where it is, and let `answer` bring it to its experts and back."""
    mesh = jax.sharding.get_abstract_mesh()
    _check(statics, x, *weights)
    _check_mesh(mesh, x, weights[2])
    batch, seq, _ = x.shape
    wide = jnp.promote_types(x.dtype, jnp.float32)
    drawn = None
    if statics.routing == "random":
        # Drawn for the whole batch: what a token gets must not depend on how the batch is split.
        numbers = np.random.default_rng(seed).integers(0, statics.experts, (batch, seq, statics.top_k), np.int32)
        drawn = _like(jnp.asarray(numbers), x[..., :1])

    def shard(x: jax.Array, drawn: Any, router: jax.Array, bias: jax.Array, *kernels: jax.Array) -> Any:
        # Experts that are almost as good must not change places on hardware that rounds factors to bfloat16.
        logits = jnp.einsum("bsd,de->bse", x.astype(wide), router.astype(wide), precision="highest")
        ids, share = _route(statics, logits, bias, drawn)
        flat = (array.reshape(-1, array.shape[2]) for array in (x, ids, share))
        out = answer(statics, *flat, *kernels).astype(x.dtype).reshape(x.shape)
        return {"out": out, "balance_loss": _balance(statics, logits, ids, seq, batch)}

    if mesh.empty:
        return shard(x, drawn, *weights)
    tokens = PartitionSpec(_known(BATCH), _known((CONTEXT,)))
    expert, tensor = _known((EXPERT,)), _known((TENSOR,))
    up, whole = PartitionSpec(expert, None, tensor), PartitionSpec()
    arguments: tuple[Any, ...] = (x, drawn, *weights)
    specs = (tokens, tokens, whole, whole, up, up, PartitionSpec(expert, tensor))
    places = {"out": tokens, "balance_loss": whole}
    # `jax.vmap(spmd_axis_name="stage")` types some values of a region as the same on all stages and others as not (jax
    # 0.10.2), so that there the types cannot be checked.
    placed: Any = jax.shard_map(shard, in_specs=specs, out_specs=places, check_vma="stage" not in mesh.axis_names)
    if AxisType.Explicit in mesh.axis_types:
        # An axis that `jax.vmap` takes away would stay explicit in there, and `jax.lax.ragged_dot` knows none.
        placed = jax.sharding.auto_axes(placed, out_sharding=places)
    found: dict[str, jax.Array] = placed(*arguments)
    return found


def _check(
    statics: Statics,
    x: jax.Array,
    router: jax.Array,
    bias: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
) -> None:
    experts, top_k, routing, groups, top_groups = statics[:5]
    if routing not in ROUTINGS:
        raise ValueError(f"routing is {routing!r}; expected one of {', '.join(ROUTINGS)}")
    if x.ndim != 3 or router.ndim != 2 or router.shape[0] != x.shape[2] or bias.shape != router.shape[1:]:
        raise ValueError(
            f"x, router and bias have shapes {x.shape}, {router.shape} and {bias.shape}; expected [batch, seq, embed], "
            "[embed, experts], [experts]"
        )
    up, down = (experts, x.shape[2], w_gate.shape[-1]), (experts, w_gate.shape[-1], x.shape[2])
    if not (w_gate.shape == w_up.shape == up and w_down.shape == down):
        raise ValueError(
            f"w_gate, w_up and w_down have shapes {w_gate.shape}, {w_up.shape} and {w_down.shape}; expected {up}, "
            f"{up}, {down}"
        )
    room = experts
    if routing == "group_limited":
        if groups < 1 or experts % groups or experts // groups < 2:
            raise ValueError(f"groups is {groups}; expected a divisor of {experts} experts that leaves two to a group")
        if not 1 <= top_groups <= groups:
            raise ValueError(f"top_groups is {top_groups}; expected 1 to {groups}")
        room = experts // groups * top_groups
    if top_k < 1 or (top_k > room and routing != "random"):
        raise ValueError(f"top_k is {top_k}; expected 1 to {room}, the experts that a token may choose from")


def _check_mesh(mesh: Any, x: jax.Array, kernels: jax.Array) -> None:
    parts = (("batch", x.shape[0], BATCH), ("seq", x.shape[1], (CONTEXT,)), ("experts", kernels.shape[0], (EXPERT,)))
    for name, size, axes in (*parts, ("hidden", kernels.shape[2], (TENSOR,))):
        shards = 1
        for axis in axes:
            shards *= mesh.shape.get(axis, 1)
        if size % shards:
            raise ValueError(f"{name} is {size}; expected a multiple of {shards}, the shards over {', '.join(axes)}")
