"""A decoder layer as a Flax NNX module, whose parameters are arrays created with the module.

Source: the layer is that of Touvron et al., "Llama 2", 2023 (arXiv 2307.09288, section 2.2) without rotary positions;
Flax documentation, "Flax Basics" (NNX). NNX parameters are found by attribute paths: the names of a checkpoint.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx as flax_nnx
from jax.sharding import AxisType


def nnx(x: jax.Array, *, heads: int, hidden: int, epsilon: float = 1e-6, **weights: Any) -> jax.Array:
    """The layer's output, its weights taken by the names of the checkpoint.

    Equivalent to, with `norm(x, scale) = x / sqrt(mean(x**2) + epsilon) * scale`:

        y = norm(x, pre_attention_norm.scale)
        query, key, value = (einsum("bse,ehd->bshd", y, kernel) for kernel in attention.{query, key, value})
        scores = einsum("bqhd,bkhd->bhqk", query, key) / sqrt(head_dim), -inf where k > q
        x = x + einsum("bqhd,hde->bqe", softmax(scores) @ value, attention.out)
        y = norm(x, pre_mlp_norm.scale)
        out = x + (silu(y @ mlp.gate) * (y @ mlp.up)) @ mlp.down

    Squares, scores and the softmax are in at least float32; all else is in the dtype of x.

    Args:
        x: [batch, seq, embed], floating point.
        heads: of the attention, all of embed // heads elements.
        hidden: the width of the MLP.
        epsilon: of both norms.
        weights: a tree of nested mappings, or arrays by path (`"mlp/up/kernel"`), or both: `pre_attention_norm/scale`
            and `pre_mlp_norm/scale` [embed]; `attention/{query,key,value}/kernel` [embed, heads, head_dim];
            `attention/out/kernel` [heads, head_dim, embed]; `mlp/{gate,up}/kernel` [embed, hidden] and
            `mlp/down/kernel` [hidden, embed]; any floating dtype.

    Returns:
        [batch, seq, embed] in the dtype of x, split as x is.

    Raises:
        ValueError: embed does not divide by heads, or a parameter is missing, not known, or of another shape.
    """
    embed = x.shape[-1]
    if x.ndim != 3 or heads < 1 or embed % heads:
        raise ValueError(f"x has shape {x.shape} and heads is {heads}; expected [batch, seq, a multiple of heads]")
    graph, parameters = _abstract(embed, heads, hidden, epsilon, x.dtype)
    given = _by_path(weights)
    _check(given, {path: leaf.shape for path, leaf in parameters.items()})

    def run(x: jax.Array, given: dict[str, jax.Array]) -> jax.Array:
        filled: Any = {tuple(path.split("/")): leaf.replace(given[path]) for path, leaf in parameters.items()}
        found: jax.Array = flax_nnx.merge(graph, flax_nnx.from_flat_state(filled))(x)
        return found

    if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
        return jax.sharding.auto_axes(run, out_sharding=jax.typeof(x).sharding.spec)(x, given)
    return run(x, given)


@functools.cache
def _abstract(embed: int, heads: int, hidden: int, epsilon: float, dtype: Any) -> tuple[Any, dict[str, Any]]:
    """The module without numbers: nothing is initialised, so nothing can stand in for a weight that does not come."""
    layer = flax_nnx.eval_shape(lambda: _Layer(embed, heads, hidden, epsilon, dtype, flax_nnx.Rngs(0)))
    graph, state = flax_nnx.split(layer)
    return graph, {"/".join(map(str, path)): leaf for path, leaf in flax_nnx.to_flat_state(state)}


class _Layer(flax_nnx.Module):
    def __init__(self, embed: int, heads: int, hidden: int, epsilon: float, dtype: Any, rngs: flax_nnx.Rngs) -> None:
        self.pre_attention_norm = flax_nnx.RMSNorm(embed, epsilon=epsilon, dtype=dtype, rngs=rngs)
        self.attention = _Attention(embed, heads, dtype, rngs)
        self.pre_mlp_norm = flax_nnx.RMSNorm(embed, epsilon=epsilon, dtype=dtype, rngs=rngs)
        self.mlp = _Mlp(embed, hidden, dtype, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.pre_attention_norm(x))
        return x + self.mlp(self.pre_mlp_norm(x))


class _Attention(flax_nnx.Module):
    def __init__(self, embed: int, heads: int, dtype: Any, rngs: flax_nnx.Rngs) -> None:
        def to_heads() -> flax_nnx.LinearGeneral:
            return flax_nnx.LinearGeneral(embed, (heads, embed // heads), use_bias=False, dtype=dtype, rngs=rngs)

        self.query, self.key, self.value = to_heads(), to_heads(), to_heads()
        self.out = flax_nnx.LinearGeneral(
            (heads, embed // heads), embed, axis=(-2, -1), use_bias=False, dtype=dtype, rngs=rngs
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        query, key, value = self.query(x), self.key(x), self.value(x)
        wide = jnp.promote_types(x.dtype, jnp.float32)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=wide) / query.shape[-1] ** 0.5
        causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        mixing = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1).astype(x.dtype)
        found: jax.Array = self.out(jnp.einsum("bhqk,bkhd->bqhd", mixing, value))
        return found


class _Mlp(flax_nnx.Module):
    def __init__(self, embed: int, hidden: int, dtype: Any, rngs: flax_nnx.Rngs) -> None:
        self.gate = flax_nnx.Linear(embed, hidden, use_bias=False, dtype=dtype, rngs=rngs)
        self.up = flax_nnx.Linear(embed, hidden, use_bias=False, dtype=dtype, rngs=rngs)
        self.down = flax_nnx.Linear(hidden, embed, use_bias=False, dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        found: jax.Array = self.down(jax.nn.silu(self.gate(x)) * self.up(x))
        return found


def _by_path(tree: Mapping[str, Any], above: str = "") -> dict[str, jax.Array]:
    """The arrays of nested mappings by their paths."""
    found: dict[str, jax.Array] = {}
    for name, inner in tree.items():
        found.update(_by_path(inner, f"{above}{name}/") if isinstance(inner, Mapping) else {f"{above}{name}": inner})
    return found


def _check(given: Mapping[str, jax.Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Every name of the layer is there, no other, each of its shape."""
    for path in shapes:
        if path not in given:
            raise ValueError(f"weights lack '{path}'; they have {', '.join(sorted(given)) or 'none'}")
    for path, array in given.items():
        if path not in shapes:
            raise ValueError(f"weights have '{path}', which the layer has not; expected {', '.join(sorted(shapes))}")
        if jnp.shape(array) != shapes[path]:
            raise ValueError(f"'{path}' has shape {jnp.shape(array)}; expected {shapes[path]}")
