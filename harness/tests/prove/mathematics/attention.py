"""Causal attention with grouped heads: by its definition, in blocks with a running maximum, and with its own gradient.

Source: Vaswani et al., "Attention Is All You Need", 2017 (arXiv 1706.03762), equation 1; Ainslie et al., "GQA", 2023
(arXiv 2305.13245); Dao et al., "FlashAttention", 2022 (arXiv 2205.14135), algorithm 1 and appendix B.2 for the
gradient; the soft cap is that of Gemma 2 (arXiv 2408.00118), section 2.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.values import Normal
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

BLOCK = 4
"""Keys per block of the blockwise forms."""

SOFTCAP = 12.0

# The width is a power of four, so that 1 / sqrt(width) is exact and folding it in moves no constant.
SIZES = {"batch": 2, "seq": 16, "heads": 4, "groups": 2, "width": 16}


def attention(q: Array, k: Array, v: Array, *, softcap: float) -> Array:
    """Each query's average of the values at its own and earlier positions, weighted by the softmax of its scores."""
    queries, keys, values = wide(q, k, v)
    keys, values = (jnp.repeat(array, q.shape[2] // k.shape[2], axis=2) for array in (keys, values))
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys) / math.sqrt(q.shape[3])
    if softcap:
        scores = softcap * jnp.tanh(scores / softcap)
    causal = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])
    scores = jnp.where(causal, scores, -jnp.inf)
    weights = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, values).astype(q.dtype)


# --- the same in steps, each of which can be replaced ----------------------------------------------------------------


def _spread(array: Array, heads: int) -> Array:
    """Keys or values `[b, k, groups, d]` for every head: consecutive heads share a group."""
    b, k, groups, d = array.shape
    return jnp.broadcast_to(array[:, :, :, None], (b, k, groups, heads // groups, d)).reshape(b, k, heads, d)


def _cap(scores: Array, softcap: float) -> Array:
    return jnp.tanh(scores / softcap) * softcap if softcap else scores


def _scores(queries: Array, keys: Array, softcap: float, factor: Callable[[int], float] = lambda d: d**-0.5) -> Array:
    """Capped scores; the factor folded into the queries."""
    return _cap(jnp.einsum("bqhd,bkhd->bhqk", queries * factor(queries.shape[-1]), keys), softcap)


def _mask(scores: Array, first: Array | int = 0, *, value: float = -1e30, ahead: int = 0) -> Array:
    """Scores of later positions replaced; the keys begin at `first`, and `ahead` positions too many can be seen."""
    queries, keys = (jnp.arange(size) for size in scores.shape[-2:])
    return jnp.where(queries[:, None] + ahead >= first + keys, scores, value)


def _softmax(scores: Array) -> Array:
    """Without the maximum subtracted."""
    weights = jnp.exp(scores)
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


def _attend(softmax: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda scores, values: jnp.einsum("bhqk,bkhd->bqhd", softmax(scores), values)


_attend_stable = _attend(jax.nn.softmax)
_mask_infinite = partial(_mask, value=-math.inf)


def _in_steps(
    *,
    spread: Callable[[Array, int], Array] = _spread,
    spread_values: Callable[[Array, int], Array] = _spread,
    scores: Callable[[Array, Array, float], Array] = _scores,
    mask: Callable[[Array], Array] = _mask,
    attend: Callable[[Array, Array], Array] = _attend_stable,
) -> Function:
    """Attention of these steps; without a replacement it is honest."""

    def attention_in_steps(q: Array, k: Array, v: Array, *, softcap: float) -> Array:
        queries, keys, values = wide(q, k, v)
        masked = mask(scores(queries, spread(keys, q.shape[2]), softcap))
        return attend(masked, spread_values(values, q.shape[2])).astype(q.dtype)

    return attention_in_steps


def grouped(q: Array, k: Array, v: Array, *, softcap: float) -> Array:
    """The queries split into groups; keys and values are not repeated, and what is masked weighs zero."""
    queries, keys, values = wide(q, k, v)
    split = queries.reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    scores = _cap(jnp.einsum("bqgid,bkgd->bgiqk", split, keys) / math.sqrt(q.shape[3]), softcap)
    weights = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), jnp.exp(scores), 0)
    total = jnp.einsum("bgiqk->bqgi", weights)[..., None]
    return (jnp.einsum("bgiqk,bkgd->bqgid", weights, values) / total).reshape(q.shape).astype(q.dtype)


# --- a handwritten gradient ------------------------------------------------------------------------------------------


def _pull(weights: Array, values: Array, out: Array, cotangent: Array) -> tuple[Array, Array]:
    """The gradient with respect to scores and values: dS = P (dP - sum of dO O), dP = dO V^T, dV = P^T dO."""
    to_weights = jnp.einsum("bqhd,bkhd->bhqk", cotangent, values)
    along = jnp.einsum("bqhd,bqhd->bhq", cotangent, out)[..., None]
    return weights * (to_weights - along), jnp.einsum("bhqk,bqhd->bkhd", weights, cotangent)


def _handwritten(
    pull: Callable[[Array, Array, Array, Array], tuple[Array, Array]] = _pull,
) -> Callable[[Array, Array], Array]:
    """Softmax and average with `pull(weights, values, out, cotangent)` as their gradient."""

    def forward(scores: Array, values: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        weights = _softmax(scores - jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True)))
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, values)
        return out, (weights, values, out)

    @jax.custom_vjp
    def attend(scores: Array, values: Array) -> Array:
        return forward(scores, values)[0]

    def backward(saved: tuple[Array, Array, Array], cotangent: Array) -> tuple[Array, Array]:
        return pull(*saved, cotangent)

    attend.defvjp(forward, backward)
    return attend


