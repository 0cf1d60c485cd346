"""Mixtures of experts: gates, dispatch, balance; and dropout by a mask that is given."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, Function, f32, integers, like, normal

TOKENS, EXPERTS, D = 6, 4, 5
GATE = {"logits": normal(TOKENS, EXPERTS, scale=1.5)}


def gates(logits: Array) -> Array:
    values, ids = jax.lax.top_k(jax.nn.softmax(f32(logits), -1), 2)
    weights = values / jnp.sum(values, -1, keepdims=True)
    return like(jnp.sum(jax.nn.one_hot(ids, EXPERTS) * weights[..., None], 1), logits)


def _spread(values: Array, ids: Array) -> Array:
    return jnp.einsum("tk,tke->te", values, jax.nn.one_hot(ids, EXPERTS))


def softmax_of_the_chosen(logits: Array) -> Array:
    """A softmax over the chosen logits: the normaliser of all of them cancels."""
    values, ids = jax.lax.top_k(logits, 2)
    return _spread(jax.nn.softmax(values, -1), ids)


def masked(logits: Array) -> Array:
    """A softmax over all, in which what is below the second largest is hidden."""
    second = jnp.sort(logits, -1)[:, -2:-1]
    return jax.nn.softmax(jnp.where(logits >= second, logits, -jnp.inf), -1)


def not_renormalised(logits: Array) -> Array:
    return _spread(*jax.lax.top_k(jax.nn.softmax(logits, -1), 2))


def weights_reversed(logits: Array) -> Array:
    values, ids = jax.lax.top_k(logits, 2)
    return _spread(jax.nn.softmax(values, -1), ids[:, ::-1])


def top_one(logits: Array) -> Array:
    return jax.nn.one_hot(jnp.argmax(logits, -1), EXPERTS) * jax.nn.softmax(logits, -1)


TOP_K_GATES = Formula(
    name="top_k_gates",
    reference=gates,
    args=GATE,
    honest={"softmax_of_the_chosen": softmax_of_the_chosen, "masked": masked},
    twins={
        "not_renormalised": not_renormalised,
        "weights_reversed": weights_reversed,
        "top_one": top_one,
        "three": lambda logits: _spread(jax.nn.softmax(jax.lax.top_k(logits, 3)[0], -1), jax.lax.top_k(logits, 3)[1]),
        "weights_without_gradient": lambda logits: jax.lax.stop_gradient(softmax_of_the_chosen(logits)) + 0 * logits,
    },
)

ROUTED = {"x": normal(TOKENS, D), "w": normal(EXPERTS, D, D, scale=0.4), "ids": integers(TOKENS, high=EXPERTS)}


def dispatched(x: Array, w: Array, ids: Array) -> Array:
    every = jnp.einsum("td,edf->tef", f32(x), f32(w))
    return like(jnp.take_along_axis(every, ids[:, None, None], 1)[:, 0], x)


def sorted_by_expert(x: Array, w: Array, ids: Array) -> Array:
    """Tokens sorted by expert, one grouped product, and sorted back."""
    order = jnp.argsort(ids, stable=True)
    sizes = jnp.bincount(ids, length=EXPERTS).astype(jnp.int32)
    return jax.lax.ragged_dot(x[order], w, sizes)[jnp.argsort(order, stable=True)]


def not_sorted_back(x: Array, w: Array, ids: Array) -> Array:
    order = jnp.argsort(ids, stable=True)
    return jnp.einsum("td,tdf->tf", x[order], w[ids[order]])


DISPATCH = Formula(
    name="expert_dispatch",
    reference=dispatched,
    args=ROUTED,
    honest={
        "weights_taken": lambda x, w, ids: jnp.einsum("td,tdf->tf", x, w[ids]),
        "one_hot": lambda x, w, ids: jnp.einsum("td,te,edf->tf", x, jax.nn.one_hot(ids, EXPERTS), w),
        "sorted_by_expert": sorted_by_expert,
        "expert_by_expert": lambda x, w, ids: sum(jnp.where((ids == e)[:, None], x @ w[e], 0) for e in range(EXPERTS)),
    },
    twins={
        "not_sorted_back": not_sorted_back,
        "next_expert": lambda x, w, ids: jnp.einsum("td,tdf->tf", x, w[(ids + 1) % EXPERTS]),
        "last_expert_dropped": lambda x, w, ids: jnp.where(
            (ids < EXPERTS - 1)[:, None], jnp.einsum("td,tdf->tf", x, w[ids]), 0
        ),
        "weights_transposed": lambda x, w, ids: jnp.einsum("td,tfd->tf", x, w[ids]),
    },
)


def balance(logits: Array) -> Array:
    p = jax.nn.softmax(f32(logits), -1)
    chosen = jnp.mean(jax.nn.one_hot(jnp.argmax(p, -1), EXPERTS), 0)
    return like(EXPERTS * jnp.mean(p, 0) * chosen, logits)


def _balance(logits: Array, factor: float, logits_for_counts: Array | None = None) -> Array:
    counts = jnp.bincount(jnp.argmax(logits, -1), length=EXPERTS)
    return factor * jnp.sum(jax.nn.softmax(logits, -1), 0) * counts / TOKENS**2


BALANCE = Formula(
    name="balance_loss",
    reference=balance,
    args=GATE,
    honest={
        "counts": lambda logits: _balance(logits, EXPERTS),
        "compared": lambda logits: (
            jnp.mean(jax.nn.softmax(logits), 0) * jnp.mean(f32(logits == jnp.max(logits, -1, keepdims=True)), 0) * 4.0
        ),
    },
    twins={
        "experts_forgotten": lambda logits: _balance(logits, 1),
        "probability_squared": lambda logits: EXPERTS * jnp.mean(jax.nn.softmax(logits, -1), 0) ** 2,
        "counts_of_the_least": lambda logits: (
            EXPERTS
            * jnp.mean(jax.nn.softmax(logits, -1), 0)
            * jnp.mean(jax.nn.one_hot(jnp.argmin(logits, -1), EXPERTS), 0)
        ),
        "without_gradient": lambda logits: _balance(jax.lax.stop_gradient(logits), EXPERTS) + 0 * logits[0],
    },
)


def dropout(x: Array, mask: Array) -> Array:
    return like(jnp.where(mask > 0, f32(x) / 0.8, 0), x)


def _dropped(factor: float) -> Function:
    return lambda x, mask: x * (mask * jnp.float32(factor))


DROPOUT = Formula(
    name="dropout",
    reference=dropout,
    args={"x": normal(6, 8), "mask": integers(6, 8, high=2)},
    honest={
        "product": lambda x, mask: x * mask / 0.8,
        "scaled": lambda x, mask: jnp.where(mask == 1, x * 1.25, 0),
        "einsum": lambda x, mask: jnp.einsum("bd,bd->bd", x, f32(mask) / 0.8),
    },
    twins={
        "not_scaled": _dropped(1.0),
        "scaled_the_other_way": _dropped(0.8),
        "inverted": lambda x, mask: jnp.where(mask == 0, x / 0.8, 0),
        "gradient_of_all": lambda x, mask: x / 0.8 + jax.lax.stop_gradient(jnp.where(mask > 0, 0, -x / 0.8)),
    },
)


def quantised(x: Array) -> Array:
    x32 = f32(x)
    scale = jnp.max(jnp.abs(x32), -1, keepdims=True) / 127
    return like(jnp.round(x32 / scale) * scale, x)


def through_int8(x: Array) -> Array:
    scale = jnp.max(jnp.abs(x), -1, keepdims=True) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8).astype(jnp.float32) * scale


def _quantised(most: float, rounding: Function) -> Function:
    def side(x: Array) -> Array:
        scale = jnp.max(jnp.abs(x), -1, keepdims=True) / most
        return rounding(x / scale) * scale

    return side


QUANTISE = Formula(
    name="quantise_dequantise",
    reference=quantised,
    args={"x": normal(4, 16)},
    honest={"through_int8": through_int8, "plain": _quantised(127, jnp.round)},
    twins={
        "of_128": _quantised(128, jnp.round),
        "floor": _quantised(127, jnp.floor),
        "toward_zero": _quantised(127, jnp.trunc),
        "whole_tensor": lambda x: jnp.round(x / (jnp.max(jnp.abs(x)) / 127)) * (jnp.max(jnp.abs(x)) / 127),
    },
    gradients=False,
)


MEAN_OF_LARGEST = Formula(
    name="mean_of_the_largest",
    reference=lambda x: like(jnp.mean(jax.lax.top_k(f32(x), 3)[0], -1), x),
    args={"x": normal(5, 9)},
    honest={
        "sorted": lambda x: jnp.sum(jnp.sort(x, -1)[:, -3:], -1) / 3,
        "ranked": lambda x: jnp.mean(jnp.take_along_axis(x, jnp.argsort(-x, -1)[:, np.arange(3)], -1), -1),
    },
    twins={
        "smallest": lambda x: jnp.mean(jnp.sort(x, -1)[:, :3], -1),
        "second_to_fourth": lambda x: jnp.mean(jnp.sort(x, -1)[:, -4:-1], -1),
        "median": lambda x: jnp.median(x, -1),
    },
)

ALL = (TOP_K_GATES, DISPATCH, BALANCE, DROPOUT, QUANTISE, MEAN_OF_LARGEST)
