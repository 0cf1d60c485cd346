"""Recurrences, convolutions, statistics, routers and shifts that must be causal."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from tests.properties.specimens.specimen import LENGTH, TOKENS, VOCABULARY, WIDTH, X, arrays, pair, twins

CHUNK = 4
ALONE = arrays(x=X)
GATED = arrays(x=X, gate=X)
PROJECTED = arrays(x=X, w=(3, WIDTH, WIDTH))
ROUTED = arrays(x=X, router=(WIDTH, 3), experts=(3, WIDTH, WIDTH))
READ = arrays(tokens=TOKENS, table=(VOCABULARY, WIDTH))


def recurrence(x: Array, gate: Array, *, reverse: bool) -> Array:
    """A gated recurrence over time."""

    def step(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        value, a = now
        state = a * state + (1 - a) * jnp.tanh(value)
        return state, state

    xs = jnp.swapaxes(x, 0, 1), jnp.swapaxes(jax.nn.sigmoid(gate), 0, 1)
    return jnp.swapaxes(lax.scan(step, jnp.zeros_like(x[:, 0]), xs, reverse=reverse)[1], 0, 1)


def parallel_recurrence(x: Array, gate: Array, *, reverse: bool) -> Array:
    """The same by an associative scan."""

    def combine(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
        return left[0] * right[0], left[1] * right[0] + right[1]

    a = jax.nn.sigmoid(gate)
    return lax.associative_scan(combine, (a, (1 - a) * x), reverse=reverse, axis=1)[1]


def convolution(x: Array, kernel: Array, *, padding: tuple[int, int], dilation: int = 1) -> Array:
    """A depthwise convolution over time, padded at its start, and at its end where it reads ahead."""
    return lax.conv_general_dilated(
        x,
        kernel[:, None],
        (1,),
        [padding],
        rhs_dilation=(dilation,),
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=WIDTH,
    )


def shifted(x: Array, mix: Array, *, ahead: bool) -> Array:
    """A mixture with the token beside, by concatenation of slices."""
    zero = jnp.zeros_like(x[:, :1])
    beside = jnp.concatenate([x[:, 1:], zero] if ahead else [zero, x[:, :-1]], axis=1)
    return x * mix + beside * (1 - mix)


def rolled(tokens: Array, table: Array, *, first: bool) -> Array:
    """Inputs of teacher forcing: `roll` brings the last token to the first place, where the start belongs."""
    inputs = jnp.roll(tokens, 1, axis=1)
    return table[inputs.at[:, 0].set(0) if first else inputs]


def neighbour(x: Array, *, step: int) -> Array:
    """Adds the token beside by a gather with clipped indices."""
    index = jnp.clip(jnp.arange(LENGTH) + step, 0, LENGTH - 1)
    return x + jnp.take_along_axis(x, index[None, :, None], axis=1)


def group_norm(x: Array, *, over_length: bool) -> Array:
    """Groups of channels; the statistics of each position, or of the whole sequence."""
    groups = x.reshape(*x.shape[:2], 2, WIDTH // 2)
    axes = (1, 3) if over_length else (3,)
    mean, variance = groups.mean(axes, keepdims=True), groups.var(axes, keepdims=True)
    return ((groups - mean) * lax.rsqrt(variance + 1e-6)).reshape(x.shape)


def layer_norm(x: Array, *, axis: int) -> Array:
    """Over channels, or over the wrong axis."""
    return jax.nn.standardize(x, axis=axis, epsilon=1e-6)


def running_norm(x: Array, *, whole: bool) -> Array:
    """Divides by the root mean square of what has been read up to now."""
    squares = jnp.cumsum(jnp.mean(x * x, axis=-1, keepdims=True), axis=1)
    count = jnp.arange(1, LENGTH + 1)[:, None]
    return x * lax.rsqrt((squares[:, -1:] / LENGTH if whole else squares / count) + 1e-6)


def quantised(x: Array, *, per_tensor: bool) -> Array:
    """Eight bits with a scale of the moment, of each token or of the whole sequence."""
    highest = jnp.max(jnp.abs(x), axis=(1, 2) if per_tensor else 2, keepdims=True)
    scale = jnp.maximum(highest, 1e-8) / 127
    return jnp.round(x / scale).astype(jnp.int8).astype(x.dtype) * scale


def running_scale(x: Array, *, reverse: bool) -> Array:
    """Divides by the largest absolute value of what has been read up to now."""
    return x / (1 + lax.cummax(jnp.abs(x), axis=1, reverse=reverse))


def chunked(x: Array, w: Array, *, masked: bool) -> Array:
    """Linear attention in chunks: the state before the chunk, and scores in it."""
    q, k, v = jnp.einsum("bncd,mde->mnbce", x.reshape(2, -1, CHUNK, WIDTH), w)
    inside = jnp.tril(jnp.ones((CHUNK, CHUNK))) if masked else jnp.ones((CHUNK, CHUNK))

    def step(state: Array, chunk: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        qs, ks, vs = chunk
        out = qs @ state + (jnp.einsum("bqd,bkd->bqk", qs, ks) * inside) @ vs
        return state + jnp.swapaxes(ks, 1, 2) @ vs, out

    _, out = lax.scan(step, jnp.zeros((2, WIDTH, WIDTH)), (q, k, v))
    return jnp.moveaxis(out, 0, 1).reshape(x.shape)


def linear_attention(x: Array, w: Array, *, whole: bool) -> Array:
    """Cumulative sums of outer products, and the normaliser that belongs to them."""
    q, k, v = jnp.einsum("bsd,nde->nbse", x, w)
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    states = jnp.cumsum(k[..., :, None] * v[..., None, :], axis=1)
    total = jnp.sum(k, axis=1, keepdims=True) if whole else jnp.cumsum(k, axis=1)
    return jnp.einsum("bsd,bsde->bse", q, states) / jnp.sum(q * total, axis=-1, keepdims=True)


def rotary(tokens: Array, table: Array, *, reverse: bool) -> Array:
    """Positions are counts of the tokens that are not padding, from the start or from the end."""
    positions = lax.cumsum((tokens != 0).astype(jnp.int32), axis=1, reverse=reverse)
    angles = positions[..., None] * 100.0 ** (-jnp.arange(WIDTH // 2) / (WIDTH // 2))
    a, b = jnp.split(table[tokens], 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


def token_choice(x: Array, router: Array, experts: Array) -> Array:
    """Each token is computed by its two best experts; all experts compute all tokens, and a one-hot mask selects."""
    p = jax.nn.softmax(x @ router)
    values, chosen = lax.top_k(p, 2)
    gates = jnp.sum(jax.nn.one_hot(chosen, 3) * (values / values.sum(-1, keepdims=True))[..., None], axis=-2)
    return jnp.einsum("bse,bsed->bsd", gates, jnp.einsum("bsd,edf->bsef", x, experts))


def expert_choice(x: Array, router: Array, experts: Array) -> Array:
    """Each expert computes the four tokens of a sequence that want it most: later ones displace earlier ones."""
    p = jax.nn.softmax(x @ router)
    values, chosen = lax.top_k(jnp.swapaxes(p, 1, 2), 4)
    gates = jnp.einsum("beks,bek->bse", jax.nn.one_hot(chosen, LENGTH), values)
    return jnp.einsum("bse,bsed->bsd", gates, jnp.einsum("bsd,edf->bsef", x, experts))


def pooled(x: Array, *, delay: int) -> Array:
    """Adds the mean of a block to all its positions; honest where it is the block before."""
    means = x.reshape(2, -1, CHUNK, WIDTH).mean(2)
    means = jnp.pad(means, ((0, 0), (delay, 0), (0, 0)))[:, : LENGTH // CHUNK]
    return x + jnp.repeat(means, CHUNK, axis=1)


def spectral(x: Array, kernel: Array) -> Array:
    """A convolution by FFT of the sequence's own length is circular: what leaves at the end enters at the start."""
    return jnp.fft.irfft(jnp.fft.rfft(x, axis=1) * jnp.fft.rfft(kernel, axis=0), n=LENGTH, axis=1)


