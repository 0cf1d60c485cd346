"""A decoder with the structure of DeepSeek-V3 and its training step, at scaled widths.

3 dense layers, then 58 with a mixture of 256 experts, of which a token asks 8, and one expert that all ask; multi-head
latent attention; AdamW. Parameters are sharded over `fsdp`, experts over `expert`, the batch over both. On a mesh rows
travel to their experts by a ragged all-to-all (`optimized_impls.moe.sparse`); the plain model is `reference_impls.moe`.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024 (arXiv 2412.19437), sections 2.1 and 4.2.
"""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from layers import Params, adamw, at, cross_entropy, einsum, norm, rotary, rows, softmax_of_earlier

from optimized_impls.moe import sparse
from reference_impls.moe import dense

DENSE, LAYERS, BASE = 3, 58, 10_000.0
EXPERTS, CHOSEN, GROUPS, CHOSEN_GROUPS, SCALING, BALANCE = 256, 8, 8, 4, 2.5, 1e-4
WIDTH, HEADS, QUERY_RANK, RANK, HEAD, ROTARY, HIDDEN, EXPERT_HIDDEN, VOCABULARY = 32, 8, 8, 8, 4, 2, 64, 2, 128
"""Scaled from 7168, 128, 1536, 512, 128, 64, 18432, 2048 and 129280."""

