"""Packed documents: what must not pass from one to the next in the same row."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from tests.properties.specimens.attention import project, scores, weigh
from tests.properties.specimens.specimen import (
    LENGTH,
    SEGMENTS,
    TOKENS,
    VOCABULARY,
    WIDTH,
    Specimen,
    X,
    arrays,
    pair,
    twins,
)

PROJECTED = arrays(x=X, w=(3, WIDTH, WIDTH), segment_ids=SEGMENTS)
GATED = arrays(x=X, gate=X, segment_ids=SEGMENTS)
ALONE = arrays(x=X, segment_ids=SEGMENTS)
packed = partial(pair, property="packed", segment_ids="segment_ids")


def same(segment_ids: Array) -> Array:
    """Which key is in the document of which query."""
    return segment_ids[:, :, None] == segment_ids[:, None, :]


def starts(segment_ids: Array) -> Array:
    """Which positions are the first of their document."""
    return jnp.pad(segment_ids[:, 1:] != segment_ids[:, :-1], ((0, 0), (1, 0)), constant_values=True)


def masked(x: Array, w: Array, segment_ids: Array) -> Array:
    """Attention in documents."""
    q, k, v = project(x, w)
    return weigh(jnp.where(same(segment_ids), scores(q, k), -1e30), v)


def from_start(x: Array, w: Array, segment_ids: Array, *, early: int) -> Array:
    """Causal attention from the first position of the query's document, found by a cumulative maximum."""
    q, k, v = project(x, w)
    places = jnp.arange(LENGTH)
    first = lax.cummax(jnp.where(starts(segment_ids), places, 0), axis=1)[..., None]
    mask = (places >= first - early) & (places <= places[:, None])
    return weigh(jnp.where(mask, scores(q, k), -jnp.inf), v)


def after_softmax(x: Array, w: Array, segment_ids: Array, *, renormalise: bool) -> Array:
    """The mask comes after the softmax: its sum is over all documents, and renormalised it is so in the rounding."""
    q, k, v = project(x, w)
    p = jnp.where(same(segment_ids), jax.nn.softmax(scores(q, k)), 0.0)
    return (p / p.sum(-1, keepdims=True) if renormalise else p) @ v


def narrow_ids(x: Array, w: Array, segment_ids: Array, *, dtype: jnp.dtype) -> Array:
    """Ids of documents, counted over the whole data set; bfloat16 has the same number for 256 and 257."""
    ids = (segment_ids + 256).astype(dtype)
    return masked(x, w, ids)


def one_hot_ids(x: Array, w: Array, segment_ids: Array, *, documents: int) -> Array:
    """A mask as a product of one-hot ids, of which the highest are clipped."""
    q, k, v = project(x, w)
    hot = jax.nn.one_hot(jnp.minimum(segment_ids, documents - 1), documents)
    return weigh(jnp.where(hot @ jnp.swapaxes(hot, 1, 2) > 0, scores(q, k), -jnp.inf), v)


def blocks_skipped(x: Array, w: Array, segment_ids: Array, *, element: bool) -> Array:
    """Blocks of keys without a document of the block of queries are skipped; a block may hold two documents."""
    q, k, v = project(x, w)
    ids = segment_ids.reshape(2, -1, 4)
    low, high = ids.min(-1), ids.max(-1)
    meet = (low[:, :, None] <= high[:, None, :]) & (low[:, None, :] <= high[:, :, None])
    mask = jnp.repeat(jnp.repeat(meet, 4, axis=1), 4, axis=2)
    return weigh(jnp.where(mask & same(segment_ids) if element else mask, scores(q, k), -jnp.inf), v)


def short_convolution(x: Array, kernel: Array, segment_ids: Array, *, taps: bool) -> Array:
    """A causal convolution of three taps; those in an earlier document are zero."""
    out = jnp.zeros_like(x)
    for lag in range(3):
        late = jnp.pad(x, ((0, 0), (lag, 0), (0, 0)))[:, :LENGTH]
        if taps:
            ids = jnp.pad(segment_ids, ((0, 0), (lag, 0)), constant_values=-1)[:, :LENGTH]
            late = jnp.where((ids == segment_ids)[..., None], late, 0.0)
        out += late * kernel[lag]
    return out


