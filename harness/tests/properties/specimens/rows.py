"""Rows of a batch that must not read each other, and padded places that nothing valid may read."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tests.properties.specimens.attention import project, scores, weigh
from tests.properties.specimens.specimen import LENGTH, MASK, WIDTH, Specimen, X, arrays, pair, twins

ALONE = arrays(x=X)
GATED = arrays(x=X, gate=X)
PROJECTED = arrays(x=X, w=(3, WIDTH, WIDTH))
ROUTED = arrays(x=X, router=(WIDTH, 3), experts=(3, WIDTH, WIDTH))
PADDED = arrays(x=X, mask=MASK)
LEFT = arrays(x=X, mask=MASK[:, ::-1])
rows = partial(pair, property="batch_rows")
padding = partial(pair, property="padding", mask="mask")


def recurrence(x: Array, gate: Array, *, batch_first: bool) -> Array:
    """A recurrence over the first axis, which is time only where the axes have been swapped."""

    def step(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        state = jnp.tanh(now[0] + jax.nn.sigmoid(now[1]) * state)
        return state, state

    xs = (x, gate) if batch_first else (jnp.swapaxes(x, 0, 1), jnp.swapaxes(gate, 0, 1))
    out = lax.scan(step, jnp.zeros_like(xs[0][0]), xs)[1]
    return out if batch_first else jnp.swapaxes(out, 0, 1)


def batch_norm(x: Array, mean: Array, variance: Array, *, training: bool) -> Array:
    """The statistics of the batch, or those that training has left."""
    if training:
        mean, variance = x.mean((0, 1)), x.var((0, 1))
    return (x - mean) * lax.rsqrt(jnp.abs(variance) + 1e-6)


def synchronised(x: Array, *, axes: tuple[str, ...]) -> Array:
    """A norm over the sequence whose statistics are those of all rows, where the rows' axis is among the names."""

    def of_row(row: Array) -> Array:
        mean, square = row.mean(0), (row * row).mean(0)
        for axis in axes:
            mean, square = lax.pmean(mean, axis), lax.pmean(square, axis)
        return (row - mean) * lax.rsqrt(jnp.maximum(square - mean * mean, 0.0) + 1e-3)

    out: Array = jax.vmap(of_row, axis_name="data")(x)
    return out


def capacity(x: Array, router: Array, experts: Array, *, per_row: bool) -> Array:
    """Experts with places for a number of tokens, which come first served: of a row, or of the flattened batch."""
    slots = 3 if per_row else 6

    def route(tokens: Array) -> Array:
        p = jax.nn.softmax(tokens @ router)
        chosen = jax.nn.one_hot(jnp.argmax(p, axis=-1), 3)
        place = jnp.cumsum(chosen, axis=0) * chosen
        gates = jnp.where(place <= slots, p * chosen, 0.0)
        return jnp.einsum("se,sed->sd", gates, jnp.einsum("sd,edf->sef", tokens, experts))

    return jax.vmap(route)(x) if per_row else route(x.reshape(-1, WIDTH)).reshape(x.shape)


def balanced(x: Array, router: Array, experts: Array, *, batch: bool) -> Array:
    """Experts chosen by logits from which the load of the moment is taken: of the token alone, or of the batch."""
    logits = x @ router
    p = jax.nn.softmax(logits)
    load = jnp.mean(p, axis=(0, 1)) if batch else jax.nn.softmax(jnp.zeros(3))
    gates = jax.nn.softmax(logits - load)
    return jnp.einsum("bse,bsed->bsd", gates, jnp.einsum("bsd,edf->bsef", x, experts))


def layer_norm(x: Array, *, axis: int) -> Array:
    """Over channels, or over the rows."""
    return jax.nn.standardize(x, axis=axis, epsilon=1e-3)