ATTENTION: dict[str, tuple[int, ...]] = {
    "attention_norm": (WIDTH,),
    "query_down": (WIDTH, QUERY_RANK),
    "query_norm": (QUERY_RANK,),
    "query_up": (QUERY_RANK, HEADS, HEAD + ROTARY),
    "latent_down": (WIDTH, RANK + ROTARY),
    "latent_norm": (RANK,),
    "latent_up": (RANK, HEADS, HEAD + HEAD),
    "output": (HEADS, HEAD, WIDTH),
    "mlp_norm": (WIDTH,),
}
DENSE_MLP = {"gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
SHARED_MLP = {"gate": (WIDTH, EXPERT_HIDDEN), "up": (WIDTH, EXPERT_HIDDEN), "down": (EXPERT_HIDDEN, WIDTH)}
MIXTURE = {
    "router": (WIDTH, EXPERTS),
    "expert_gate": (EXPERTS, WIDTH, EXPERT_HIDDEN),
    "expert_up": (EXPERTS, WIDTH, EXPERT_HIDDEN),
    "expert_down": (EXPERTS, EXPERT_HIDDEN, WIDTH),
}
FIRST = ATTENTION | DENSE_MLP
REST = ATTENTION | SHARED_MLP | MIXTURE
SHAPES = (
    {"embedding": (VOCABULARY, WIDTH), "final_norm": (WIDTH,), "unembedding": (WIDTH, VOCABULARY)}
    | {f"first_{name}": (DENSE, *shape) for name, shape in FIRST.items()}
    | {f"rest_{name}": (LAYERS, *shape) for name, shape in REST.items()}
)
FIXED = {"bias": (LAYERS, EXPERTS)}
"""What a step takes and leaves as it is: by how much each expert is preferred."""

BATCH = ("fsdp", "expert")
TOKENS = (BATCH, None)
"""How tokens lie on the mesh: batch, sequence."""


def _spec(name: str, shape: tuple[int, ...]) -> P:
    if "norm" in name:
        return P()
    own = ["expert" if "expert" in name and axis == 1 else None for axis in range(len(shape))]
    own[shape.index(WIDTH)] = "fsdp"
    return P(*own)


SPECS = {name: _spec(name, shape) if WIDTH in shape else P() for name, shape in SHAPES.items()}


def attention(x: jax.Array, layer: Params) -> jax.Array:
    """Multi-head latent attention, causal: keys and values are made of one small vector for each token."""
    query = norm(x @ at(layer["query_down"], None, None), layer["query_norm"])
    query = einsum("bsr,rhk->bshk", query, layer["query_up"], *TOKENS, None, None)
    latent = x @ at(layer["latent_down"], None, None)
    pair = einsum(
        "bsr,rhk->bshk", norm(latent[..., :RANK], layer["latent_norm"]), layer["latent_up"], *TOKENS, None, None
    )
    places = jnp.broadcast_to(rotary(latent[..., None, RANK:], BASE), (*x.shape[:2], HEADS, ROTARY))
    key, value = jnp.concatenate([pair[..., :HEAD], places], -1), pair[..., HEAD:]
    query = jnp.concatenate([query[..., :HEAD], rotary(query[..., HEAD:], BASE)], -1)
    scores = jnp.einsum("bshk,bthk->bhst", query, key) * (HEAD + ROTARY) ** -0.5
    mixed = jnp.einsum("bhst,bthk->bshk", softmax_of_earlier(scores), value)
    return einsum("bshk,hkd->bsd", mixed, at(layer["output"], None, None, None), *TOKENS, None)


def mlp(x: jax.Array, layer: Params) -> jax.Array:
    """SwiGLU."""
    gate, up, down = (at(layer[name], None, None) for name in ("gate", "up", "down"))
    return at((jax.nn.silu(x @ gate) * (x @ up)) @ down, *TOKENS, None)


def by_row(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
    """Multiply each row by the kernel of its own expert; `ragged_dot` is a custom call on a TPU, which is not run."""
    expert = jnp.sum(jnp.arange(rows.shape[0])[:, None] >= jnp.cumsum(sizes), 1)
    return jnp.einsum("nd,ndf->nf", rows, kernels.at[expert].get(mode="clip"))


def mixture(x: jax.Array, layer: Params, bias: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the answers of the experts, and the balance loss."""
    weights = (layer[name] for name in ("expert_gate", "expert_up", "expert_down"))
    on_mesh = not jax.sharding.get_abstract_mesh().empty
    found = (sparse if on_mesh else dense)(
        x,
        layer["router"],
        bias,
        *weights,
        grouped_matmul=by_row if on_mesh else None,
        top_k=CHOSEN,
        routing="group_limited",
        groups=GROUPS,
        top_groups=CHOSEN_GROUPS,
        scaling=SCALING,
    )
    return found["out"] + mlp(x, layer), found["balance_loss"]


def loss(params: Params, biases: jax.Array, tokens: jax.Array) -> jax.Array:
    """Return the mean cross entropy of the next tokens, and a little of the balance loss."""
    first, rest = (
        {name.removeprefix(group): each for name, each in params.items() if name.startswith(group)}
        for group in ("first_", "rest_")
    )

    @jax.checkpoint
    def dense_layer(x: jax.Array, layer: Params) -> tuple[jax.Array, None]:
        x = x + attention(norm(x, layer["attention_norm"]), layer)
        return x + mlp(norm(x, layer["mlp_norm"]), layer), None

    @jax.checkpoint
    def layer(x: jax.Array, weights: tuple[Params, jax.Array]) -> tuple[jax.Array, jax.Array]:
        layer, bias = weights
        x = x + attention(norm(x, layer["attention_norm"]), layer)
        answers, balance = mixture(norm(x, layer["mlp_norm"]), layer, bias)
        return x + answers, balance

    x = rows(at(params["embedding"], None, None), at(tokens, *TOKENS), *TOKENS, None)
    x, _ = jax.lax.scan(dense_layer, x, first)
    x, balance = jax.lax.scan(layer, x, (rest, biases))
    logits = norm(x, params["final_norm"]) @ at(params["unembedding"], None, None)
    return cross_entropy(logits, at(jnp.roll(tokens, -1, 1), *TOKENS)) + BALANCE * jnp.sum(balance)


def step(
    params: Params, first: Params, second: Params, fixed: Params, tokens: jax.Array
) -> tuple[jax.Array, Params, Params, Params]:
    """Return the loss, and parameters and moments after one step of AdamW."""
    value, grads = jax.value_and_grad(loss)(params, fixed["bias"], tokens)
    return value, *adamw(params, first, second, grads)
