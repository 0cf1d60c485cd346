"""Windows that are too wide, and gradients that reach a parameter or do not."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from tests.properties.specimens.attention import library, project, scores, weigh
from tests.properties.specimens.sequence import convolution
from tests.properties.specimens.specimen import LENGTH, TOKENS, VOCABULARY, WIDTH, Specimen, X, arrays, pair, twins

PROJECTED = arrays(x=X, w=(3, WIDTH, WIDTH))
LAYER = arrays(x=X, w=(WIDTH, WIDTH))
TWO = arrays(x=X, w=(WIDTH, WIDTH), other=(WIDTH, WIDTH))
window = partial(pair, property="window", size=4)
stops = partial(pair, property="gradient_stops", on=("w",))
reaches = partial(pair, property="gradient_reaches", on=("w",))


def sliding(x: Array, w: Array, *, size: int) -> Array:
    """Attention to the last keys, of which the query's own is one."""
    q, k, v = project(x, w)
    distance = jnp.arange(LENGTH)[:, None] - jnp.arange(LENGTH)
    return weigh(jnp.where((distance >= 0) & (distance < size), scores(q, k), -jnp.inf), v)


def two_layers(x: Array, w: Array, *, size: int) -> Array:
    """Two layers with a window each: what they read together is nearly twice as long."""
    return sliding(jnp.tanh(sliding(x, w, size=size)), w, size=size)


def ring_buffer(x: Array, w: Array, *, size: int) -> Array:
    """Decodes with a cache in which each token overwrites the oldest one."""
    q, k, v = project(x, w)

    def step(cache: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], Array]:
        keys = lax.dynamic_update_slice_in_dim(cache[0], k[:, t, None], t % size, 1)
        values = lax.dynamic_update_slice_in_dim(cache[1], v[:, t, None], t % size, 1)
        s = jnp.where(jnp.arange(size) <= t, jnp.einsum("bd,bkd->bk", q[:, t], keys), -jnp.inf)
        return (keys, values), jnp.einsum("bk,bkd->bd", jax.nn.softmax(s), values)

    zero = jnp.zeros((2, size, WIDTH))
    return jnp.swapaxes(lax.scan(step, (zero, zero), jnp.arange(LENGTH))[1], 0, 1)


def moving_sum(x: Array, *, reduce: bool) -> Array:
    """Sums of four: by windows, or as differences of sums from the start, which differ in their rounding."""
    if reduce:
        return lax.reduce_window(x, 0.0, lax.add, (1, 4, 1), (1, 1, 1), [(0, 0), (3, 0), (0, 0)])
    total = jnp.cumsum(x, axis=1)
    return total - jnp.pad(total, ((0, 0), (4, 0), (0, 0)))[:, :LENGTH]


def distilled(x: Array, w: Array, other: Array, *, stop: bool) -> Array:
    """The distance of a student from its teacher."""
    target = jax.nn.softmax(x @ w)
    target = lax.stop_gradient(target) if stop else target
    return -jnp.sum(target * jax.nn.log_softmax(x @ other), axis=-1)


def codebook(x: Array, w: Array, *, stop: bool) -> Array:
    """The nearest code; the gradient goes past it to the input."""
    nearest = jnp.argmin(((x[..., None, :] - w) ** 2).sum(-1), axis=-1)
    step = w[nearest] - x
    return x + (lax.stop_gradient(step) if stop else step)


def selected(x: Array, w: Array, other: Array, *, weighed: bool) -> Array:
    """The best expert of a router; its probability is what carries the gradient."""
    p = jax.nn.softmax(x @ w)
    gates = jax.nn.one_hot(jnp.argmax(p, axis=-1), WIDTH)
    return (x @ other) * (gates * p if weighed else gates)


def tied(tokens: Array, w: Array, *, head: bool) -> Array:
    """A frozen embedding, which is used once more as the head."""
    frozen = lax.stop_gradient(w)
    return jnp.tanh(frozen[tokens]) @ (w if head else frozen).T


def adapter(x: Array, w: Array, other: Array, *, frozen: bool) -> Array:
    """A layer and its low rank adapter; in training, the layer stays."""
    base = lax.stop_gradient(w) if frozen else w
    return x @ base + (x @ other[:, :2]) @ other[:2]


def detached(x: Array, w: Array, *, branch: bool) -> Array:
    """A residual branch of which the scale alone is detached, or all of it."""
    y = x @ w
    if branch:
        return x + lax.stop_gradient(y / jnp.abs(y).max(-1, keepdims=True))
    return x + y / lax.stop_gradient(jnp.abs(y).max(-1, keepdims=True))


def rounded(x: Array, w: Array, *, through: bool) -> Array:
    """Weights of a few levels, straight through or with the gradient of rounding, which is zero."""
    levels = jnp.round(w * 4) / 4
    return x @ (w + lax.stop_gradient(levels - w) if through else levels)


def cast(x: Array, w: Array, *, dtype: Any) -> Array:
    """A gate in another dtype; an integer has no gradient."""
    return x * (w[0] * 8).astype(dtype).astype(x.dtype)


def _linear(*, bias: bool) -> Any:
    """A layer with a hand-written gradient, that of its bias included or forgotten."""
    layer = jax.custom_vjp(lambda x, w, b: x @ w + b)
    layer.defvjp(
        lambda x, w, b: (layer(x, w, b), (x, w)),
        lambda kept, g: (g @ kept[1].T, jnp.einsum("bsd,bse->de", kept[0], g), g.sum((0, 1)) * bias),
    )
    return lambda x, other, w: layer(x, other, w)


WINDOW: tuple[Specimen, ...] = (
    *window("sliding_off_by_one", twins(sliding, size=(5, 4)), arguments=PROJECTED),
    *window(
        "library_window",
        twins(library, local_window_size=((4, 0), (3, 0))),
        arguments=arrays(x=X, w=(3, WIDTH, 2, WIDTH)),
    ),
    *window("stacked_windows", twins(two_layers, size=(4, 2)), arguments=PROJECTED, gradient=True),
    *window("ring_buffer", twins(ring_buffer, size=(5, 4)), arguments=PROJECTED),
    *window(
        "dilated_taps",
        (partial(convolution, padding=(4, 0), dilation=2), partial(convolution, padding=(2, 0))),
        arguments=arrays(x=X, kernel=(3, WIDTH)),
    ),
    *window("moving_sum", twins(moving_sum, reduce=(False, True)), arguments=arrays(x=X)),
)

GRADIENTS: tuple[Specimen, ...] = (
    *stops("teacher", twins(distilled, stop=(False, True)), arguments=TWO),
    *stops("codebook", twins(codebook, stop=(False, True)), arguments=LAYER),
    *stops("hard_router", twins(selected, weighed=(True, False)), arguments=TWO),
    *stops("tied_head", twins(tied, head=(True, False)), arguments=arrays(tokens=TOKENS, w=(VOCABULARY, WIDTH))),
    *stops("adapter", twins(adapter, frozen=(False, True)), arguments=TWO),
    *reaches("detached_branch", twins(detached, branch=(True, False)), arguments=LAYER),
    *reaches("router_without_gate", twins(selected, weighed=(False, True)), arguments=TWO),
    *reaches("rounding", twins(rounded, through=(False, True)), arguments=LAYER),
    *reaches("integer_gate", twins(cast, dtype=(jnp.int32, jnp.bfloat16)), arguments=LAYER),
    *reaches(
        "forgotten_bias",
        (_linear(bias=False), _linear(bias=True)),
        arguments=arrays(x=X, other=(WIDTH, WIDTH), w=(WIDTH,)),
    ),
)
