"""A decoder with the structure of Llama-3.1-405B and its training step, at scaled widths.

126 layers in a scan: RMSNorm, attention with grouped heads and rotary positions, SwiGLU; AdamW. Parameters are sharded
over `fsdp` and `tensor`, the batch over `fsdp`, the sequence over `context`.

Source: Grattafiori et al., "The Llama 3 Herd of Models", 2024 (arXiv 2407.21783), table 3.
"""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from layers import Params, adamw, at, cross_entropy, einsum, norm, rotary, rows, softmax_of_earlier

LAYERS, BASE = 126, 500_000.0
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
FIXED: dict[str, tuple[int, ...]] = {}
"""What a step takes and leaves as it is."""

TOKENS = ("fsdp", "context")
"""How tokens lie on the mesh: batch, sequence."""


def attention(x: jax.Array, layer: Params) -> jax.Array:
    """Causal attention, whose keys and values are gathered over the sequence."""
    query, key, value = (
        einsum("bsd,dhk->bshk", x, at(layer[name], None, "tensor", None), *TOKENS, "tensor", None)
        for name in ("query", "key", "value")
    )
    key, value = (at(part, "fsdp", None, "tensor", None) for part in (rotary(key, BASE), value))
    query = rotary(query, BASE).reshape(*query.shape[:2], GROUPS, HEADS // GROUPS, HEAD)
    scores = einsum("bsgrk,btgk->bgrst", query, key, "fsdp", "tensor", None, "context", None) * HEAD**-0.5
    mixed = einsum("bgrst,btgk->bsgrk", softmax_of_earlier(scores), value, *TOKENS, "tensor", None, None)
    mixed = mixed.reshape(*x.shape[:2], HEADS, HEAD)
    return einsum("bshk,hkd->bsd", mixed, at(layer["output"], "tensor", None, None), *TOKENS, None)


def mlp(x: jax.Array, layer: Params) -> jax.Array:
    """SwiGLU."""
    gate, up = (einsum("bsd,df->bsf", x, at(layer[name], None, "tensor"), *TOKENS, "tensor") for name in ("gate", "up"))
    return einsum("bsf,fd->bsd", jax.nn.silu(gate) * up, at(layer["down"], "tensor", None), *TOKENS, None)


def loss(params: Params, tokens: jax.Array) -> jax.Array:
    """Return the mean cross entropy of the next tokens."""
    names = [name for name in SHAPES if len(SHAPES[name]) > 1 and SHAPES[name][0] == LAYERS]
    targets = at(jnp.roll(at(tokens, "fsdp", None), -1, 1), *TOKENS)

    @jax.checkpoint
    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        x = x + attention(norm(x, weights["attention_norm"]), weights)
        return x + mlp(norm(x, weights["mlp_norm"]), weights), None

    x = rows(at(params["embedding"], None, None), at(tokens, *TOKENS), *TOKENS, None)
    x, _ = jax.lax.scan(layer, x, {name: params[name] for name in names})
    logits = einsum(
        "bsd,dv->bsv", norm(x, params["final_norm"]), at(params["unembedding"], None, "tensor"), *TOKENS, "tensor"
    )
    return cross_entropy(logits, targets)


def step(
    params: Params, first: Params, second: Params, fixed: Params, tokens: jax.Array
) -> tuple[jax.Array, Params, Params, Params]:
    """Return the loss, and parameters and moments after one step of AdamW."""
    value, grads = jax.value_and_grad(loss)(params, tokens)
    return value, *adamw(params, first, second, grads)
