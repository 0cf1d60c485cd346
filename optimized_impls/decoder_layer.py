"""The same decoder layer in Flax Linen: written in Linen, and as the NNX module in a wrapper for Linen.

`linen` names every submodule, so that the names of a checkpoint are those of the NNX layer. `bridged` is what a model
does on its way from one to the other: `nnx.bridge.ToLinen` makes the NNX module anew in every call, initialisers and
all, and then overwrites what it finds by name. It keeps the fresh value of a name that is missing and only warns of one
that it does not know; so both sides look at the names themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx
from jax.sharding import AxisType


def linen(x: jax.Array, *, heads: int, hidden: int, epsilon: float = 1e-6, **weights: Any) -> jax.Array:
    """The layer's output, from `@nn.compact` modules with names of their own.

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

    Source: MaxText pull request 3922, item 12; Flax documentation, `flax.linen.compact`.
    """
    _check_heads(x, heads)
    return _applied(_Layer(heads=heads, hidden=hidden, epsilon=epsilon, dtype=x.dtype), x, weights)


def bridged(x: jax.Array, *, heads: int, hidden: int, epsilon: float = 1e-6, **weights: Any) -> jax.Array:
    """The layer's output, from an NNX module in `nnx.bridge.ToLinen`.

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

    Source: Flax documentation, "Use Flax NNX and Linen together"; MaxText pull request 3922, item 12.
    """
    _check_heads(x, heads)
    sizes = (x.shape[-1], heads, hidden, epsilon, x.dtype)
    # Without a box around every array: what comes back from `init` has the form of what goes in.
    return _applied(nnx.bridge.ToLinen(_Held, args=sizes, metadata_fn=None), x, weights)


class _Layer(nn.Module):
    heads: int
    hidden: int
    epsilon: float
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.RMSNorm(epsilon=self.epsilon, dtype=self.dtype, name="pre_attention_norm")(x)
        x = x + _Attention(heads=self.heads, dtype=self.dtype, name="attention")(y)
        y = nn.RMSNorm(epsilon=self.epsilon, dtype=self.dtype, name="pre_mlp_norm")(x)
        return x + _Mlp(hidden=self.hidden, dtype=self.dtype, name="mlp")(y)


class _Attention(nn.Module):
    heads: int
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (self.heads, x.shape[-1] // self.heads)
        query = nn.DenseGeneral(shape, use_bias=False, dtype=self.dtype, name="query")(x)
        key = nn.DenseGeneral(shape, use_bias=False, dtype=self.dtype, name="key")(x)
        value = nn.DenseGeneral(shape, use_bias=False, dtype=self.dtype, name="value")(x)
        # Not `nn.dot_product_attention`, whose softmax is in the dtype of the query.
        wide = jnp.promote_types(x.dtype, jnp.float32)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=wide) / shape[1] ** 0.5
        past = jnp.tril(jnp.ones(scores.shape[2:], bool))
        mixing = nn.softmax(jnp.where(past, scores, -jnp.inf), axis=-1).astype(x.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", mixing, value)
        return nn.DenseGeneral(x.shape[-1], axis=(-2, -1), use_bias=False, dtype=self.dtype, name="out")(y)


class _Mlp(nn.Module):
    hidden: int
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        gate = nn.Dense(self.hidden, use_bias=False, dtype=self.dtype, name="gate")(x)
        up = nn.Dense(self.hidden, use_bias=False, dtype=self.dtype, name="up")(x)
        return nn.Dense(x.shape[-1], use_bias=False, dtype=self.dtype, name="down")(nn.silu(gate) * up)


class _Held(nnx.Module):
    """The layer in NNX, for the wrapper."""

    def __init__(self, embed: int, heads: int, hidden: int, epsilon: float, dtype: Any, rngs: nnx.Rngs) -> None:
        self.pre_attention_norm = nnx.RMSNorm(embed, epsilon=epsilon, dtype=dtype, rngs=rngs)
        self.attention = _HeldAttention(embed, heads, dtype, rngs)
        self.pre_mlp_norm = nnx.RMSNorm(embed, epsilon=epsilon, dtype=dtype, rngs=rngs)
        self.mlp = _HeldMlp(embed, hidden, dtype, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        attended = x + self.attention(self.pre_attention_norm(x))
        return attended + self.mlp(self.pre_mlp_norm(attended))


class _HeldAttention(nnx.Module):
    def __init__(self, embed: int, heads: int, dtype: Any, rngs: nnx.Rngs) -> None:
        shape = (heads, embed // heads)
        for name in ("query", "key", "value"):
            setattr(self, name, nnx.LinearGeneral(embed, shape, use_bias=False, dtype=dtype, rngs=rngs))
        self.out = nnx.LinearGeneral(shape, embed, axis=(-2, -1), use_bias=False, dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        query, key, value = (getattr(self, name)(x) for name in ("query", "key", "value"))
        wide = jnp.promote_types(x.dtype, jnp.float32)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=wide) / key.shape[-1] ** 0.5
        allowed = jnp.tril(jnp.ones(scores.shape[2:], bool))
        mixing = nnx.softmax(jnp.where(allowed, scores, -jnp.inf), axis=-1).astype(x.dtype)
        found: jax.Array = self.out(jnp.einsum("bhqk,bkhd->bqhd", mixing, value))
        return found


class _HeldMlp(nnx.Module):
    def __init__(self, embed: int, hidden: int, dtype: Any, rngs: nnx.Rngs) -> None:
        self.gate = nnx.Linear(embed, hidden, use_bias=False, dtype=dtype, rngs=rngs)
        self.up = nnx.Linear(embed, hidden, use_bias=False, dtype=dtype, rngs=rngs)
        self.down = nnx.Linear(hidden, embed, use_bias=False, dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        found: jax.Array = self.down(nnx.silu(self.gate(x)) * self.up(x))
        return found


def _check_heads(x: jax.Array, heads: int) -> None:
    if x.ndim != 3 or heads < 1 or x.shape[-1] % heads:
        raise ValueError(f"x has shape {x.shape} and heads is {heads}; expected [batch, seq, a multiple of heads]")


def _applied(layer: nn.Module, x: jax.Array, weights: Mapping[str, Any]) -> jax.Array:
    """The module on weights that have the names and shapes of its own."""
    shapes = _shapes(layer, x.shape[-1])
    given = _leaves(weights)
    for path in shapes:
        if path not in given:
            raise ValueError(f"weights lack '{path}'; they have {', '.join(sorted(given)) or 'none'}")
    for path, array in given.items():
        if path not in shapes:
            raise ValueError(f"weights have '{path}', which the layer has not; expected {', '.join(sorted(shapes))}")
        if jnp.shape(array) != shapes[path]:
            raise ValueError(f"'{path}' has shape {jnp.shape(array)}; expected {shapes[path]}")

    def run(x: jax.Array, given: dict[str, jax.Array]) -> Any:
        found: Any = layer.apply({"params": _nested(given)}, x)
        return found

    if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
        run = jax.sharding.auto_axes(run, out_sharding=jax.typeof(x).sharding.spec)
    found: jax.Array = run(x, given)
    return found


@functools.cache
def _shapes(layer: nn.Module, embed: int) -> dict[str, tuple[int, ...]]:
    """The parameters' shapes by path; nothing is initialised."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    made = jax.eval_shape(layer.init, key, jax.ShapeDtypeStruct((1, 1, embed), jnp.float32))
    return {path: leaf.shape for path, leaf in _leaves(made["params"]).items()}


def _leaves(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of nested mappings by their paths, whether keys are names or paths."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        inner = _leaves(value) if isinstance(value, Mapping) else {"": value}
        found.update({f"{name}/{path}".removesuffix("/"): leaf for path, leaf in inner.items()})
    return found


def _nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *above, name = path.split("/")
        place = tree
        for step in above:
            place = place.setdefault(step, {})
        place[name] = leaf
    return tree
