"""Compile a whole train step for a TPU slice, from shapes alone: Llama-2-7B widths, AdamW, FSDP over every device.

Prints the facts per device, the seconds, and the peak memory of this process. Example:

    python benchmarks/whole_step.py --target v5p:2x2x1 --layers 32
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from samebits import compile_for, target_mesh

WIDTH, HIDDEN, HEADS, VOCAB = 4096, 11008, 32, 32000
"""Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models", 2023 (arXiv 2307.09288), 7B."""

Tree = dict[str, Any]


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """The parameters of all layers, stacked for the scan."""
    square, wide = (layers, WIDTH, WIDTH), (layers, WIDTH, HIDDEN)
    attention = dict.fromkeys(("query", "key", "value", "out"), square)
    mlp = {"gate": wide, "up": wide, "down": (layers, HIDDEN, WIDTH)}
    norms = {"norm_attention": (layers, WIDTH), "norm_mlp": (layers, WIDTH)}
    return {**attention, **mlp, **norms, "embed": (VOCAB, WIDTH), "head": (WIDTH, VOCAB), "norm": (WIDTH,)}


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm, in float32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def rotary(x: jax.Array) -> jax.Array:
    """Rotary positions on halves of each head."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] / (10000.0 ** (jnp.arange(half) / half))
    cos, sin = jnp.cos(angle)[:, None].astype(x.dtype), jnp.sin(angle)[:, None].astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


@functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.nothing_saveable)
def layer(x: jax.Array, p: Tree) -> tuple[jax.Array, None]:
    """One decoder layer, recomputed in the backward pass."""
    batch, length, _ = x.shape
    h = norm(x, p["norm_attention"])
    q, k, v = ((h @ p[name]).reshape(batch, length, HEADS, -1) for name in ("query", "key", "value"))
    attended = jax.nn.dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
    x = x + attended.reshape(x.shape) @ p["out"]
    h = norm(x, p["norm_mlp"])
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], None


def loss(params: Tree, tokens: jax.Array) -> jax.Array:
    """Mean cross entropy of the next token."""
    stacked = {name: array for name, array in params.items() if name not in ("embed", "head", "norm")}
    x, _ = jax.lax.scan(layer, params["embed"][tokens[:, :-1]], stacked)
    logits = (norm(x, params["norm"]) @ params["head"]).astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def step(params: Tree, first: Tree, second: Tree, tokens: jax.Array) -> tuple[Tree, Tree, Tree, jax.Array]:
    """One step of AdamW: bfloat16 parameters, float32 moments."""
    value, gradients = jax.value_and_grad(loss)(params, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g.astype(jnp.float32), first, gradients)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g.astype(jnp.float32) ** 2, second, gradients)

    def updated(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return (p.astype(jnp.float32) * (1 - 3e-5) - 3e-4 * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype)

    return jax.tree.map(updated, params, first, second), first, second, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="v5p:2x2x1")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1, help="sequences per device")
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sequence")
    options = parser.parse_args()

    mesh = target_mesh(options.target, "fsdp*")

    def typed(dtype: Any) -> Tree:
        types = {}
        for name, shape in shapes(options.layers).items():
            split = PartitionSpec(*(None,) * (len(shape) - 1), "fsdp")
            types[name] = jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, split))
        return types

    batch = (options.batch * mesh.size, options.length + 1)
    tokens = jax.ShapeDtypeStruct(batch, jnp.int32, sharding=NamedSharding(mesh, PartitionSpec("fsdp")))
    params, moments = typed(jnp.bfloat16), typed(jnp.float32)
    layouts = [jax.tree.map(lambda type_: type_.sharding, tree) for tree in (params, moments, moments)]
    jitted = jax.jit(step, donate_argnums=(0, 1, 2), out_shardings=(*layouts, NamedSharding(mesh, PartitionSpec())))
    begin = time.perf_counter()
    facts = compile_for(jitted, params, moments, moments, tokens, mesh=mesh, target=options.target)
    seconds = time.perf_counter() - begin
    host_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{options.target}, {options.layers} layers, tokens {batch}, jax {jax.__version__}")
    for name in ("argument_bytes", "temp_bytes", "peak_bytes", "bytes_accessed", "wire_bytes"):
        value = getattr(facts, name)
        print(f"  {name:<15}", "no figure" if value is None else f"{value / 1e9:.1f} GB")
    print(f"  loops          {facts.while_loops} (trip count {facts.loop_turns})")
    print(f"  collectives    {dict(facts.collectives)}, on the SparseCore {dict(facts.sparsecore_operations)}")
    print(f"  program        {facts.program[:8]}")
    print(f"  {seconds:.1f} s ({facts.compile_seconds:.1f} s of compiling), {host_bytes / 1e9:.1f} GB of host memory")


if __name__ == "__main__":
    main()
