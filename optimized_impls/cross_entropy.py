"""Cross entropy over a vocabulary, with the logits of one part of the sequence at a time.

`[tokens, vocab]` is the largest array of a small model's step: 128 Ki tokens and 128 Ki entries are 64 GiB in float32.
Neither form keeps more than `1 / chunks` of it, forward or backward. `chunked` leaves the derivative to autodiff, which
computes each part again; `chunked_custom_gradient` writes it down.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Losses = dict[str, jax.Array]
Tokens = tuple[jax.Array, jax.Array, jax.Array]
"""Hidden states, targets and weights, of all tokens or of a part."""


def chunked(
    hidden: jax.Array,
    kernel: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    *,
    z_loss: float = 0.0,
    chunks: int = 1,
) -> Losses:
    """The losses part by part in a scan; autodiff computes the logits of each part again.

    The gradient of the kernel is added up over the parts *in the dtype of the kernel*: in bfloat16 its error grows with
    the number of parts. `chunked_custom_gradient` adds it up in at least float32.

    Args:
        hidden: `[batch, seq, embed]`, floating point, finite.
        kernel: `[embed, vocab]`, floating point, finite; the products are summed in at least float32.
        targets: `[batch, seq]`, an integer dtype; a token is ignored whose target is not in the vocabulary.
        weights: `[batch, seq]`, floating point, finite.
        z_loss: the coefficient of the squared logarithm of the normaliser; not negative.
        chunks: into how many parts the sequence is cut.

    Returns:
        `loss` and `log_z`, `[batch, seq]` each, at least float32; split as the targets are.

    Raises:
        ValueError: the coefficient is negative or not finite, the chunks do not divide the sequence, the targets are
            not integers, or the shapes do not fit.
    """
    _check(hidden, kernel, targets, weights, z_loss, chunks)

    def losses(hidden: jax.Array, kernel: jax.Array, targets: jax.Array, weights: jax.Array) -> Losses:
        @jax.checkpoint
        def part(_: None, tokens: Tokens) -> tuple[None, Losses]:
            return None, _losses(z_loss, kernel, tokens)

        _, found = jax.lax.scan(part, None, _cut((hidden, targets, weights), chunks))
        return _joined(found)

    return _placed(losses, _like(loss=targets, log_z=targets))(hidden, kernel, targets, weights)


def chunked_custom_gradient(
    hidden: jax.Array,
    kernel: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    *,
    z_loss: float = 0.0,
    chunks: int = 1,
) -> Losses:
    """The losses part by part, with a derivative of its own that keeps the arguments and nothing else.

    The gradient of the kernel is added up over the parts in at least float32 and rounded once. There is no forward-mode
    derivative.

    Args:
        hidden: `[batch, seq, embed]`, floating point, finite.
        kernel: `[embed, vocab]`, floating point, finite; the products are summed in at least float32.
        targets: `[batch, seq]`, an integer dtype; a token is ignored whose target is not in the vocabulary.
        weights: `[batch, seq]`, floating point, finite.
        z_loss: the coefficient of the squared logarithm of the normaliser; not negative.
        chunks: into how many parts the sequence is cut.

    Returns:
        `loss` and `log_z`, `[batch, seq]` each, at least float32; split as the targets are.

    Raises:
        ValueError: the coefficient is negative or not finite, the chunks do not divide the sequence, the targets are
            not integers, or the shapes do not fit.
    """
    _check(hidden, kernel, targets, weights, z_loss, chunks)
    return _own(z_loss, chunks, hidden, kernel, targets, weights)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _own(z_loss: float, chunks: int, *arguments: jax.Array) -> Losses:
    def losses(hidden: jax.Array, kernel: jax.Array, targets: jax.Array, weights: jax.Array) -> Losses:
        def part(_: None, tokens: Tokens) -> tuple[None, Losses]:
            return None, _losses(z_loss, kernel, tokens)

        return _joined(jax.lax.scan(part, None, _cut((hidden, targets, weights), chunks))[1])

    targets = arguments[2]
    return _placed(losses, _like(loss=targets, log_z=targets))(*arguments)


def _own_forward(z_loss: float, chunks: int, *arguments: jax.Array) -> tuple[Losses, tuple[jax.Array, ...]]:
    return _own(z_loss, chunks, *arguments), arguments


def _own_backward(z_loss: float, chunks: int, saved: tuple[jax.Array, ...], cotangents: Losses) -> tuple[Any, ...]:
    hidden, kernel, _, weights = saved

    def gradients(cotangents: Losses, *saved: jax.Array) -> dict[str, jax.Array]:
        hidden, kernel, targets, weights = saved
        wide = jnp.promote_types(hidden.dtype, jnp.float32)
        step = functools.partial(_pull_part, z_loss, kernel)
        parts = _cut(((hidden, targets, weights), cotangents), chunks)
        to_kernel, found = jax.lax.scan(step, jnp.zeros(kernel.shape, wide), parts)
        return {"kernel": to_kernel.astype(kernel.dtype), **_joined(found)}

    pulled = _placed(gradients, _like(hidden=hidden, kernel=kernel, weights=weights))(cotangents, *saved)
    return pulled["hidden"], pulled["kernel"], None, pulled["weights"]


_own.defvjp(_own_forward, _own_backward)


def _losses(z_loss: float, kernel: jax.Array, tokens: Tokens) -> Losses:
    """The losses of a part of the tokens."""
    shifted, top, is_target, counted = _logits(kernel, tokens)
    log_total = jnp.log(jnp.sum(jnp.exp(shifted), axis=-1))
    # Both terms lie near 0 for a token that is predicted well; `log_z` and the logit itself do not.
    entropy = log_total - jnp.sum(jnp.where(is_target, shifted, 0), axis=-1)
    log_z = log_total + top
    loss = tokens[2].astype(shifted.dtype) * (entropy + z_loss * jnp.square(log_z))
    return {"loss": jnp.where(counted, loss, 0), "log_z": jnp.where(counted, log_z, 0)}


def _pull_part(z_loss: float, kernel: jax.Array, to_kernel: jax.Array, part: Any) -> tuple[jax.Array, Any]:
    """The gradient of the kernel so far and that of a part of the tokens, added up; and those of the part's own."""
    (hidden, targets, weights), pulled = part
    shifted, top, is_target, counted = _logits(kernel, (hidden, targets, weights))
    powers = jnp.exp(shifted)
    total = jnp.sum(powers, axis=-1)
    log_z = jnp.log(total) + top
    to_loss, to_log_z = jnp.where(counted, pulled["loss"], 0), jnp.where(counted, pulled["log_z"], 0)
    to_token = to_loss * weights.astype(shifted.dtype)
    to_normaliser = to_token * (1 + 2 * z_loss * log_z) + to_log_z
    to_logits = powers * (to_normaliser / total)[..., None] - jnp.where(is_target, to_token[..., None], 0)
    to_hidden = jnp.einsum("bsv,dv->bsd", to_logits, kernel, preferred_element_type=shifted.dtype)
    to_kernel = to_kernel + jnp.einsum("bsd,bsv->dv", hidden, to_logits, preferred_element_type=shifted.dtype)
    entropy = jnp.log(total) - jnp.sum(jnp.where(is_target, shifted, 0), axis=-1)
    to_weights = to_loss * (entropy + z_loss * jnp.square(log_z))
    return to_kernel, {"hidden": to_hidden.astype(hidden.dtype), "weights": to_weights.astype(weights.dtype)}