def _without_sum(weights: Array, values: Array, out: Array, cotangent: Array) -> tuple[Array, Array]:
    return _pull(weights, values, jnp.zeros_like(out), cotangent)


def _diagonal_only(weights: Array, values: Array, out: Array, cotangent: Array) -> tuple[Array, Array]:
    _, to_values = _pull(weights, values, out, cotangent)
    return weights * (1 - weights) * jnp.einsum("bqhd,bkhd->bhqk", cotangent, values), to_values


# --- in blocks -------------------------------------------------------------------------------------------------------

State = tuple[Array, Array, Array]
"""Of each query: the largest score so far, the sum of the weights, and the weighted sum of the values."""


def _absorb(
    state: State,
    scores: Array,
    values: Array,
    first: Array,
    *,
    rescaled: tuple[bool, bool] = (True, True),
    own_maximum: bool = False,
    counted: int = SIZES["seq"],
) -> State:
    """Take in one block of keys; what was summed under the old maximum is rescaled to the new one.

    Args:
        state, scores, values, first: what was summed, and the block that begins at key `first`.
        rescaled: whether the sum of the weights and that of the values are.
        own_maximum: weigh the block under its own maximum although the state is kept under the running one.
        counted: blocks from this key on are left out of the sum of the weights.
    """
    maximum, total, summed = state
    largest = jnp.max(scores, axis=-1)
    larger = jnp.maximum(maximum, largest)
    under = jnp.where(jnp.isfinite(largest), largest, larger) if own_maximum else larger
    weights, rescale = jnp.exp(scores - under[..., None]), jnp.exp(maximum - larger)
    added = jnp.sum(weights, axis=-1) if counted == SIZES["seq"] else jnp.where(first < counted, weights.sum(-1), 0)
    attended = jnp.einsum("bhqk,bkhd->bhqd", weights, values)
    return (
        larger,
        (total * rescale if rescaled[0] else total) + added,
        (summed * rescale[..., None] if rescaled[1] else summed) + attended,
    )


def _blockwise(
    absorb: Callable[[State, Array, Array, Array], State] = _absorb,
    *,
    mask: Callable[[Array, Array], Array] = _mask_infinite,
    scanned: bool = False,
) -> Function:
    """Attention over blocks of keys, as a Python loop or as a scan."""

    def blockwise(q: Array, k: Array, v: Array, *, softcap: float) -> Array:
        queries, keys, values = wide(q, k, v)
        count = k.shape[1] // BLOCK
        spread = (_spread(array, q.shape[2]) for array in (keys, values))
        blocks = (*(jnp.stack(jnp.split(array, count, axis=1)) for array in spread), BLOCK * jnp.arange(count))
        nothing = jnp.zeros((q.shape[0], q.shape[2], *q.shape[1:2], q.shape[3]), queries.dtype)
        state = (nothing[..., 0] - jnp.inf, nothing[..., 0], nothing)

        def step(state: State, block: tuple[Array, ...]) -> tuple[State, None]:
            keys, values, first = block
            return absorb(state, mask(_scores(queries, keys, softcap), first), values, first), None

        if scanned:
            state, _ = jax.lax.scan(step, state, blocks)
        else:
            for number in range(count):
                state, _ = step(state, tuple(array[number] for array in blocks))
        return jnp.swapaxes(state[2] / state[1][..., None], 1, 2).astype(q.dtype)

    return blockwise