def state_space(x: Array, gate: Array, segment_ids: Array, *, reset: bool) -> Array:
    """A selective scan, whose decay is zero at the first token of a document."""
    decay = jnp.exp(-jax.nn.softplus(gate))
    if reset:
        decay = jnp.where(starts(segment_ids)[..., None], 0.0, decay)

    def step(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        a, value = now
        state = a[..., None] * state + value[..., :, None] * value[..., None, :]
        return state, jnp.einsum("bde,bd->be", state, value)

    xs = jnp.swapaxes(decay, 0, 1), jnp.swapaxes(x, 0, 1)
    return jnp.swapaxes(lax.scan(step, jnp.zeros((2, WIDTH, WIDTH)), xs)[1], 0, 1)


def parallel_state(x: Array, gate: Array, segment_ids: Array, *, reset: bool) -> Array:
    """The same for a diagonal state, by an associative scan of flags, decays and values."""
    Item = tuple[Array, Array, Array]

    def combine(left: Item, right: Item) -> Item:
        flag, a, b = right
        return left[0] | flag, jnp.where(flag, a, left[1] * a), jnp.where(flag, b, a * left[2] + b)

    flags = jnp.broadcast_to(starts(segment_ids)[..., None] & reset, x.shape)
    return lax.associative_scan(combine, (flags, jax.nn.sigmoid(gate), x), axis=1)[2]


def cumulative(x: Array, segment_ids: Array, *, how: str) -> Array:
    """A sum from the start of the document: of a masked matrix, in a scan, of the row, or a difference of such."""
    if how == "masked":
        mask = same(segment_ids) & jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        return jnp.where(mask[..., None], x[:, None], 0.0).sum(2)
    total = jnp.cumsum(x, axis=1)
    if how == "row":
        return total
    if how == "reset":
        xs = jnp.swapaxes(x, 0, 1), ~starts(segment_ids).T
        return jnp.swapaxes(lax.scan(lambda s, a: (a[0] + s * a[1][:, None],) * 2, x[:, 0] * 0, xs)[1], 0, 1)
    first = lax.cummax(jnp.where(starts(segment_ids), jnp.arange(LENGTH), 0), axis=1)[..., None]
    return total - jnp.where(first > 0, jnp.take_along_axis(total, first - 1, axis=1), 0.0)


def token_shift(x: Array, mix: Array, segment_ids: Array, *, first: bool) -> Array:
    """A mixture with the token before, which the first one of a document does not have."""
    late = jnp.roll(x, 1, axis=1).at[:, 0].set(0.0)
    return x + mix * (jnp.where(starts(segment_ids)[..., None], 0.0, late) if first else late)


def document_means(x: Array, segment_ids: Array, *, documents: int) -> Array:
    """Each token minus the mean of its document; the last ones share a slot where there are too few."""

    def of_row(row: Array, ids: Array) -> Array:
        ids = jnp.minimum(ids, documents - 1)
        total = jax.ops.segment_sum(row, ids, documents)
        count = jax.ops.segment_sum(jnp.ones(LENGTH), ids, documents)
        return row - (total / jnp.maximum(count, 1.0)[:, None])[ids]

    return jax.vmap(of_row)(x, segment_ids)


def next_token_loss(tokens: Array, table: Array, segment_ids: Array, *, last: bool) -> Array:
    """The loss of each position; the last one of a document has the start of the next one as its label."""
    labels = jnp.roll(tokens, -1, axis=1)
    logits = table[tokens] @ table.T
    losses = jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    ends = jnp.roll(starts(segment_ids), -1, axis=1).at[:, -1].set(True)
    return jnp.where(ends & last, 0.0, losses)


def _with_gradient(x: Array, w: Array, segment_ids: Array) -> Array:
    """Attention in each document by a kernel whose gradient forgets what the forward pass was masked by."""
    q, k, v = project(x, w)
    whole = jax.custom_vjp(lambda q, k, v: weigh(jnp.where(same(segment_ids), scores(q, k), -1e30), v))
    whole.defvjp(
        lambda q, k, v: (whole(q, k, v), (q, k, v)),
        lambda kept, given: jax.vjp(lambda q, k, v: weigh(scores(q, k), v), *kept)[1](given),
    )
    out: Array = whole(q, k, v)
    return out


PACKED: tuple[Specimen, ...] = (
    *packed("document_start", twins(from_start, early=(1, 0)), arguments=PROJECTED),
    *packed("mask_after_softmax", (partial(after_softmax, renormalise=False), masked), arguments=PROJECTED),
    *packed(
        "renormalised_mask",
        (partial(after_softmax, renormalise=True), partial(one_hot_ids, documents=3)),
        arguments=PROJECTED,
    ),
    *packed("narrow_ids", twins(narrow_ids, dtype=(jnp.bfloat16, jnp.int16)), arguments=PROJECTED),
    *packed("clipped_ids", twins(document_means, documents=(2, 3)), arguments=ALONE),
    *packed("skipped_blocks", twins(blocks_skipped, element=(False, True)), arguments=PROJECTED),
    *packed(
        "short_convolution",
        twins(short_convolution, taps=(False, True)),
        arguments=arrays(x=X, kernel=(3, WIDTH), segment_ids=SEGMENTS),
    ),
    *packed("state_without_reset", twins(state_space, reset=(False, True)), arguments=GATED, on=("x", "gate")),
    *packed(
        "parallel_state", twins(parallel_state, reset=(False, True)), arguments=GATED, on=("x", "gate"), gradient=True
    ),
    *packed("sum_of_row", twins(cumulative, how=("row", "masked")), arguments=ALONE),
    *packed("difference_of_sums", twins(cumulative, how=("difference", "reset")), arguments=ALONE),
    *packed(
        "token_shift_documents",
        twins(token_shift, first=(False, True)),
        arguments=arrays(x=X, mix=(WIDTH,), segment_ids=SEGMENTS),
    ),
    *packed(
        "last_label",
        twins(next_token_loss, last=(False, True)),
        arguments=arrays(tokens=TOKENS, table=(VOCABULARY, WIDTH), segment_ids=SEGMENTS),
        on=("tokens",),
    ),
    *packed("backward_of_documents", (_with_gradient, masked), arguments=PROJECTED, gradient=True),
)