def _logits(kernel: jax.Array, tokens: Tokens) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The logits less their largest, the largest, where the targets are, and which tokens count."""
    hidden, targets, _ = tokens
    wide = jnp.promote_types(hidden.dtype, jnp.float32)
    logits = jnp.einsum("bsd,dv->bsv", hidden, kernel, preferred_element_type=wide)
    top = jax.lax.stop_gradient(jnp.max(logits, axis=-1))
    is_target = targets[..., None] == jnp.arange(kernel.shape[1])
    counted = (targets >= 0) & (targets < kernel.shape[1])
    return logits - top[..., None], top, is_target, counted


def _cut(tokens: Any, chunks: int) -> Any:
    """Arrays `[batch, seq, ...]` in parts `[chunks, batch, seq / chunks, ...]`."""
    return jax.tree.map(lambda x: jnp.moveaxis(x.reshape(x.shape[0], chunks, -1, *x.shape[2:]), 1, 0), tokens)


def _joined(parts: Any) -> Any:
    """The way back from `_cut`."""
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1, *x.shape[3:]), parts)


def _placed(function: Callable[..., Any], out_sharding: dict[str, Any]) -> Callable[..., Any]:
    """The function with its scan and its sums over a split vocabulary left to the compiler, if shardings are types."""
    return jax.sharding.auto_axes(function, out_sharding=out_sharding)


def _like(**arrays: jax.Array) -> dict[str, Any]:
    """How outputs lie: as these arrays do."""
    return {name: jax.typeof(array).sharding for name, array in arrays.items()}


def _check(
    hidden: jax.Array, kernel: jax.Array, targets: jax.Array, weights: jax.Array, z_loss: float, chunks: int
) -> None:
    if not (math.isfinite(z_loss) and z_loss >= 0):
        raise ValueError(f"z_loss is {z_loss}; expected a finite number of at least 0")
    if not jnp.issubdtype(targets.dtype, jnp.integer):
        raise ValueError(f"targets have dtype {targets.dtype}; expected an integer dtype")
    if hidden.ndim != 3 or kernel.ndim != 2 or hidden.shape[-1] != kernel.shape[0]:
        raise ValueError(
            f"hidden and kernel have shapes {hidden.shape} and {kernel.shape}; expected [batch, seq, embed], "
            "[embed, vocab]"
        )
    if not targets.shape == weights.shape == hidden.shape[:2]:
        raise ValueError(
            f"targets and weights have shapes {targets.shape} and {weights.shape}; expected {hidden.shape[:2]}, one "
            "per token"
        )
    if chunks < 1 or hidden.shape[1] % chunks:
        raise ValueError(f"chunks is {chunks}; expected a divisor of the sequence's {hidden.shape[1]} tokens")
