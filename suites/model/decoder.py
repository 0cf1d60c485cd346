"""The decoder: embedding, layers of attention and experts (or a dense MLP), a last norm, a head.

Sources: the layer is that of Touvron et al., "Llama 2" (arXiv 2307.09288, section 2.2), with rotary positions (Su et
al., "RoFormer", arXiv 2104.09864, section 3.4); the experts are those of Shazeer et al. (arXiv 1701.06538, section 2).
Everything that has a pair is called by the pair's name in `parts`; the rest is written out.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from samebits import Parts

from .layout import BATCH, HIDDEN, gathered, lay, product
from .settings import Settings


class Layer(nnx.Module):
    """One layer: x + attention(norm(x)), then x + experts(norm(x))."""

    def __init__(self, s: Settings, dtype: Any, parts: Parts, rng: np.random.Generator | None) -> None:
        def weights(*shape: int, fan_in: int) -> Any:
            return nnx.Param(_normal(rng, shape, s, fan_in**-0.5))

        self.s, self.dtype, self.parts = s, dtype, parts
        self.attention_norm = nnx.Param(np.ones(s.embed, jnp.dtype(s.weight_dtype)))
        self.query = weights(s.embed, s.heads, s.head_dim, fan_in=s.embed)
        self.key = weights(s.embed, s.kv_heads, s.head_dim, fan_in=s.embed)
        self.value = weights(s.embed, s.kv_heads, s.head_dim, fan_in=s.embed)
        self.out = weights(s.heads, s.head_dim, s.embed, fan_in=s.heads * s.head_dim)
        self.mlp_norm = nnx.Param(np.ones(s.embed, jnp.dtype(s.weight_dtype)))
        if s.experts:
            self.router = weights(s.embed, s.experts, fan_in=s.embed)
            self.router_bias = nnx.Param(_normal(rng, (s.experts,), s, 0.1))
            self.w_gate = weights(s.experts, s.embed, s.hidden, fan_in=s.embed)
            self.w_up = weights(s.experts, s.embed, s.hidden, fan_in=s.embed)
            self.w_down = weights(s.experts, s.hidden, s.embed, fan_in=s.hidden)
        else:
            self.mlp_gate = weights(s.embed, s.hidden, fan_in=s.embed)
            self.mlp_up = weights(s.embed, s.hidden, fan_in=s.embed)
            self.mlp_down = weights(s.hidden, s.embed, fan_in=s.hidden)

    def __call__(self, x: jax.Array, positions: jax.Array, segments: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The layer's output, [batch, seq, embed], and its load-balance loss, a float32 number."""
        x = x + self._attention(self._norm("attention_norm", x), positions, segments)
        change, balance = (self._experts if self.s.experts else self._mlp)(self._norm("mlp_norm", x))
        return x + change, balance

    def _norm(self, name: str, x: jax.Array) -> jax.Array:
        return self.parts["rms_norm"](x, getattr(self, name)[...], epsilon=self.s.epsilon)

    def _use(self, name: str) -> jax.Array:
        return gathered(f"layers/{name}", getattr(self, name)[...], self.dtype)

    def _attention(self, x: jax.Array, positions: jax.Array, segments: jax.Array) -> jax.Array:
        spec = (BATCH, "context", "tensor", None)
        query, key, value = (product("bse,ehd->bshd", x, self._use(name), *spec) for name in ("query", "key", "value"))
        mixed = self.parts["attention"](
            rotate(query, positions),
            rotate(key, positions),
            value,
            positions,
            segments,
            window=self.s.window,
            block=self.s.block,
            balanced=self.s.balanced,
        )
        return product("bshd,hde->bse", mixed, self._use("out"), *HIDDEN)

    def _experts(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        kernels = [self._use(name) for name in ("router", "router_bias", "w_gate", "w_up", "w_down")]
        found = self.parts["moe"](
            x,
            *kernels,
            top_k=self.s.top_k,
            routing=self.s.routing,
            grouped_matmul=self.parts["grouped_matmul"],
            weight_sum=self._weight_sum,
        )
        return found["out"], found["balance_loss"]

    def _weight_sum(self, rows: jax.Array, weights: jax.Array) -> jax.Array:
        return self.parts["expert_weight_sum"](rows.reshape(-1, rows.shape[-1]), weights)

    def _mlp(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        spec = (BATCH, "context", "tensor")
        gate, up = (product("bse,eh->bsh", x, self._use(name), *spec) for name in ("mlp_gate", "mlp_up"))
        return product("bsh,he->bse", jax.nn.silu(gate) * up, self._use("mlp_down"), *HIDDEN), jnp.zeros(
            (), jnp.float32
        )


class Decoder(nnx.Module):
    """All layers, their parameters stacked as [repeats, stages, layers_per_stage, ...], in order of execution."""

    def __init__(self, s: Settings, dtype: Any, stages: int, parts: Parts, rng: np.random.Generator | None) -> None:
        self.s, self.dtype, self.stages, self.parts = s, dtype, stages, parts
        self.embedding = nnx.Param(_normal(rng, (s.vocab, s.embed), s, 1.0))
        # Layers whose parts differ are other programs over weights of one form.
        forms = [_at(parts, f"layer{number}") for number in range(1, s.layers + 1)]
        layers = [nnx.split(Layer(s, dtype, form, rng)) for form in forms]
        distinct = [number for number, form in enumerate(forms) if form not in forms[:number]]
        self.graphs = nnx.static(tuple(layers[number][0] for number in distinct))
        self.forms = nnx.static(tuple([forms[number] for number in distinct].index(form) for form in forms))
        stack = jnp.stack if rng is None else np.stack
        stacked = jax.tree.map(lambda *leaves: stack(leaves), *(state for _, state in layers))
        self.layers = nnx.data(jax.tree.map(lambda x: x.reshape(s.repeats, stages, -1, *x.shape[1:]), stacked))
        self.final_norm = nnx.Param(np.ones(s.embed, jnp.dtype(s.weight_dtype)))
        if not s.tied:
            self.head = nnx.Param(_normal(rng, (s.embed, s.vocab), s, s.embed**-0.5))

    def __call__(self, tokens: jax.Array, positions: jax.Array, segments: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The hidden states before the head, [batch, seq, embed], and the sum of the layers' load-balance losses."""
        table = gathered("embedding", self.embedding[...], self.dtype)
        x = lay(self.parts["embedding"](tokens, table), *HIDDEN)
        weights = self.layers
        if len(self.graphs) > 1:
            weights = weights, jnp.asarray(self.forms, jnp.int32).reshape(self.s.repeats, self.stages, -1)
        found = self.parts["pipeline"](
            x,
            positions,
            segments,
            weights,
            stages=self.stages,
            microbatches=self.s.microbatches,
            repeats=self.s.repeats,
            layer=_recomputed(self._layer, self.s.remat),
        )
        norm = _at(self.parts, "final")["rms_norm"]
        x = norm(lay(found["out"], *HIDDEN), self.final_norm[...], epsilon=self.s.epsilon)
        return x, found["extra"]

    def kernel(self) -> jax.Array:
        """The head's kernel, [embed, vocab]; of a tied head, the transposed table."""
        if self.s.tied:
            return gathered("embedding", self.embedding[...], self.dtype).T
        return gathered("head", self.head[...], self.dtype)

    def _layer(self, weights: Any, x: jax.Array, positions: jax.Array, segments: jax.Array) -> Any:
        if len(self.graphs) == 1:
            return nnx.merge(self.graphs[0], weights)(x, positions, segments)
        weights, form = weights
        ways = [lambda *args, graph=graph: nnx.merge(graph, args[0])(*args[1:]) for graph in self.graphs]
        return jax.lax.switch(form, ways, weights, x, positions, segments)


def rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary positions: element pairs (i, i + half) turn by `position * 10000**(-i / half)`; in float32, rounded once.

    Args:
        x: [batch, seq, heads, head_dim].
        positions: [batch, seq].
    """
    half = x.shape[-1] // 2
    angle = positions[..., None, None] * jnp.asarray(10000.0, jnp.float32) ** (-jnp.arange(half) / half)
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def _recomputed(layer: Any, remat: str) -> Any:
    if remat == "none":
        return layer
    policy = jax.checkpoint_policies.dots_saveable if remat == "dots" else None
    return jax.checkpoint(layer, policy=policy)


def _at(parts: Parts, site: str) -> Parts:
    """The parts that are used at a site: those chosen for it alone, else those chosen for all."""
    return {name: parts.get(f"{name}@{site}", part) for name, part in parts.items() if "@" not in name}


def _normal(rng: np.random.Generator | None, shape: tuple[int, ...], s: Settings, scale: float) -> Any:
    """Drawn by NumPy: the same numbers on every mesh and with every jax, and nothing to compile.

    Without a generator there are no numbers: that is for shapes alone, under `jax.eval_shape`.
    """
    if rng is None:
        return jnp.zeros(shape, s.weight_dtype)
    return (scale * rng.standard_normal(shape)).astype(jnp.dtype(s.weight_dtype))
