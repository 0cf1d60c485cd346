"""Layers at the sizes of real models, each written in two ways: what does a verdict on them take?

Run as `python examples/real/layers.py [LAYER ...] [--dtype float32] [--tokens N] [--budget SECONDS]`; by default `norm`
and `loss` in float32 and bfloat16, each in a process of its own. It prints the verdict, its time and the memory of its
process. `attention` with 512 tokens takes six minutes and 11 GiB on two cores. `experts` was not tried at full size:
its weights and gradients alone take 11 GB in float32.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))

import jax
import jax.numpy as jnp

import samebits

Shapes = dict[str, tuple[int, ...]]


class Layer(NamedTuple):
    """A layer in two ways.

    Args:
        reference, variant: both take the arrays of `shapes` by name.
        shapes: from a number of tokens to the shapes of the arguments.
        tokens: how many there are by default.
        integers: by argument, the end of its integers.
    """

    reference: Callable[..., jax.Array]
    variant: Callable[..., jax.Array]
    shapes: Callable[[int], Shapes]
    tokens: int
    integers: Mapping[str, int] = {}


# RMSNorm of width 4096.
def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm as it is defined."""
    wide = x.astype(jnp.float32)
    return (wide / jnp.sqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def norm_by_einsum(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm with its sum of squares as an einsum, and a reciprocal root."""
    wide = x.astype(jnp.float32)
    squares = jnp.einsum("...d,...d->...", wide, wide)[..., None]
    return (wide * jax.lax.rsqrt(squares / x.shape[-1] + 1e-6)).astype(x.dtype) * scale


# Cross entropy over a vocabulary of 128256.
def loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross entropy by the logarithm of a softmax."""
    logs = jax.nn.log_softmax(logits.astype(jnp.float32), -1)
    return -jnp.take_along_axis(logs, labels[:, None], -1)[:, 0]


def loss_by_one_hot(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross entropy by the logarithm of the sum, less the logit that a one-hot row picks."""
    wide = logits.astype(jnp.float32)
    picked = jnp.sum(wide * jax.nn.one_hot(labels, wide.shape[-1]), -1)
    return jax.scipy.special.logsumexp(wide, -1) - picked


# Attention of Llama-3-8B: width 4096, 32 heads of 128, 8 of keys and values.
HEADS, GROUPS = 32, 8


def heads(x: jax.Array, weight: jax.Array, count: int) -> jax.Array:
    """Project and split into heads, `[heads, tokens, width]`."""
    return jnp.swapaxes((x @ weight).reshape(x.shape[0], count, -1), 0, 1)


def attention(x: jax.Array, wq: jax.Array, wk: jax.Array, wv: jax.Array, wo: jax.Array) -> jax.Array:
    """Causal attention with keys and values of groups, its scores as a whole."""
    q, k, v = heads(x, wq, HEADS), heads(x, wk, GROUPS), heads(x, wv, GROUPS)
    k, v = (jnp.repeat(each, HEADS // GROUPS, 0) for each in (k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k).astype(jnp.float32) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[1:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), -1).astype(x.dtype)
    return jnp.swapaxes(jnp.einsum("hqk,hkd->hqd", weights, v), 0, 1).reshape(x.shape[0], -1) @ wo


def attention_in_blocks(
    x: jax.Array, wq: jax.Array, wk: jax.Array, wv: jax.Array, wo: jax.Array, block: int = 128
) -> jax.Array:
    """The same with one fused projection, block by block of keys, the softmax kept up to date."""
    q, k, v = jnp.split(x @ jnp.concatenate([wq, wk, wv], 1), [wq.shape[1], wq.shape[1] + wk.shape[1]], 1)
    tokens, width = x.shape[0], wq.shape[1] // HEADS
    q = q.reshape(tokens, GROUPS, HEADS // GROUPS, width).transpose(1, 2, 0, 3)
    k, v = (each.reshape(-1, min(block, tokens), GROUPS, width).transpose(0, 2, 1, 3) for each in (k, v))

    def one_block(carry: Any, this: Any) -> tuple[Any, None]:
        (most, total, sums), (number, keys, values) = carry, this
        scores = jnp.einsum("ghqd,gkd->ghqk", q, keys).astype(jnp.float32) / width**0.5
        places = number * keys.shape[1] + jnp.arange(keys.shape[1])
        scores = jnp.where(jnp.arange(tokens)[:, None] >= places, scores, -1e30)
        higher = jnp.maximum(most, scores.max(-1, keepdims=True))
        weights, kept = jnp.exp(scores - higher), jnp.exp(most - higher)
        added = jnp.einsum("ghqk,gkd->ghqd", weights.astype(x.dtype), values)
        return (higher, total * kept + weights.sum(-1, keepdims=True), sums * kept + added), None

    zeros = jnp.zeros((*q.shape[:3], 1), jnp.float32)
    start = zeros - 1e30, zeros, jnp.zeros(q.shape, jnp.float32)
    (_, total, sums), _ = jax.lax.scan(one_block, start, (jnp.arange(len(k)), k, v))
    return (sums / total).astype(x.dtype).transpose(2, 0, 1, 3).reshape(tokens, -1) @ wo


# A layer of experts as in Mixtral: 8 of them, width 4096, 14336 inside.
def experts(x: jax.Array, chosen: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """Every expert on every token, of which the chosen one counts."""
    every = jnp.einsum("tef,efd->ted", jax.nn.silu(jnp.einsum("td,edf->tef", x, up)), down)
    return jnp.einsum("te,ted->td", jax.nn.one_hot(chosen, up.shape[0], dtype=x.dtype), every)


def experts_by_sorting(x: jax.Array, chosen: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """Tokens in the order of their experts, ragged products, and back."""
    order = jnp.argsort(chosen)
    counts = jnp.bincount(chosen, length=up.shape[0]).astype(jnp.int32)
    hidden = jax.nn.silu(jax.lax.ragged_dot(x[order], up, counts))
    return jax.lax.ragged_dot(hidden, down, counts)[jnp.argsort(order)]


LAYERS = {
    "norm": Layer(norm, norm_by_einsum, lambda n: {"x": (n, 4096), "scale": (4096,)}, 4096),
    "loss": Layer(loss, loss_by_one_hot, lambda n: {"logits": (n, 128256), "labels": (n,)}, 64, {"labels": 128256}),
    "attention": Layer(
        attention,
        attention_in_blocks,
        lambda n: {"x": (n, 4096), "wq": (4096, 4096), "wk": (4096, 1024), "wv": (4096, 1024), "wo": (4096, 4096)},
        512,
    ),
    "experts": Layer(
        experts,
        experts_by_sorting,
        lambda n: {"x": (n, 4096), "chosen": (n,), "up": (8, 4096, 14336), "down": (8, 14336, 4096)},
        64,
        {"chosen": 8},
    ),
}


def arrays(layer: Layer, tokens: int, dtype: Any, scale: Callable[[int], int] = lambda size: size) -> dict[str, Any]:
    """Draw the arguments of a layer; weights have the spread of an initialisation."""
    rng, drawn = np.random.default_rng(0), dict[str, Any]()
    for name, shape in layer.shapes(tokens).items():
        shape = tuple(map(scale, shape))
        if name in layer.integers:
            drawn[name] = rng.integers(0, scale(layer.integers[name]), shape).astype(np.int32)
        else:
            spread = 1.0 if len(shape) < 2 or shape[0] == tokens else shape[-2] ** -0.5
            drawn[name] = jnp.asarray(rng.normal(scale=spread, size=shape), dtype)
    return drawn


def row(name: str, dtype: str, tokens: int | None, budget: float | None) -> str:
    """Check one layer, and return its line of the table."""
    layer = LAYERS[name]
    given = arrays(layer, tokens or layer.tokens, dtype)
    begin = time.perf_counter()
    compared = samebits.check(layer.reference, layer.variant, *given.values(), budget=budget)
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    of = f"{tokens or layer.tokens} tokens, {dtype}"
    return f"{name:<10} {of:<24} {seconds:7.0f} s {memory:6.1f} GiB  {compared.verdict}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", choices=[[], *LAYERS])
    parser.add_argument("--dtype", action="append", choices=["float32", "bfloat16"])
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--budget", type=float)
    chosen = parser.parse_args()
    dtypes, names = chosen.dtype or ["float32", "bfloat16"], chosen.layers or ["norm", "loss"]
    if len(dtypes) == len(names) == 1:
        print(row(names[0], dtypes[0], chosen.tokens, chosen.budget), flush=True)
        return
    more = [f"--{word}={value}" for word in ("tokens", "budget") if (value := getattr(chosen, word)) is not None]
    for name in names:
        for dtype in dtypes:  # in a process of its own: the memory is of one alone
            subprocess.run([sys.executable, __file__, name, f"--dtype={dtype}", *more], check=False)


if __name__ == "__main__":
    main()
