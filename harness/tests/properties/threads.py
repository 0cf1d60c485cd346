"""The leaks of six public reports, made again in jax from what their threads say, and what each should have been."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from tests.properties.specimens.attention import before, heads, project, scores, weigh
from tests.properties.specimens.packed import short_convolution, starts
from tests.properties.specimens.specimen import LENGTH, SEGMENTS, WIDTH, Specimen, X, arrays, pair, twins

HEADS = arrays(x=X, w=(3, WIDTH, 2, WIDTH))
PROJECTED = arrays(x=X, w=(3, WIDTH, WIDTH))
BLOCK = 4


def keras_attention(x: Array, w: Array, *, path: str, applied: bool) -> Any:
    """keras#23038: only the fused path applies `use_causal_mask`; dropout, returned scores and 5-D inputs leave it."""
    q, k, v = heads(x, w)
    if path == "rank":
        q, k, v = (a.reshape(2, LENGTH, 1, 2, WIDTH) for a in (q, k, v))
    if path == "fused":
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)
    s = jnp.einsum("bq...hd,bk...hd->b...hqk", q, k) / WIDTH**0.5
    p = jax.nn.softmax(jnp.where(before(), s, -1e30) if applied else s)
    if path == "dropout":
        p = jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, p.shape), p / 0.9, 0.0)
    out = jnp.einsum("b...hqk,bk...hd->bq...hd", p, v).reshape(2, LENGTH, -1)
    return jnp.concatenate([out, jnp.moveaxis(p, -2, 1).reshape(2, LENGTH, -1)], -1) if path == "scores" else out


def recurrent_block(x: Array, gate: Array, *, batch_first: bool) -> Array:
    """transformers#47475: the recurrence runs over the first axis of inputs that have their batch there."""
    a = jnp.exp(-jax.nn.softplus(gate))
    inputs = jnp.sqrt(1 - a * a) * x
    if not batch_first:
        a, inputs = jnp.swapaxes(a, 0, 1), jnp.swapaxes(inputs, 0, 1)
    states = [inputs[0]]
    for t in range(1, a.shape[0]):
        states.append(a[t] * states[-1] + inputs[t])
    return jnp.stack(states, axis=0 if batch_first else 1)


def labels_ids(x: Array, w: Array, segment_ids: Array, *, shift: int) -> Array:
    """marin#5795: one position per boundary leaks, as with keys whose ids are those of the labels, shifted by one."""
    q, k, v = project(x, w)
    keys = jnp.concatenate([segment_ids[:, shift:], segment_ids[:, LENGTH - shift :]], axis=1)
    own = jnp.eye(LENGTH, dtype=bool)
    mask = before() & ((segment_ids[:, :, None] == keys[:, None, :]) | own)
    return weigh(jnp.where(mask, scores(q, k), -jnp.inf), v)


