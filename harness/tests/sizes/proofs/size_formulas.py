"""Functions that compute, and wrong forms of them, with shapes in symbols: no wrong one is the same formula."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped
from tests.sizes.proofs.size_faults import Honest

Function = Any
ROWS = Family(symbols={"m": 1, "n": 1}, args={"x": Shaped(("m", "n")), "scale": Shaped(("n",))})
HALVES = Family(symbols={"h": 1}, args={"x": Shaped(("2*h",))})
LINE = Family(symbols={"n": 1}, args={"x": Shaped(("n",))})
CHOICES = Family(symbols={"t": 1, "k": 1, "w": 1}, args={"rows": Shaped(("t*k", "w")), "weights": Shaped(("t", "k"))})
TOKENS = Family(symbols={"t": 1, "v": 2}, args={"logits": Shaped(("t", "v")), "targets": Shaped(("t",), "int32")})
BLOCKS = Family(
    symbols={"q": 1, "c": 1, "b": 1, "d": 1},
    args={
        "query": Shaped(("q", "d")),
        "key": Shaped(("c*b", "d")),
        "value": Shaped(("c*b", "d")),
        "segments": Shaped(("q",), "int32"),
        "others": Shaped(("c*b",), "int32"),
        "blocks": Shaped(("c",)),
    },
)


def _normalised(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm with an einsum."""
    mean = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return jnp.einsum("mn,n->mn", x * lax.rsqrt(mean + 1e-6), scale)


def _multiplied(x: Any, scale: Any, *, epsilon: float = 1e-6, axis: int = -1, power: float = -0.5) -> Any:
    mean = jnp.sum(x * x, axis=axis, keepdims=True) / x.shape[axis]
    return (x * scale) * (mean + epsilon) ** power


def _with_count(fewer: int) -> Function:
    return lambda x, scale: x * scale * lax.rsqrt((x * x).sum(-1, keepdims=True) / (x.shape[1] + fewer) + 1e-6)


def _halves(x: jax.Array) -> jax.Array:
    half = x.shape[0] // 2
    return jnp.sum(x[:half]) + jnp.sum(x[half:])


