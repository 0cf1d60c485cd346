"""Cross entropy over a vocabulary, written as its definition: all logits at once, their log-softmax, one entry picked.

Source: the loss with the z-loss term of Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022 (arXiv
2204.02311), section 5: the square of the logarithm of the normaliser, times a coefficient, keeps it near 0.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def log_softmax(
    hidden: jax.Array,
    kernel: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    *,
    z_loss: float = 0.0,
    chunks: int = 1,
) -> dict[str, jax.Array]:
    """The weighted loss of each token, and the logarithm of its normaliser.

    Equivalent to `weights * (-log_softmax(hidden @ kernel)[targets] + z_loss * log_z**2)` with `log_z` the `logsumexp`
    of the logits. A token is ignored whose target is not in the vocabulary (-1, -100): `loss` and `log_z` are 0, and so
    is its gradient, whatever its weight. A weight of 0 is a factor like any other. Nothing is divided by the sum of the
    weights; who adds up the losses does that.

    Args:
        hidden: `[batch, seq, embed]`, floating point, finite.
        kernel: `[embed, vocab]`, floating point, finite; the products are summed in at least float32.
        targets: `[batch, seq]`, an integer dtype.
        weights: `[batch, seq]`, floating point, finite.
        z_loss: the coefficient of the squared logarithm of the normaliser; not negative.
        chunks: into how many parts the sequence is cut; not used here, one signature serves all forms.

    Returns:
        `loss` and `log_z`, `[batch, seq]` each, at least float32; split as the targets are.

    Raises:
        ValueError: the coefficient is negative or not finite, the chunks do not divide the sequence, the targets are
            not integers, or the shapes do not fit.
    """
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

    def losses(hidden: jax.Array, kernel: jax.Array, targets: jax.Array, weights: jax.Array) -> dict[str, jax.Array]:
        wide = jnp.promote_types(hidden.dtype, jnp.float32)
        logits = jnp.einsum("bsd,dv->bsv", hidden, kernel, preferred_element_type=wide)
        is_target = targets[..., None] == jnp.arange(kernel.shape[1])
        entropy = -jnp.sum(jnp.where(is_target, jax.nn.log_softmax(logits), 0), axis=-1)
        log_z = jax.nn.logsumexp(logits, axis=-1)
        counted = (targets >= 0) & (targets < kernel.shape[1])
        loss = weights.astype(wide) * (entropy + z_loss * jnp.square(log_z))
        return {"loss": jnp.where(counted, loss, 0), "log_z": jnp.where(counted, log_z, 0)}

    # A vocabulary that is split over devices is summed across them: where shardings are part of types, the compiler
    # places these sums.
    per_token = jax.typeof(targets).sharding
    placed = jax.sharding.auto_axes(losses, out_sharding={"loss": per_token, "log_z": per_token})
    return placed(hidden, kernel, targets, weights)
