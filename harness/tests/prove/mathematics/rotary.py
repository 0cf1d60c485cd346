"""Rotary position embedding on halves of the features, in five forms, and what goes wrong with its angles.

Source: Su et al., "RoFormer", 2021 (arXiv 2104.09864), section 3.2.2; features are paired `i` with `i + width / 2`, as
in the public Llama and GPT-NeoX code.
"""

from collections.abc import Callable

import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

SIZES = {"batch": 2, "seq": 16, "heads": 2, "width": 16}

Turn = tuple[Array, Array]
"""Cosines and sines, `[seq, heads, width / 2]` with one entry for all heads."""


def _turn(x: Array, base: float) -> Turn:
    """The angle of pair `i` at position `p` is p / base^(2 i / width)."""
    width = x.shape[-1]
    return _turn_by(x, base ** (-jnp.arange(0, width, 2, dtype=x.dtype) / width))


def _turn_by(x: Array, frequency: Array, first: int = 0) -> Turn:
    angle = jnp.arange(first, first + x.shape[1], dtype=x.dtype)[:, None, None] * frequency
    return jnp.cos(angle), jnp.sin(angle)


def rope(x: Array, *, base: float) -> Array:
    """Turn each pair of features by an angle that grows with the position."""
    (rows,) = wide(x)
    cos, sin = _turn(rows, base)
    first, second = jnp.split(rows, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def rotated_half(x: Array, *, base: float) -> Array:
    """The row times the cosines, plus its negated and exchanged halves times the sines."""
    (rows,) = wide(x)
    cos, sin = (jnp.tile(array, 2) for array in _turn(rows, base))
    half = x.shape[-1] // 2
    exchanged = jnp.concatenate([-rows[..., half:], rows[..., :half]], axis=-1)
    return (rows * cos + exchanged * sin).astype(x.dtype)


def rolled(x: Array, *, base: float) -> Array:
    """The halves exchanged by a roll, the sign in the sines."""
    (rows,) = wide(x)
    cos, sin = _turn(rows, base)
    signed = jnp.concatenate([-sin, sin], axis=-1)
    return (rows * jnp.tile(cos, 2) + jnp.roll(rows, x.shape[-1] // 2, axis=-1) * signed).astype(x.dtype)


def interleaved(x: Array, *, base: float) -> Array:
    """The pairs brought side by side, turned there and brought back."""
    (rows,) = wide(x)
    cos, sin = _turn(rows, base)
    pairs = jnp.swapaxes(rows.reshape(*x.shape[:-1], 2, -1), -1, -2)
    first, second = pairs[..., 0], pairs[..., 1]
    turned = jnp.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return jnp.swapaxes(turned, -1, -2).reshape(x.shape).astype(x.dtype)


def matrices(x: Array, *, base: float) -> Array:
    """A product with a 2 by 2 matrix of each position and pair."""
    (rows,) = wide(x)
    cos, sin = _turn(rows, base)
    turning = jnp.stack([jnp.stack([cos, -sin]), jnp.stack([sin, cos])])[:, :, :, 0]
    pairs = rows.reshape(*x.shape[:-1], 2, -1)
    return jnp.einsum("rcsi,bshci->bshri", turning, pairs).reshape(x.shape).astype(x.dtype)


# --- faults ----------------------------------------------------------------------------------------------------------


def _turned(turn: Callable[[Array, float], Turn]) -> Function:
    """The reference with other cosines and sines."""

    def rope_turned(x: Array, *, base: float) -> Array:
        (rows,) = wide(x)
        cos, sin = turn(rows, base)
        first, second = jnp.split(rows, 2, axis=-1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)

    return rope_turned


def _negative(rows: Array, base: float) -> Turn:
    cos, sin = _turn(rows, base)
    return cos, -sin


def _exchanged(rows: Array, base: float) -> Turn:
    cos, sin = _turn(rows, base)
    return sin, cos


def _all_but_the_last(rows: Array, base: float) -> Turn:
    cos, sin = _turn(rows, base)
    return cos.at[..., -1].set(1), sin.at[..., -1].set(0)


def _to_the_end(rows: Array, base: float) -> Turn:
    """Frequencies that reach 1 / base at the last pair, as a linspace with its end included would give."""
    half = rows.shape[-1] // 2
    return _turn_by(rows, base ** (-jnp.arange(half, dtype=rows.dtype) / (half - 1)))


def _over_width(rows: Array, base: float) -> Turn:
    width = rows.shape[-1]
    return _turn_by(rows, base ** (-jnp.arange(width // 2, dtype=rows.dtype) / width))


def _from_one(rows: Array, base: float) -> Turn:
    width = rows.shape[-1]
    return _turn_by(rows, base ** (-jnp.arange(0, width, 2, dtype=rows.dtype) / width), first=1)


def both_signs(x: Array, *, base: float) -> Array:
    """The sines added in both halves: no rotation."""
    (rows,) = wide(x)
    cos, sin = _turn(rows, base)
    first, second = jnp.split(rows, 2, axis=-1)
    return jnp.concatenate([first * cos + second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def neighbours(x: Array, *, base: float) -> Array:
    """Feature `2 i` paired with `2 i + 1`: right for weights that were trained so, and for no others."""
    (rows,) = wide(x)
    cos, sin = _turn(rows, base)
    first, second = rows[..., 0::2], rows[..., 1::2]
    turned = jnp.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)


ROPE = specimen(
    "mathematics_rope",
    reference=rope,
    rewrites={
        "in_steps": _turned(_turn),
        "rotated_half": rotated_half,
        "rolled": rolled,
        "interleaved": interleaved,
        "matrices": matrices,
    },
    faults={
        "turned_back": _turned(_negative),
        "cosine_for_sine": _turned(_exchanged),
        "both_signs": both_signs,
        "neighbours": neighbours,
        "base_10001": _turned(lambda rows, base: _turn(rows, base + 1)),
        "base_ignored": _turned(lambda rows, base: _turn(rows, 10000.0)),
        "frequencies_to_the_end": _turned(_to_the_end),
        "exponent_over_width": _turned(_over_width),
        "positions_from_one": _turned(_from_one),
        "last_pair_not_turned": _turned(_all_but_the_last),
    },
    args={"x": Arg(shape=("batch", "seq", "heads", "width"))},
    cases=(
        Case(id="long", sizes=SIZES, statics={"base": 500000.0}),
        Case(id="usual", sizes=SIZES, statics={"base": 10000.0}),
    ),
)

SPECIMENS = (ROPE,)
