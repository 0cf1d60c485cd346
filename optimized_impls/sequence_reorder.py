"""The load-balancing reorder of context parallelism without a gather: whole chunks are moved.

`structured` leaves the moves to the compiler, as splits, a reversal and a stack. `permute` spells out the exchange
between devices, and sends every byte once.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

AXIS = "context"
"""The mesh axis over which the sequence is split."""

Table = list[tuple[int, int]]
"""`(source rank, destination rank)` of every message."""


def structured(x: jax.Array, *, cp: int, axis: int, to_contiguous: bool) -> jax.Array:
    """Put the chunks of a sequence into load-balanced order, or back, by splitting, reversing and stacking.

    Equivalent to `jnp.stack([early, late[::-1]], axis=1)` of the two halves of the chunks: rank `r` gets chunk `r`
    of the early half and the `r`-th chunk from the end of the late half. The way back undoes these steps in turn.

    Args:
        x: any shape and dtype; its `axis` is the sequence, in tokens.
        cp: number of context-parallel ranks; odd ones too.
        axis: which dimension is the sequence; negative counts from the end.
        to_contiguous: False goes from the order of the text to the balanced one, True goes back.

    Returns:
        The shape and dtype of `x`; its sharding where that is part of the type, else what the compiler chooses.

    Raises:
        ValueError: `cp` is below 1, `axis` is out of range, or the sequence is not divisible by `2 * cp`.

    Source: MaxText, pull request 4275 (a gather that becomes loops on TPU, replaced by layout operations).
    """
    axis = _checked_axis(x, cp, axis)
    before, after = x.shape[:axis], (x.shape[axis] // (2 * cp), *x.shape[axis + 1 :])

    def balance(x: jax.Array) -> jax.Array:
        early, late = jnp.split(x.reshape(*before, 2 * cp, *after), 2, axis=axis)
        return jnp.stack([early, lax.rev(late, (axis,))], axis=axis + 1).reshape(x.shape)

    def undo(x: jax.Array) -> jax.Array:
        # Splitting the dimension of two, not slicing every other chunk: the transpose of a split is a concatenation,
        # while that of a strided slice adds zeros, which costs a pass and the sign of -0.0.
        early, late = jnp.split(x.reshape(*before, cp, 2, *after), 2, axis=axis + 1)
        return jnp.concatenate([early, lax.rev(late, (axis,))], axis=axis).reshape(x.shape)

    # Slices and reversals along a split dimension have no sharding rule: where the sharding is part of the type,
    # leave these steps to the compiler.
    return jax.sharding.auto_axes(undo if to_contiguous else balance, out_sharding=jax.typeof(x).sharding)(x)


def permute(x: jax.Array, *, cp: int, axis: int, to_contiguous: bool) -> jax.Array:
    """Put the chunks of a sequence into load-balanced order, or back, by two permutations of half shards.

    Equivalent to `structured`. In either order a rank holds one even and one odd chunk, and the even chunks go to
    all ranks, each to one, and so do the odd ones: two `ppermute`s move every byte once, which no exchange
    undercuts. What is left is local: which of the two chunks lies first.

    Args:
        x: any shape and dtype; its `axis` is the sequence, in tokens, split over the mesh axis `context`.
        cp: number of context-parallel ranks: the size of `context`. Without a mesh any number, played on one device.
        axis: which dimension is the sequence; negative counts from the end.
        to_contiguous: False goes from the order of the text to the balanced one, True goes back.

    Returns:
        The shape, the dtype and the sharding of `x`.

    Raises:
        ValueError: `cp` is below 1 or not the size of `context`, `axis` is out of range, or the sequence is not
            divisible by `2 * cp`.
    """
    axis = _checked_axis(x, cp, axis)
    mesh = jax.sharding.get_abstract_mesh()
    if not mesh.empty and mesh.shape.get(AXIS, 1) != cp:
        raise ValueError(f"cp is {cp} and the mesh axis '{AXIS}' has size {mesh.shape.get(AXIS, 1)}; expected the same")
    return _exchange(cp, axis, to_contiguous, x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _exchange(cp: int, axis: int, to_contiguous: bool, x: jax.Array) -> jax.Array:
    """The exchange on every rank: under `shard_map` where the mesh has the axis, else on `cp` parts of the array."""
    if cp == 1:
        return x
    on_rank = functools.partial(_exchange_on_rank, cp, axis, to_contiguous)
    if AXIS in jax.sharding.get_abstract_mesh().shape:
        split = PartitionSpec(*(None,) * axis, AXIS)
        on_mesh = jax.shard_map(on_rank, in_specs=split, out_specs=split, axis_names={AXIS})
        # The other mesh axes have no part in this; leaving them to the compiler keeps the body free of their types.
        return jax.sharding.auto_axes(on_mesh, out_sharding=jax.typeof(x).sharding)(x)
    ranks = x.reshape(*x.shape[:axis], cp, x.shape[axis] // cp, *x.shape[axis + 1 :])
    return jax.vmap(on_rank, in_axes=axis, out_axes=axis, axis_name=AXIS)(ranks).reshape(x.shape)


def _exchange_forward(cp: int, axis: int, to_contiguous: bool, x: jax.Array) -> tuple[jax.Array, None]:
    return _exchange(cp, axis, to_contiguous, x), None


def _exchange_backward(cp: int, axis: int, to_contiguous: bool, _: None, cotangent: jax.Array) -> tuple[jax.Array]:
    # The transpose of a permutation is its inverse. Left to itself, the transpose of the selections below would
    # add zeros: two more passes over the shard, and -0.0 would come back as 0.0.
    return (_exchange(cp, axis, not to_contiguous, cotangent),)


_exchange.defvjp(_exchange_forward, _exchange_backward)


def _exchange_on_rank(cp: int, axis: int, to_contiguous: bool, shard: jax.Array) -> jax.Array:
    """What one rank sends, receives and puts together; `shard` is its part of the sequence."""
    even_moves, odd_moves = _moves(cp)
    # Balanced, rank r holds chunks r and 2 * cp - 1 - r, one of each parity: the even one lies first where r is even.
    even_first = lax.axis_index(AXIS) % 2 == 0
    first, second = jnp.split(shard, 2, axis=axis)
    if to_contiguous:
        even_moves, odd_moves = _reversed(even_moves), _reversed(odd_moves)
        first, second = jnp.where(even_first, first, second), jnp.where(even_first, second, first)
    even, odd = lax.ppermute(first, AXIS, even_moves), lax.ppermute(second, AXIS, odd_moves)
    lower = lax.broadcasted_iota(jnp.int32, shard.shape, axis) < first.shape[axis]
    takes_even = lower if to_contiguous else lower == even_first
    # One selection over the whole shard: of the forms that keep both messages in flight, the least temporary memory
    # and the fewest bytes from the compilers for TPU v5p and v7x. Two selected halves put together cost half as many
    # bytes again.
    return jnp.where(takes_even, jnp.concatenate([even, even], axis), jnp.concatenate([odd, odd], axis))


def _moves(cp: int) -> tuple[Table, Table]:
    """Where the even and the odd chunks go when a sequence is balanced: chunk `c` lies on rank `c // 2`."""

    def destination(chunk: int) -> int:
        return min(chunk, 2 * cp - 1 - chunk)

    return [(r, destination(2 * r)) for r in range(cp)], [(r, destination(2 * r + 1)) for r in range(cp)]


def _reversed(moves: Table) -> Table:
    return [(destination, source) for source, destination in moves]


def _checked_axis(x: jax.Array, cp: int, axis: int) -> int:
    """The axis counted from the front, after the checks that all forms share."""
    if cp < 1:
        raise ValueError(f"cp is {cp}; expected at least 1")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis}; expected {-x.ndim} to {x.ndim - 1}, a dimension of x")
    if x.shape[axis] % (2 * cp):
        raise ValueError(f"the sequence has {x.shape[axis]} tokens; expected a multiple of 2 * cp = {2 * cp}")
    return axis % x.ndim