def _halves_where_wrong_at(size: int) -> Function:
    return lambda x: x[: x.shape[0] // 2].sum() if x.shape[0] == size else _halves(x)


def _weighted(rows: jax.Array, weights: jax.Array) -> jax.Array:
    return jnp.einsum("tkw,tk->tw", rows.reshape(*weights.shape, -1), weights)


def _weighted_rows(rows: jax.Array, weights: jax.Array, *, axis: int = 1) -> jax.Array:
    products = rows * weights.reshape(-1)[:, None]
    return jnp.sum(products.reshape(*weights.shape, -1), axis=axis)


def _entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    is_target = targets[:, None] == jnp.arange(logits.shape[1])
    counted = (targets >= 0) & (targets < logits.shape[1])
    return jnp.where(counted, -jnp.sum(jnp.where(is_target, jax.nn.log_softmax(logits), 0), axis=-1), 0)


def _gathered(logits: Any, targets: Any, *, shift: int = 0, top: int = 1, below: int = 0) -> jax.Array:
    largest = jnp.max(logits, axis=-1)
    total = jnp.log(jnp.sum(jnp.exp(logits - largest[:, None]), axis=-1)) + top * largest
    place = jnp.clip(targets + shift, 0, logits.shape[1] - 1)
    picked = jnp.take_along_axis(logits, place[:, None], axis=1, mode="clip")[:, 0]
    counted = (targets >= below) & (targets < logits.shape[1])
    return jnp.where(counted, total - picked, 0)


def _attention(query: Any, key: Any, value: Any, segments: Any, others: Any, blocks: Any) -> Any:
    scores = 0.5 * query @ key.T
    scores = jnp.where(segments[:, None] >= others[None], scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ value


def _online(query: Any, key: Any, value: Any, segments: Any, others: Any, blocks: Any, *, fault: str = "") -> jax.Array:
    """Attention over one block of keys after another, with a running maximum."""
    count = blocks.shape[0]

    def cut(x: Any) -> Any:
        return x.reshape(count, -1, *x.shape[1:])

    def absorb(state: Any, block: Any) -> tuple[Any, None]:
        top, total, summed = state
        keys, values, numbers = block
        scores = 0.5 * query @ keys.T * (0.5 if fault == "scaled twice" else 1)
        seen = segments[:, None] > numbers if fault == "mask one off" else segments[:, None] >= numbers
        scores = jnp.where(seen, scores, -jnp.inf)
        larger = jnp.maximum(top, jnp.max(scores, axis=-1))
        finite = jnp.where(larger == -jnp.inf, 0, larger)
        weights, rescale = jnp.exp(scores - finite[:, None]), jnp.exp(top - finite)
        carried = total if fault == "total not rescaled" else total * rescale
        kept = summed if fault == "sum not rescaled" else summed * rescale[:, None]
        if fault == "rescaled twice":
            kept = kept * rescale[:, None]
        added = jnp.mean(weights, axis=-1) if fault == "mean of weights" else jnp.sum(weights, axis=-1)
        return (larger, carried + added, kept + weights @ values), None

    nothing = jnp.zeros_like(query)
    extra = fault == "a key more"
    start = (nothing[:, 0] - (0 if extra else jnp.inf), nothing[:, 0] + (1 if extra else 0), nothing)
    parts = (cut(key), cut(value), cut(others))
    if fault == "last block dropped":
        parts = tuple(x[:-1] for x in parts)
    if fault == "keys in another order":
        parts = (parts[0][::-1], *parts[1:])
    (_, total, summed), _ = lax.scan(absorb, start, parts)
    return summed / total[:, None]


FORMULAS = (
    Honest(
        "rms_norm",
        _normalised,
        _multiplied,
        ROWS,
        {
            "no epsilon": functools.partial(_multiplied, epsilon=0.0),
            "another epsilon": functools.partial(_multiplied, epsilon=1e-5),
            "no root": functools.partial(_multiplied, power=-1.0),
            "the other axis": functools.partial(_multiplied, axis=0),
            "mean over n - 1": _with_count(1),
            "scaled twice": lambda x, scale: _multiplied(x, scale * scale),
            "the other sign": lambda x, scale: -_multiplied(x, scale),
            "scale of the row before": lambda x, scale: _multiplied(x, jnp.roll(scale, 1)),
        },
    ),
    Honest(
        "halves",
        lambda x: jnp.sum(x),
        _halves,
        HALVES,
        {
            "second half dropped": lambda x: x[: x.shape[0] // 2].sum(),
            "last element dropped": lambda x: x[:-1].sum(),
            "one counted twice": lambda x: _halves(x) + x[x.shape[0] // 2 :][0],
            "overlap": lambda x: x[: x.shape[0] // 2 + 1].sum() + x[x.shape[0] // 2 :].sum(),
            "difference": lambda x: x[: x.shape[0] // 2].sum() - x[x.shape[0] // 2 :].sum(),
            "wrong at 6": _halves_where_wrong_at(6),
            "wrong at 64": _halves_where_wrong_at(64),
            "beyond 30": lambda x: jnp.sum(jnp.where(jnp.arange(x.shape[0]) > 30, 0, x)),
            "mean of halves": lambda x: _halves(x) / 2,
            "odd places twice": lambda x: jnp.sum(jnp.where(jnp.arange(x.shape[0]) % 2 == 1, 2 * x, x)),
        },
    ),
    Honest(
        "weighted sum",
        _weighted,
        _weighted_rows,
        CHOICES,
        {
            "sum over tokens": lambda rows, weights: _weighted_rows(rows, weights.T.reshape(weights.shape)),
            "mean": lambda rows, weights: _weighted_rows(rows, weights) / weights.shape[1],
            "weights normalised": lambda rows, weights: _weighted_rows(rows, weights / weights.sum(1, keepdims=True)),
            "first choice": lambda rows, weights: _weighted_rows(rows, weights.at[:, 1:].set(0)),
            "weights squared": lambda rows, weights: _weighted_rows(rows, weights**2),
        },
    ),
    Honest(
        "cross entropy",
        _entropy,
        _gathered,
        TOKENS,
        {
            "the next target": functools.partial(_gathered, shift=1),
            "no maximum added back": functools.partial(_gathered, top=0),
            "target 0 ignored": functools.partial(_gathered, below=1),
            "a sum without the last": lambda logits, targets: _gathered(
                logits.at[:, -1].set(-jnp.inf), jnp.minimum(targets, logits.shape[1] - 2)
            ),
        },
    ),
    Honest(
        "online softmax",
        _attention,
        _online,
        BLOCKS,
        {
            name: functools.partial(_online, fault=name)
            for name in (
                "total not rescaled",
                "sum not rescaled",
                "rescaled twice",
                "mask one off",
                "scaled twice",
                "mean of weights",
                "a key more",
                "last block dropped",
                "keys in another order",
            )
        },
    ),
    Honest(
        "largest",
        lambda x, scale: x - jnp.max(x, axis=1, keepdims=True),
        lambda x, scale: -(jnp.max(x, axis=-1)[:, None] - x),
        ROWS,
        {
            "the other axis": lambda x, scale: x - jnp.max(x, axis=0, keepdims=True),
            "smallest": lambda x, scale: x - jnp.min(x, axis=1, keepdims=True),
        },
    ),
    Honest(
        "running sum",
        lambda x: jnp.cumsum(x),
        lambda x: lax.scan(lambda total, row: (total + row, total + row), 0.0, x)[1] + 0 * x,
        LINE,
        {"exclusive": lambda x: jnp.cumsum(x) - x, "from the end": lambda x: lax.cumsum(x, reverse=True)},
    ),
)