def ulysses(x: Array, kernel: Array, gate: Array, segment_ids: Array, *, ids: bool) -> Array:
    """prime-rl#3000: ranks exchange length for channels, and a convolution and a state take the row as one document."""

    def rank(part: Array, gates: Array, local: Array) -> Array:
        whole, gates = (lax.all_to_all(a, "context", split_axis=2, concat_axis=1, tiled=True) for a in (part, gates))
        documents = lax.all_gather(local, "context", axis=1, tiled=True)
        size = WIDTH // 2
        taps = lax.dynamic_slice_in_dim(kernel, lax.axis_index("context") * size, size, 1)
        mixed = short_convolution(whole, taps, documents, taps=ids)
        decay = jnp.where(starts(documents)[..., None] & ids, 0.0, jax.nn.sigmoid(gates))

        def step(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            state = now[0] * state + now[1]
            return state, state

        _, out = lax.scan(step, jnp.zeros_like(mixed[:, 0]), (jnp.swapaxes(decay, 0, 1), jnp.swapaxes(mixed, 0, 1)))
        out = lax.all_to_all(jnp.swapaxes(out, 0, 1), "context", split_axis=1, concat_axis=2, tiled=True)
        return jnp.asarray(out)

    mesh = Mesh(np.array(jax.devices()[:2]), ("context",))
    specs = (P(None, "context"),) * 3
    out: Array = jax.shard_map(rank, mesh=mesh, in_specs=specs, out_specs=specs[0], check_vma=False)(
        x, gate, segment_ids
    )
    return out


def delta_rule(x: Array, w: Array, segment_ids: Array, *, reset: bool) -> Array:
    """flash-linear-attention#1184: the naive recurrence of a preconditioned delta rule keeps `S` and `A` of a row."""
    q, k, v = project(x, w)
    first = starts(segment_ids) & reset

    def step(carry: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        q, k, v, new = now
        state, gram = (jnp.where(new[:, None, None], 0.0, a) for a in (carry[0], carry[1][..., None]))
        gram = gram[..., 0] * 0.9 + k * k
        scaled = k / (1.0 + gram)
        error = v - jnp.einsum("bde,bd->be", state, k)
        state = state + 0.5 * scaled[..., :, None] * error[..., None, :]
        return (state, gram), jnp.einsum("bde,bd->be", state, q)

    zero = jnp.zeros((2, WIDTH, WIDTH)), jnp.zeros((2, WIDTH))
    _, out = lax.scan(step, zero, (*(jnp.swapaxes(a, 0, 1) for a in (q, k, v)), first.T))
    return jnp.swapaxes(out, 0, 1)


def block_summaries(x: Array, w: Array, *, delay: int) -> Array:
    """nanochat#844: queries, keys and values have the mean of their block, which later tokens are in."""

    def summarised(a: Array) -> Array:
        means = a.reshape(2, -1, BLOCK, WIDTH).mean(2)
        means = jnp.pad(means, ((0, 0), (delay, 0), (0, 0)))[:, : LENGTH // BLOCK]
        return a + jnp.repeat(means, BLOCK, axis=1)

    q, k, v = (summarised(a) for a in project(x, w))
    return weigh(jnp.where(before(), scores(q, k), -jnp.inf), v)


def chunk_states(x: Array, w: Array, *, inclusive: bool) -> Array:
    """nanochat#844: a recurrence over the means of chunks gives its state to all tokens of the chunk."""
    means = jnp.swapaxes(x.reshape(2, -1, BLOCK, WIDTH).mean(2), 0, 1)

    def step(state: Array, mean: Array) -> tuple[Array, Array]:
        new = jnp.tanh(state @ w[0] / WIDTH + mean)
        return new, new if inclusive else state

    states = jnp.swapaxes(lax.scan(step, jnp.zeros_like(means[0]), means)[1], 0, 1)
    return x + jnp.repeat(states, BLOCK, axis=1)


def spectral_filter(x: Array, w: Array, response: Array, *, padded: bool) -> Array:
    """nanochat#844: a learned response of the spectrum has negative lags, and padding does not remove them."""
    q, k, v = project(x, w)

    def filtered(a: Array) -> Array:
        if padded:
            out = jnp.fft.irfft(jnp.fft.rfft(a, 2 * LENGTH, axis=1) * response, axis=1)
            return out[:, :LENGTH]
        lags = jnp.fft.irfft(response, axis=0)[:LENGTH]
        lag = jnp.arange(LENGTH)[:, None] - jnp.arange(LENGTH)
        return jnp.einsum("tsd,bsd->btd", jnp.where((lag >= 0)[..., None], lags[lag], 0.0), a)

    return weigh(jnp.where(before(), scores(filtered(q), filtered(k)), -jnp.inf), v)


THREADS: tuple[Specimen, ...] = (
    *(
        specimen
        for path in ("dropout", "scores", "rank")
        for specimen in pair(
            f"keras_23038_{path}", twins(partial(keras_attention, path=path), applied=(False, True)), "causal", HEADS
        )
    ),
    *pair(
        "transformers_47475",
        twins(recurrent_block, batch_first=(True, False)),
        "batch_rows",
        arrays(x=X, gate=X),
        on=("x", "gate"),
    ),
    *pair(
        "marin_5795",
        twins(labels_ids, shift=(1, 0)),
        "packed",
        arrays(x=X, w=(3, WIDTH, WIDTH), segment_ids=SEGMENTS),
        segment_ids="segment_ids",
    ),
    *pair(
        "prime_rl_3000",
        twins(ulysses, ids=(False, True)),
        "packed",
        arrays(x=X, kernel=(3, WIDTH), gate=X, segment_ids=SEGMENTS),
        on=("x", "gate"),
        segment_ids="segment_ids",
    ),
    *pair(
        "flash_linear_attention_1184",
        twins(delta_rule, reset=(False, True)),
        "packed",
        arrays(x=X, w=(3, WIDTH, WIDTH), segment_ids=SEGMENTS),
        segment_ids="segment_ids",
    ),
    *pair("nanochat_844_blocks", twins(block_summaries, delay=(0, 1)), "causal", PROJECTED),
    *pair("nanochat_844_chunks", twins(chunk_states, inclusive=(True, False)), "causal", PROJECTED),
    *pair(
        "nanochat_844_spectrum",
        twins(spectral_filter, padded=(True, False)),
        "causal",
        arrays(x=X, w=(3, WIDTH, WIDTH), response=(LENGTH + 1, WIDTH)),
    ),
)