# --- faults ----------------------------------------------------------------------------------------------------------


def _factor(factor: Callable[[int], float]) -> Function:
    return _in_steps(scores=partial(_scores, factor=factor))


def _capped_last(scores: Array) -> Array:
    """The cap after the mask: what is masked comes back as -softcap, and weighs exp(-softcap)."""
    return _cap(_mask(scores), SOFTCAP)


def _cap_first(queries: Array, keys: Array, softcap: float) -> Array:
    """The cap on scores that are not divided by sqrt(width) yet."""
    return _scores(queries, keys, softcap, lambda width: 1.0) / math.sqrt(queries.shape[-1])


def _one_more(scores: Array) -> Array:
    """A softmax with one more term, exp(0), in its denominator."""
    weights = jnp.exp(scores)
    return weights / (1 + jnp.sum(weights, axis=-1, keepdims=True))


def _tiled(array: Array, heads: int) -> Array:
    """Groups dealt out to heads in turn."""
    return jnp.tile(array, (1, 1, heads // array.shape[2], 1))


ATTENTION = specimen(
    "mathematics_attention",
    reference=attention,
    rewrites={
        "in_steps": _in_steps(),
        "without_maximum": _in_steps(attend=_attend(_softmax)),
        "grouped": grouped,
        "handwritten": _in_steps(attend=_handwritten()),
        "blocks_looped": _blockwise(),
        "blocks_scanned": _blockwise(scanned=True),
    },
    faults={
        "scale_missing": _factor(lambda width: 1.0),
        "scale_twice": _factor(lambda width: 1 / width),
        "scale_of_all_heads": _factor(lambda width: (width * SIZES["heads"]) ** -0.5),
        "softcap_missing": _in_steps(scores=lambda queries, keys, softcap: _scores(queries, keys, 0.0)),
        "softcap_before_scale": _in_steps(scores=_cap_first),
        "softcap_after_mask": _in_steps(
            scores=lambda queries, keys, softcap: _scores(queries, keys, 0.0), mask=_capped_last
        ),
        "mask_one_ahead": _in_steps(mask=partial(_mask, ahead=1)),
        "mask_missing": _in_steps(mask=lambda scores: scores),
        "mask_of_zero": _in_steps(mask=partial(_mask, value=0.0)),
        "mask_of_minus_ten": _in_steps(mask=partial(_mask, value=-10.0)),
        "denominator_plus_one": _in_steps(attend=_attend(_one_more)),
        "heads_dealt_in_turn": _in_steps(spread=_tiled, spread_values=_tiled),
        "values_dealt_in_turn": _in_steps(spread_values=_tiled),
        "gradient_of_weights_dropped": _in_steps(attend=_attend(lambda s: jax.lax.stop_gradient(_softmax(s)))),
        "gradient_without_sum": _in_steps(attend=_handwritten(_without_sum)),
        "gradient_diagonal_only": _in_steps(attend=_handwritten(_diagonal_only)),
        "accumulator_not_rescaled": _blockwise(partial(_absorb, rescaled=(True, False))),
        "denominator_not_rescaled": _blockwise(partial(_absorb, rescaled=(False, True))),
        "neither_rescaled": _blockwise(partial(_absorb, rescaled=(False, False))),
        "block_under_own_maximum": _blockwise(partial(_absorb, own_maximum=True)),
        "denominator_lacks_last_block": _blockwise(partial(_absorb, counted=SIZES["seq"] - BLOCK), scanned=True),
        "block_position_forgotten": _blockwise(mask=lambda scores, first: _mask(scores, 0, value=-math.inf)),
    },
    # Projections of rows of length one by weights of standard deviation 0.02 are about so large.
    args={
        "q": Arg(shape=("batch", "seq", "heads", "width"), values=Normal(scale=0.15)),
        "k": Arg(shape=("batch", "seq", "groups", "width"), values=Normal(scale=0.15)),
        "v": Arg(shape=("batch", "seq", "groups", "width"), values=Normal(scale=0.1)),
    },
    cases=(
        Case(id="capped", sizes=SIZES, statics={"softcap": SOFTCAP}),
        Case(id="usual", sizes=SIZES, statics={"softcap": 0.0}),
    ),
)

SPECIMENS = (ATTENTION,)

PAIR = ATTENTION.pair
"""For `samebits prove tests.prove.mathematics.attention:PAIR`."""
