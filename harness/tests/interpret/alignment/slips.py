"""Slips as they happen, each one line of `trainer/rewritten.py` changed: the right answer is that line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Slip:
    """One planted fault.

    Args:
        function: that it is planted into.
        old, new: what stands once in the file, and what stands there instead.
        direction: in which the outputs differ: only the gradient where the forward outputs are the same.
    """

    function: str
    old: str
    new: str
    direction: Literal["forward", "gradient"] = "forward"


SLIPS = (
    # RMSNorm and LayerNorm
    Slip("rms_norm", "square.sum(-1, keepdims=True) / x.shape[-1]", "square.sum(-1, keepdims=True)"),
    Slip("rms_norm", "rsqrt(variance + 1e-6)", "rsqrt(variance + 1e-5)"),
    Slip("rms_norm", "return x * inverse * scale", "return x * inverse * (1 + scale)"),
    Slip("layer_norm", "jnp.mean(jnp.square(x), -1, keepdims=True)", "jnp.mean(jnp.square(x), 0, keepdims=True)"),
    Slip("layer_norm", "variance = second - jnp.square(mean)", "variance = second - mean"),
    Slip("layer_norm", "return scale * normal + bias", "return scale * (normal + bias)"),
    # rope
    Slip("rope", "exponent = jnp.arange(half) / half", "exponent = jnp.arange(half) / x.shape[-1]"),
    Slip("rope", "1.0 / 10000.0**exponent", "1.0 / 1000.0**exponent"),
    Slip("rope", "second * cos + first * sin", "second * cos - first * sin"),
    Slip("rope", "jnp.concatenate([low, high], -1)", "jnp.concatenate([high, low], -1)"),
    # attention
    Slip("attention", "causal = row >= column", "causal = row > column"),
    Slip("attention", "near = row < column + 3", "near = row <= column + 3"),
    Slip("attention", "q = q * width**-0.5", "q = q * (groups * width)**-0.5"),
    Slip("attention", "jnp.tanh(scores / 30.0) * 30.0", "jnp.tanh(scores / 50.0) * 50.0"),
    Slip("attention", "total = exponents.sum(-1)", "total = exponents.sum(-2)"),
    Slip("attention", "q.reshape(batch, length, groups, heads // groups, width)",
         "q.reshape(batch, length, heads // groups, groups, width).swapaxes(2, 3)"),
    Slip("attention", "top = jax.lax.stop_gradient(scores.max(-1, keepdims=True))", "top = 0.5 * scores"),
    # mixture of experts
    Slip("moe", "total = jnp.sum(weights, -1, keepdims=True)", "total = jnp.sum(probabilities, -1, keepdims=True)"),
    Slip("moe", "jax.lax.top_k(probabilities, 2)\n    total", "jax.lax.top_k(logits, 2)\n    total"),
    Slip("moe", "hidden * jax.nn.sigmoid(hidden)", "hidden * jax.nn.sigmoid(1.702 * hidden)"),
    Slip("moe", 'jnp.einsum("tef,efd->ted", hidden, w_out)', 'jnp.einsum("tef,edf->ted", hidden, w_out)'),
    Slip("moe", "load = mine.sum((0, 1)) / x.shape[0]", "load = mine.mean((0, 1))"),
    Slip("moe", "jnp.sum(load * share) * router.shape[1]", "jnp.mean(load * share) * router.shape[1]"),
    # cross-entropy
    Slip("cross_entropy", "loss = loss + 1e-4 * jnp.square(log_z)", "loss = loss + 1e-4 * log_z"),
    Slip("cross_entropy", "return jnp.sum(loss) / jnp.sum(mask)", "return jnp.mean(loss)"),
    Slip("cross_entropy", "jax.nn.one_hot(labels, logits.shape[-1])", "jax.nn.one_hot(labels - 1, logits.shape[-1])"),
    # optimiser
    Slip("adamw", "v_hat = v / (1 - 0.95**3)", "v_hat = v / (1 - 0.95**2)"),
    Slip("adamw", "update = m_hat / (root + 1e-8)", "update = m / (root + 1e-8)"),
    Slip("adamw", "update = update + 0.1 * w", "update = update + 0.1 * 3e-4 * w"),
    Slip("clipped", "norm = jnp.sqrt(sum(squares))", "norm = sum(map(jnp.sqrt, squares))"),
    # adapters and quantisation
    Slip("lora", "merged = w + scale * (a @ b)", "merged = w + a @ b"),
    Slip("quantised", "largest = jnp.abs(w).max(0, keepdims=True)", "largest = jnp.abs(w).max(1, keepdims=True).T"),
    Slip("quantised", "whole = jnp.round(w / scale)", "whole = jnp.floor(w / scale)"),
    # loops
    Slip("layers", "h = rms_norm(x, factor)", "h = x * factor"),
    Slip("layers", "jax.lax.scan(body, x, (w, scale))[0]", "jax.lax.scan(body, x, (w, scale), reverse=True)[0]"),
    Slip("accumulated", "return total + gradient / 2, None", "return total + gradient, None"),
    Slip("prefix", "keep * state + (1 - keep) * x[t]", "keep * state + (1 - keep) * x[t - 1]"),
    Slip("prefix", "jax.lax.fori_loop(0, x.shape[0], body, start)[1]",
         "jax.lax.fori_loop(0, x.shape[0] - 1, body, start)[1]"),
    # gradients and shards
    Slip("swiglu", "slope = s + a * s * (1 - s)", "slope = s + s * (1 - s)", "gradient"),
    Slip("swiglu", "return ct * b * slope, ct * a * s", "return ct * b * slope, ct * a", "gradient"),
    Slip("distill", "target = jax.lax.stop_gradient(target)", "target = target * 1", "gradient"),
    Slip("distill", "error = student - teacher", "error = student - jax.lax.stop_gradient(teacher)", "gradient"),
    Slip("mlp", 'return jax.lax.psum(part, "tensor")', 'return jax.lax.psum(part, "data")'),
    Slip("mlp", 'return jax.lax.psum(part, "tensor")', 'return jax.lax.pmean(part, "tensor")'),
)  # fmt: skip
