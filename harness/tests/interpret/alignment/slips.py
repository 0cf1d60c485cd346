"""Slips as they happen, each one line of `trainer/rewritten.py` changed: the right answer is that line."""

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


FIRST = (
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
"""The slips with which the search was developed."""

LATER = (
    Slip("rms_norm", "inverse = jax.lax.rsqrt(variance + 1e-6)", "inverse = 1 / (jnp.sqrt(variance) + 1e-6)"),
    Slip("rms_norm", "square = jnp.square(x)", "square = jnp.square(x - x.mean(-1, keepdims=True))"),
    Slip("layer_norm", "normal = (x - mean) * jax.lax.rsqrt(variance + 1e-5)",
         "normal = (x - mean) * jax.lax.rsqrt(variance + 1e-6)"),
    Slip("layer_norm", "mean = jnp.mean(x, -1, keepdims=True)", "mean = jnp.sum(x, -1, keepdims=True)"),
    Slip("rope", "cos, sin = jnp.cos(angle), jnp.sin(angle)", "cos, sin = jnp.sin(angle), jnp.cos(angle)"),
    Slip("rope", "first, second = jnp.split(x, 2, -1)", "first, second = x[..., ::2], x[..., 1::2]"),
    Slip("rope", 'angle = jnp.einsum("bt,f->btf", positions, frequency)[:, :, None]',
         'angle = jnp.einsum("bt,f->btf", positions + 1, frequency)[:, :, None]'),
    Slip("attention", "scores = jnp.where(causal & near, scores, -1e30)",
         "scores = jnp.where(causal | near, scores, -1e30)"),
    Slip("attention", "scores = jnp.where(causal & near, scores, -1e30)",
         "scores = jnp.where(causal & near, scores, 0.0)"),
    Slip("attention", "exponents = jnp.exp(scores - top)", "exponents = jnp.exp2(scores - top)"),
    Slip("attention", "out = out / total.transpose(0, 3, 1, 2)[..., None]",
         "out = out / total.transpose(0, 3, 2, 1)[..., None].reshape(*total.transpose(0, 3, 1, 2).shape, 1)"),
    Slip("moe", "weights = weights / total\n", "weights = weights / jnp.square(total)\n"),
    Slip("moe", 'combine = jnp.einsum("tk,tke->te", weights, mine)',
         'combine = jnp.einsum("tk,tke->te", weights[:, ::-1], mine)'),
    Slip("moe", "share = jnp.mean(probabilities, 0)", "share = jnp.mean(combine, 0)"),
    Slip("cross_entropy", "right = jnp.sum(logits * hot, -1)", "right = jnp.sum((logits - top) * hot, -1)"),
    Slip("cross_entropy", "loss = loss * mask", "loss = loss * (1 - mask)"),
    Slip("cross_entropy", "log_z = jnp.log(jnp.exp(logits - top).sum(-1)) + top[:, 0]",
         "log_z = jnp.log(jnp.exp(logits - top).mean(-1)) + top[:, 0]"),
    Slip("adamw", "m = m + 0.1 * (g - m)", "m = m + 0.1 * g"),
    Slip("adamw", "root = jnp.sqrt(v_hat)", "root = jnp.sqrt(v)"),
    Slip("adamw", "return w - 3e-4 * update, m, v", "return w + 3e-4 * update, m, v"),
    Slip("clipped", "factor = jnp.where(norm > 0.5, 0.5 / norm, 1.0)",
         "factor = jnp.where(norm < 0.5, 0.5 / norm, 1.0)"),
    Slip("quantised", "whole = jnp.clip(whole, -127, 127)", "whole = jnp.clip(whole, -100, 100)"),
    Slip("quantised", "scale = largest / 127.0", "scale = largest / 128.0"),
    Slip("layers", "return x + 0.5 * h, None", "return x - 0.5 * h, None"),
    Slip("layers", "h = jnp.tanh(h @ weight)", "h = jnp.tanh(h @ weight.T)"),
    Slip("prefix", "states = states.at[t].set(state)", "states = states.at[t].set(keep * state)"),
    Slip("prefix", "keep = jax.nn.sigmoid(decay)", "keep = jax.nn.softplus(decay)"),
    Slip("mlp", "hidden = jax.nn.gelu(hidden, approximate=True)", "hidden = jax.nn.gelu(hidden, approximate=False)"),
    Slip("distill", "soft = -jnp.sum(target * log_p) / student.shape[0]", "soft = -jnp.mean(target * log_p)"),
)  # fmt: skip
"""Slips that were written when the search was done, and for which nothing in it was changed but for two of them: one
ended with an exception, and of one the search looked at the elements that are taken before the products of them."""

SLIPS = FIRST + LATER
