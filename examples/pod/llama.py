"""A decoder with the structure of Llama-3.1-405B and its training step, at scaled widths.

126 layers in a scan: RMSNorm, attention with grouped heads and rotary positions, SwiGLU; AdamW. Parameters are sharded
over `fsdp` and `tensor`, the batch over `fsdp`, the sequence over `context`.

Source: Grattafiori et al., "The Llama 3 Herd of Models", 2024 (arXiv 2407.21783), table 3.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from sharding import at, einsum

LAYERS, BASE, EPSILON = 126, 500_000.0, 1e-5
WIDTH, HEADS, GROUPS, HEAD, HIDDEN, VOCABULARY = 64, 16, 8, 4, 128, 128
"""Scaled from 16384, 128, 8, 128, 53248 and 128256."""

SHAPES: dict[str, tuple[int, ...]] = {
    "embedding": (VOCABULARY, WIDTH),
    "attention_norm": (LAYERS, WIDTH),
    "query": (LAYERS, WIDTH, HEADS, HEAD),
    "key": (LAYERS, WIDTH, GROUPS, HEAD),
    "value": (LAYERS, WIDTH, GROUPS, HEAD),
    "output": (LAYERS, HEADS, HEAD, WIDTH),
    "mlp_norm": (LAYERS, WIDTH),
    "gate": (LAYERS, WIDTH, HIDDEN),
    "up": (LAYERS, WIDTH, HIDDEN),
    "down": (LAYERS, HIDDEN, WIDTH),
    "final_norm": (WIDTH,),
    "unembedding": (WIDTH, VOCABULARY),
}
SPECS = {
    "embedding": P("tensor", "fsdp"),
    "attention_norm": P(),
    "query": P(None, "fsdp", "tensor"),
    "key": P(None, "fsdp", "tensor"),
    "value": P(None, "fsdp", "tensor"),
    "output": P(None, "tensor", None, "fsdp"),
    "mlp_norm": P(),
    "gate": P(None, "fsdp", "tensor"),
    "up": P(None, "fsdp", "tensor"),
    "down": P(None, "tensor", "fsdp"),
    "final_norm": P(),
    "unembedding": P("fsdp", "tensor"),
}
TOKENS = ("fsdp", "context")
"""How tokens lie on the mesh: batch, sequence."""


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPSILON) * scale


def rotary(x: jax.Array) -> jax.Array:
    """Rotate pairs of `[batch, sequence, heads, head]` by their positions."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * BASE ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def attention(x: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
    """Causal attention, whose keys and values are gathered over the sequence."""
    query, key, value = (
        einsum("bsd,dhk->bshk", x, at(layer[name], None, "tensor", None), *TOKENS, "tensor", None)
        for name in ("query", "key", "value")
    )
    key, value = (at(part, "fsdp", None, "tensor", None) for part in (rotary(key), value))
    query = rotary(query).reshape(*query.shape[:2], GROUPS, HEADS // GROUPS, HEAD)
    scores = einsum("bsgrk,btgk->bgrst", query, key, "fsdp", "tensor", None, "context", None) * HEAD**-0.5
    positions = jnp.arange(x.shape[1])
    scores = jnp.where(positions[:, None] >= positions, scores, -1e30)
    mixed = einsum("bgrst,btgk->bsgrk", jax.nn.softmax(scores, -1), value, *TOKENS, "tensor", None, None).reshape(
        *x.shape[:2], HEADS, HEAD
    )
    return einsum("bshk,hkd->bsd", mixed, at(layer["output"], "tensor", None, None), *TOKENS, None)


def mlp(x: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
    """SwiGLU."""
    gate, up = (einsum("bsd,df->bsf", x, at(layer[name], None, "tensor"), *TOKENS, "tensor") for name in ("gate", "up"))
    return einsum("bsf,fd->bsd", jax.nn.silu(gate) * up, at(layer["down"], "tensor", None), *TOKENS, None)


def loss(params: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """Return the mean cross entropy of the next tokens."""
    names = [name for name in SHAPES if len(SHAPES[name]) > 1 and SHAPES[name][0] == LAYERS]
    targets = at(jnp.roll(tokens, -1, 1), *TOKENS)
    x = at(params["embedding"], None, None)[at(tokens, *TOKENS)]

    @jax.checkpoint
    def layer(x: jax.Array, weights: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        x = x + attention(norm(x, weights["attention_norm"]), weights)
        return x + mlp(norm(x, weights["mlp_norm"]), weights), None

    x, _ = jax.lax.scan(layer, at(x, *TOKENS, None), {name: params[name] for name in names})
    logits = einsum(
        "bsd,dv->bsv", norm(x, params["final_norm"]), at(params["unembedding"], None, "tensor"), *TOKENS, "tensor"
    )
    picked = jnp.sum(jnp.where(jnp.arange(VOCABULARY) == targets[..., None], logits, 0), -1)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def step(
    params: dict[str, jax.Array], first: dict[str, jax.Array], second: dict[str, jax.Array], tokens: jax.Array
) -> Any:
    """Return the loss, and parameters and moments after one step of AdamW."""
    value, grads = jax.value_and_grad(loss)(params, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)
    params = jax.tree.map(
        lambda p, m, v: p - 1e-3 * (m / 0.1 / (jnp.sqrt(v / 0.05) + 1e-8) + 0.1 * p), params, first, second
    )
    return value, params, first, second
