"""Positions: rotary embeddings in all their layouts, linear biases, masks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, Function, f32, integers, like, normal

DIM, LENGTH, BASE = 8, 6, 10_000.0
ARGS = {"x": normal(2, LENGTH, 2, DIM)}


def angles(base: float = BASE, first: int = 0, exponent: float = 2.0) -> Array:
    """The angle of each position and frequency, computed in float32 while the program runs."""
    frequencies = 1.0 / base ** (jnp.arange(0, DIM // 2, dtype=jnp.float32) * exponent / DIM)
    return jnp.arange(first, first + LENGTH, dtype=jnp.float32)[:, None, None] * frequencies


def rope(x: Array) -> Array:
    first, second = jnp.split(f32(x), 2, axis=-1)
    a = angles()
    return like(
        jnp.concatenate([first * jnp.cos(a) - second * jnp.sin(a), second * jnp.cos(a) + first * jnp.sin(a)], -1), x
    )


def _twice(a: Array) -> Array:
    return jnp.concatenate([a, a], -1)


def rotate_half(x: Array) -> Array:
    """The sum x cos + rotated(x) sin, both tables as wide as the head."""
    first, second = jnp.split(x, 2, axis=-1)
    a = _twice(angles())
    return x * jnp.cos(a) + jnp.concatenate([-second, first], -1) * jnp.sin(a)


def complex_product(x: Array) -> Array:
    """Each pair as a complex number, turned by a product with exp(i a)."""
    first, second = jnp.split(x, 2, axis=-1)
    turned = jax.lax.complex(first, second) * jax.lax.complex(jnp.cos(angles()), jnp.sin(angles()))
    return jnp.concatenate([turned.real, turned.imag], -1)


def matrices(x: Array) -> Array:
    """One rotation by two for each position and frequency."""
    c, s = jnp.cos(angles()), jnp.sin(angles())
    turn = jnp.stack([jnp.stack([c, -s], -1), jnp.stack([s, c], -1)], -2)
    pairs = x.reshape(*x.shape[:-1], 2, DIM // 2)
    return jnp.einsum("tnfij,bthjf->bthif", turn, pairs).reshape(x.shape)


def _turned(a: Array, sign: float = 1.0) -> Function:
    def turned(x: Array) -> Array:
        first, second = jnp.split(x, 2, axis=-1)
        c, s = jnp.cos(a), sign * jnp.sin(a)
        return jnp.concatenate([first * c - second * s, second * c + first * s], -1)

    return turned


def _frequencies_as_literals(x: Array) -> Array:
    """The same frequencies in float32, computed before the program is traced."""
    table = (1.0 / np.float32(BASE) ** (np.arange(0, DIM, 2, dtype=np.float32) / np.float32(DIM))).astype(np.float32)
    first, second = jnp.split(f32(x), 2, axis=-1)
    a = jnp.arange(LENGTH, dtype=jnp.float32)[:, None, None] * table
    return like(
        jnp.concatenate([first * jnp.cos(a) - second * jnp.sin(a), second * jnp.cos(a) + first * jnp.sin(a)], -1), x
    )


def _late(**changed: Any) -> Function:
    """A side whose angles are computed while it is traced, not while this file is imported."""

    def late(x: Array) -> Array:
        return _turned(angles(**changed))(x)

    return late


def interleaved(x: Array) -> Array:
    first, second = x[..., ::2], x[..., 1::2]
    c, s = jnp.cos(angles()), jnp.sin(angles())
    return jnp.stack([first * c - second * s, second * c + first * s], -1).reshape(x.shape)


def one_sine_positive(x: Array) -> Array:
    first, second = jnp.split(x, 2, axis=-1)
    a = angles()
    return jnp.concatenate([first * jnp.cos(a) + second * jnp.sin(a), second * jnp.cos(a) + first * jnp.sin(a)], -1)


ROPE = Formula(
    name="rope",
    reference=rope,
    args=ARGS,
    honest={
        "rotate_half": rotate_half,
        "complex_product": complex_product,
        "matrices": matrices,
        "frequencies_as_literals": _frequencies_as_literals,
    },
    twins={
        "turned_back": lambda x: _turned(angles(), -1.0)(x),
        "base_half_a_million": _late(base=500_000.0),
        "positions_from_one": _late(first=1),
        "exponent_halved": _late(exponent=1.0),
        "interleaved": interleaved,
        "one_sine_positive": one_sine_positive,
    },
)


def rope_pairs(x: Array) -> Array:
    x32 = f32(x)
    first, second = x32[..., ::2], x32[..., 1::2]
    c, s = jnp.cos(angles()), jnp.sin(angles())
    return like(jnp.stack([first * c - second * s, second * c + first * s], -1).reshape(x.shape), x)


def permuted(x: Array) -> Array:
    """The pairs moved to two halves, turned there, and moved back."""
    order = np.concatenate([np.arange(0, DIM, 2), np.arange(1, DIM, 2)])
    halves = _turned(angles())(x[..., order])
    return halves[..., np.argsort(order)]


def complex_pairs(x: Array) -> Array:
    pairs = x.reshape(*x.shape[:-1], DIM // 2, 2)
    turned = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * jnp.exp(1j * angles())
    return jnp.stack([turned.real, turned.imag], -1).reshape(x.shape)


ROPE_PAIRS = Formula(
    name="rope_pairs",
    reference=rope_pairs,
    args=ARGS,
    honest={"permuted": permuted, "complex_pairs": complex_pairs},
    twins={
        "not_moved_back": lambda x: _turned(angles())(
            x[..., np.concatenate([np.arange(0, DIM, 2), np.arange(1, DIM, 2)])]
        ),
        "halves": lambda x: _turned(angles())(x),
        "conjugate": lambda x: complex_pairs(x[..., ::-1])[..., ::-1],
    },
)


def alibi(scores: Array) -> Array:
    heads, length = scores.shape[0], scores.shape[-1]
    slopes = 2.0 ** (-8.0 * (jnp.arange(heads, dtype=jnp.float32) + 1) / heads)
    distance = jnp.arange(length)[:, None] - jnp.arange(length)[None, :]
    return like(f32(scores) - slopes[:, None, None] * distance, scores)


def _biased(slopes: Array, distance: Array) -> Function:
    return lambda scores: scores - slopes[:, None, None] * distance


_FAR = np.arange(6, dtype=np.float32)[:, None] - np.arange(6, dtype=np.float32)[None, :]
_SLOPES = np.float32(2.0) ** (-2.0 * np.arange(1, 5, dtype=np.float32))

ALIBI = Formula(
    name="alibi",
    reference=alibi,
    args={"scores": normal(4, 6, 6)},
    honest={
        "tables": _biased(_SLOPES, _FAR),
        "einsum": lambda scores: scores + jnp.einsum("h,qk->hqk", jnp.asarray(-_SLOPES), jnp.asarray(_FAR)),
        "keys_alone": lambda scores: (
            scores
            + _SLOPES[:, None, None] * np.arange(6, dtype=np.float32)
            - (_SLOPES[:, None] * np.arange(6, dtype=np.float32))[:, :, None]
        ),
    },
    twins={
        "slopes_from_one": _biased(np.float32(2.0) ** (-2.0 * np.arange(4, dtype=np.float32)), _FAR),
        "distance_without_sign": _biased(_SLOPES, np.abs(_FAR)),
        "heads_reversed": _biased(_SLOPES[::-1], _FAR),
        "one_position_off": _biased(_SLOPES, _FAR - 1),
    },
)


def _one_hot(tokens: Array, table: Array, shift: int = 0) -> Array:
    return jax.nn.one_hot(tokens + shift, table.shape[0], dtype=table.dtype) @ table


EMBEDDING = Formula(
    name="embedding",
    widened=False,
    reference=lambda tokens, table: table[tokens],
    args={"tokens": integers(3, 8, high=12), "table": normal(12, 8)},
    honest={
        "one_hot": lambda tokens, table: _one_hot(tokens, table),
        "taken": lambda tokens, table: jnp.take(table, tokens, axis=0, mode="clip"),
        "compared": lambda tokens, table: like(
            jnp.einsum("btv,vd->btd", f32(tokens[..., None] == jnp.arange(12)), f32(table)), table
        ),
    },
    twins={
        "one_off": lambda tokens, table: _one_hot(tokens, table, 1),
        "first_row_is_padding": lambda tokens, table: table.at[0].set(0)[tokens],
        "scaled": lambda tokens, table: table[tokens] * jnp.asarray(8**0.5, table.dtype),
        "without_gradient": lambda tokens, table: jax.lax.stop_gradient(table)[tokens] + 0 * table[0],
    },
)

ALL = (ROPE, ROPE_PAIRS, ALIBI, EMBEDDING)
