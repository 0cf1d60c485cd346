"""Plain functions in the style of public trainers; `rewritten.py` has the same mathematics in other forms."""

from typing import Any

import jax
import jax.numpy as jnp


def rms_norm(x: Any, scale: Any) -> Any:
    variance = jnp.mean(x * x, axis=-1, keepdims=True)
    return x / jnp.sqrt(variance + 1e-6) * scale


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def rope(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    frequency = 10000.0 ** (-jnp.arange(half) / half)
    angle = positions[:, :, None, None] * frequency
    cos = jnp.concatenate([jnp.cos(angle)] * 2, -1)
    sin = jnp.concatenate([jnp.sin(angle)] * 2, -1)
    rotated = jnp.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cos + rotated * sin


def attention(q: Any, k: Any, v: Any) -> Any:
    repeats = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, repeats, 2), jnp.repeat(v, repeats, 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    scores = 30.0 * jnp.tanh(scores / 30.0)
    row, column = jnp.arange(q.shape[1])[:, None], jnp.arange(k.shape[1])[None, :]
    seen = (column <= row) & (row - column < 3)
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def moe(x: Any, router: Any, w_in: Any, w_out: Any) -> Any:
    probabilities = jax.nn.softmax(x @ router, -1)
    weights, chosen = jax.lax.top_k(probabilities, 2)
    weights = weights / weights.sum(-1, keepdims=True)
    out = jnp.zeros_like(x)
    for expert in range(router.shape[1]):
        share = (weights * (chosen == expert)).sum(-1)
        hidden = jax.nn.silu(x @ w_in[expert])
        out = out + share[:, None] * (hidden @ w_out[expert])
    load = jnp.stack([(chosen == expert).sum() / x.shape[0] for expert in range(router.shape[1])])
    balance = router.shape[1] * (load * probabilities.mean(0)).sum()
    return out, balance


def cross_entropy(logits: Any, labels: Any, mask: Any) -> Any:
    log_z = jax.scipy.special.logsumexp(logits, -1)
    right = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0]
    loss = log_z - right + 1e-4 * log_z**2
    return (loss * mask).sum() / mask.sum()


def adamw(w: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.95 * v + 0.05 * g**2
    m_hat, v_hat = m / (1 - 0.9**3), v / (1 - 0.95**3)
    step = m_hat / (jnp.sqrt(v_hat) + 1e-8) + 0.1 * w
    return w - 3e-4 * step, m, v


def clipped(g: Any, w: Any) -> Any:
    norm = jnp.sqrt(jnp.sum(g * g) + jnp.sum(w * w))
    factor = jnp.minimum(1.0, 0.5 / norm)
    return g * factor, w * factor


def lora(x: Any, w: Any, a: Any, b: Any) -> Any:
    return x @ w + (x @ a) @ b * (16.0 / a.shape[1])


def quantised(x: Any, w: Any) -> Any:
    scale = jnp.max(jnp.abs(w), axis=0) / 127.0
    whole = jnp.clip(jnp.round(w / scale), -127, 127)
    return x @ (whole * scale)


def layers(x: Any, w: Any, scale: Any) -> Any:
    for layer in range(w.shape[0]):
        h = rms_norm(x, scale[layer])
        x = x + jnp.tanh(h @ w[layer]) * 0.5
    return x


def accumulated(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    return jax.grad(loss)(w)


def swiglu(x: Any, gate: Any, up: Any) -> Any:
    return jax.nn.silu(x @ gate) * (x @ up)


def mlp(x: Any, w_in: Any, w_out: Any) -> Any:
    return jax.nn.gelu(x @ w_in, approximate=True) @ w_out


def prefix(x: Any, decay: Any) -> Any:
    state = jnp.zeros_like(x[0])
    states = []
    for t in range(x.shape[0]):
        state = jax.nn.sigmoid(decay) * state + (1 - jax.nn.sigmoid(decay)) * x[t]
        states.append(state)
    return jnp.stack(states)


def distill(student: Any, teacher: Any) -> Any:
    target = jax.lax.stop_gradient(jax.nn.softmax(teacher / 2.0, -1))
    loss = -(target * jax.nn.log_softmax(student / 2.0, -1)).sum(-1).mean()
    return loss + 0.1 * jnp.mean((student - teacher) ** 2)