def toeplitz(x: Array, kernel: Array) -> Array:
    """The same convolution by a matrix of lags, which has no wrapped ones."""
    lag = jnp.arange(LENGTH)[:, None] - jnp.arange(LENGTH)
    return jnp.einsum("tsd,bsd->btd", jnp.where((lag >= 0)[..., None], kernel[lag % LENGTH], 0.0), x)


def guarded(x: Array, w: Array, *, whole: bool) -> Array:
    """Clips large activations: each by its own size, or all where any is large."""
    y = jnp.tanh(x @ w[0] / WIDTH)
    if whole:
        return lax.cond(jnp.any(jnp.abs(y) > 0.9), lambda a: a / 2, lambda a: a, y)
    return jnp.where(jnp.any(jnp.abs(y) > 0.9, axis=-1, keepdims=True), y / 2, y)


def adaptive(x: Array, w: Array, *, own: bool) -> Array:
    """Repeats a layer until a token is small; the others go on, with it or without it."""

    def going(carry: tuple[Array, Array]) -> Array:
        return (carry[0] < 8) & jnp.any(jnp.abs(carry[1]) > 0.1)

    def layer(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        count, y = carry
        return count + 1, y @ w[0] / WIDTH

    def frozen(_: int, y: Array) -> Array:
        return jnp.where(jnp.any(jnp.abs(y) > 0.1, axis=-1, keepdims=True), layer((jnp.int32(0), y))[1], y)

    return lax.fori_loop(0, 8, frozen, x) if own else lax.while_loop(going, layer, (jnp.int32(0), x))[1]


SEQUENCE = (
    *pair("recurrence_direction", twins(recurrence, reverse=(True, False)), "causal", GATED, on=("x", "gate")),
    *pair(
        "associative_direction", twins(parallel_recurrence, reverse=(True, False)), "causal", GATED, on=("x", "gate")
    ),
    *pair("convolution_same", twins(convolution, padding=((1, 1), (2, 0))), "causal", arrays(x=X, kernel=(3, WIDTH))),
    *pair(
        "convolution_dilated",
        twins(partial(convolution, dilation=2), padding=((3, 1), (4, 0))),
        "causal",
        arrays(x=X, kernel=(3, WIDTH)),
        gradient=True,
    ),
    *pair("token_shift", twins(shifted, ahead=(True, False)), "causal", arrays(x=X, mix=(WIDTH,))),
    *pair("rolled_labels", twins(rolled, first=(False, True)), "causal", READ, on=("tokens",)),
    *pair("clipped_gather", twins(neighbour, step=(1, -1)), "causal", ALONE),
    *pair("group_norm_length", twins(group_norm, over_length=(True, False)), "causal", ALONE),
    *pair("layer_norm_length", twins(layer_norm, axis=(1, -1)), "causal", ALONE),
    *pair("running_norm", twins(running_norm, whole=(True, False)), "causal", ALONE),
    *pair("tensor_scale", twins(quantised, per_tensor=(True, False)), "causal", ALONE),
    *pair("running_scale", twins(running_scale, reverse=(True, False)), "causal", ALONE),
    *pair("chunk_state", twins(chunked, masked=(False, True)), "causal", PROJECTED),
    *pair("linear_normaliser", twins(linear_attention, whole=(True, False)), "causal", PROJECTED),
    *pair("positions_from_end", twins(rotary, reverse=(True, False)), "causal", READ, on=("tokens",)),
    *pair("expert_choice", (expert_choice, token_choice), "causal", ROUTED),
    *pair("block_means", twins(pooled, delay=(0, 1)), "causal", ALONE),
    *pair("circular_convolution", (spectral, toeplitz), "causal", arrays(x=X, kernel=(LENGTH, WIDTH))),
    *pair("branch_of_all", twins(guarded, whole=(True, False)), "causal", PROJECTED),
    *pair("adaptive_depth", twins(adaptive, own=(False, True)), "causal", PROJECTED),
)