def quantised(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Eight bits with a scale of the moment."""
    scale = jnp.max(jnp.abs(x), axis=axes, keepdims=True) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127) * scale


def time_first(x: Array, w: Array, *, reshape: bool) -> Array:
    """Swaps batch and length for a layer that wants time first; a reshape does not swap."""
    y = x.reshape(LENGTH, 2, WIDTH) if reshape else jnp.swapaxes(x, 0, 1)
    return jnp.swapaxes(jnp.cumsum(y @ w[0], axis=0), 0, 1)


def attention_of_rows(x: Array, w: Array, *, axis: int) -> Array:
    """Attention of one sequence, mapped over the axis that should be the batch."""

    def attend(row: Array) -> Array:
        q, k, v = jnp.einsum("sd,nde->nse", row, w)
        return jax.nn.softmax(q @ k.T) @ v

    out: Array = jax.vmap(attend, in_axes=axis, out_axes=axis)(x)
    return out


def picked(x: Array, index: Array, *, row: bool) -> Array:
    """Takes positions of each row; without an index of the row they are those of the first one."""
    return x[jnp.arange(2)[:, None], index] if row else x[0, index]


def paged(x: Array, w: Array, pages: Array, *, write_first: bool) -> Array:
    """Keys in pages that the rows share: a page that is read before it is written holds another row's keys."""
    q, k, _ = project(x, w)
    pool = jnp.zeros((6, 4, WIDTH)).at[jnp.flip(pages, 0)].set(k.reshape(2, 3, 4, WIDTH))
    written = pool.at[pages].set(k.reshape(2, 3, 4, WIDTH))
    keys = (written if write_first else pool)[pages].reshape(k.shape)
    return weigh(scores(q, keys), keys)


def contrastive(x: Array, *, batch: bool) -> Array:
    """The mean of each row, normalised, and compared: with the others, or with its own halves."""
    mean = jax.nn.standardize(x.mean(1))
    first = jax.nn.standardize(x[:, : LENGTH // 2].mean(1))
    return jax.nn.log_softmax(mean @ mean.T) if batch else mean * first


def mean_pooling(x: Array, mask: Array, *, masked: bool) -> Array:
    """The mean of a sequence."""
    return jnp.where(mask[..., None], x, 0.0).sum(1) / mask.sum(1, keepdims=True) if masked else x.mean(1)


def max_pooling(x: Array, mask: Array, *, low: float | None) -> Array:
    """The maximum of a sequence, of which padded places are lowered."""
    return jnp.max(x if low is None else jnp.where(mask[..., None], x, low), axis=1)


def last_token(x: Array, mask: Array, *, offset: int) -> Array:
    """The last valid token, by its index."""
    index = mask.sum(1) - 1 + offset
    return jnp.take_along_axis(x, index[:, None, None], axis=1)[:, 0]


def both_directions(x: Array, w: Array, mask: Array, *, keys: bool) -> Array:
    """Attention of an encoder: the mask is that of keys, and not of queries."""
    q, k, v = project(x, w)
    allowed = mask[:, None, :] if keys else mask[:, :, None]
    return weigh(jnp.where(allowed, scores(q, k), jnp.finfo(x.dtype).min), v)


def instance_norm(x: Array, mask: Array, *, masked: bool) -> Array:
    """Statistics over the length, of valid places or of all."""
    where = mask[..., None] if masked else None
    mean = jnp.mean(x, axis=1, keepdims=True, where=where)
    variance = jnp.mean((x - mean) ** 2, axis=1, keepdims=True, where=where)
    return (x - mean) * lax.rsqrt(variance + 1e-6)


def backward_state(x: Array, mask: Array, *, held: bool) -> Array:
    """A recurrence from the end, which goes through the padded places first."""

    def step(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        new = jnp.tanh(now[0] + state / 2)
        state = jnp.where(now[1][:, None], new, state) if held else new
        return state, state

    xs = jnp.swapaxes(x, 0, 1), mask.T
    return jnp.swapaxes(lax.scan(step, jnp.zeros_like(x[:, 0]), xs, reverse=True)[1], 0, 1)


def left_padded(x: Array, kernel: Array, mask: Array, *, zero: bool) -> Array:
    """A causal convolution whose first valid taps are on the padding of the left."""
    y = jnp.where(mask[..., None], x, 0.0) if zero else x
    late = jnp.pad(y, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    return y * kernel[0] + late * kernel[1]


def normed(x: Array, mask: Array, *, inner: bool) -> Array:
    """Unit vectors; where a padded one is zero, the gradient of the root is not finite, and `where` comes too late."""
    squares = jnp.sum(x * x, axis=-1, keepdims=True)
    valid = mask[..., None]
    norm = jnp.sqrt(jnp.where(valid, squares, 1.0) if inner else squares)
    return jnp.where(valid, x / norm, 0.0)


def padded_capacity(x: Array, router: Array, mask: Array, *, masked: bool) -> Array:
    """Places of experts are given to valid tokens, or to padded ones of the left too."""
    p = jax.nn.softmax(x @ router)
    chosen = jax.nn.one_hot(jnp.argmax(p, axis=-1), 3)
    chosen = jnp.where(mask[..., None], chosen, 0.0) if masked else chosen
    place = jnp.cumsum(chosen, axis=1)
    return jnp.where(place <= 2, p * chosen, 0.0)


def zeros_where_padded() -> dict[str, np.ndarray[Any, Any]]:
    """What a loader gives: zeros in padded places."""
    made = PADDED()
    return {"x": np.where(MASK[..., None], made["x"], np.float32(0)), "mask": MASK}


PAGES = np.array([[0, 1, 2], [2, 3, 4]], np.int32)

ROWS: tuple[Specimen, ...] = (
    *rows("recurrence_axis", twins(recurrence, batch_first=(True, False)), arguments=GATED, on=("x", "gate")),
    *rows(
        "batch_norm", twins(batch_norm, training=(True, False)), arguments=arrays(x=X, mean=(WIDTH,), variance=(WIDTH,))
    ),
    *rows("synchronised_norm", twins(synchronised, axes=(("data",), ())), arguments=ALONE),
    *rows("capacity", twins(capacity, per_row=(False, True)), arguments=ROUTED),
    *rows("router_balance", twins(balanced, batch=(True, False)), arguments=ROUTED, gradient=True),
    *rows("layer_norm_rows", twins(layer_norm, axis=(0, -1)), arguments=ALONE),
    *rows("scale_of_batch", twins(quantised, axes=((0, 1, 2), (1, 2))), arguments=ALONE),
    *rows("reshape_for_swap", twins(time_first, reshape=(True, False)), arguments=PROJECTED),
    *rows("mapped_axis", twins(attention_of_rows, axis=(1, 0)), arguments=PROJECTED),
    *rows(
        "gather_of_first_row",
        twins(picked, row=(False, True)),
        arguments=arrays(x=X, index=np.array([[3, 1, 5], [2, 2, 11]], np.int32)),
    ),
    *rows(
        "shared_page",
        twins(paged, write_first=(False, True)),
        arguments=arrays(x=X, w=(3, WIDTH, WIDTH), pages=np.array([[0, 1, 2], [3, 4, 5]], np.int32)),
    ),
    *rows("compared_rows", twins(contrastive, batch=(True, False)), arguments=ALONE),
)

PADDING: tuple[Specimen, ...] = (
    *padding("mean_pooling", twins(mean_pooling, masked=(False, True)), arguments=PADDED),
    *padding("max_pooling", twins(max_pooling, low=(None, -jnp.inf)), arguments=PADDED),
    *padding("last_token", twins(last_token, offset=(1, 0)), arguments=PADDED),
    *padding(
        "mask_of_queries",
        twins(both_directions, keys=(False, True)),
        arguments=arrays(x=X, w=(3, WIDTH, WIDTH), mask=MASK),
    ),
    *padding("instance_norm", twins(instance_norm, masked=(False, True)), arguments=PADDED),
    *padding("backward_state", twins(backward_state, held=(False, True)), arguments=PADDED),
    *padding(
        "left_padding",
        twins(left_padded, zero=(False, True)),
        arguments=arrays(x=X, kernel=(2, WIDTH), mask=MASK[:, ::-1]),
    ),
    *padding("root_of_zero", twins(normed, inner=(False, True)), arguments=zeros_where_padded, gradient=True),
    *padding(
        "places_of_padding",
        twins(padded_capacity, masked=(False, True)),
        arguments=arrays(x=X, router=(WIDTH, 3), mask=MASK[:, ::-1]),
    ),
)
