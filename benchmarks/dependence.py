"""Seconds that the properties of a decoder layer and of a whole decoder take, and each leak of the tests' specimens.

Run as `python benchmarks/dependence.py [POSITIONS]`; 256 by default.
"""

import inspect
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")  # of the specimens on meshes

import jax
import jax.numpy as jnp
import numpy as np

import samebits
from tests.properties.specimens import SPECIMENS
from tests.properties.specimens.specimen import Specimen
from tests.properties.threads import THREADS

BATCH, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCABULARY, LAYERS = 2, 64, 4, 2, 128, 512, 8
SHAPES = {
    "query": (WIDTH, HEADS, WIDTH // HEADS),
    "key": (WIDTH, KV_HEADS, WIDTH // HEADS),
    "value": (WIDTH, KV_HEADS, WIDTH // HEADS),
    "out": (HEADS, WIDTH // HEADS, WIDTH),
    "gate": (WIDTH, HIDDEN),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}

Array = Any


def drawn(seed: int, *shape: int) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) / WIDTH**0.5).astype(np.float32)


def weights(seed: int) -> dict[str, Array]:
    return {name: drawn(seed + number, *shape) for number, (name, shape) in enumerate(SHAPES.items())}


def norm(x: Array) -> Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def rotated(x: Array, positions: Array) -> Array:
    half = x.shape[-1] // 2
    angles = positions[..., None, None] * 1e4 ** (-jnp.arange(half) / half)
    first, second, cos, sin = x[..., :half], x[..., half:], jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def layer(x: Array, w: Array, positions: Array, segments: Array, ahead: int = 0) -> Array:
    """Attention with grouped keys and rotary positions, and a gated MLP; `ahead` is how far the mask is off."""
    h = norm(x)
    query, key = (rotated(jnp.einsum("btd,dhe->bthe", h, w[name]), positions) for name in ("query", "key"))
    value = jnp.einsum("btd,dhe->bthe", h, w["value"])
    key, value = (jnp.repeat(each, HEADS // KV_HEADS, 2) for each in (key, value))
    scores = jnp.einsum("bthe,bshe->bhts", query, key) * query.shape[-1] ** -0.5
    place = jnp.arange(x.shape[1])
    mask = (place[:, None] >= place - ahead) & (segments[:, None, :, None] == segments[:, None, None, :])
    x = x + jnp.einsum("bhts,bshe,hed->btd", jax.nn.softmax(jnp.where(mask, scores, -1e30)), value, w["out"])
    h = norm(x)
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]


def decoder(tokens: Array, table: Array, w: Array, positions: Array, segments: Array) -> Array:
    def step(x: Array, own: Array) -> tuple[Array, None]:
        return layer(x, own, positions, segments), None

    return jax.lax.scan(step, table[tokens], w)[0] @ table.T


def printed(name: str, decide: Callable[..., Any], *args: Any, **options: Any) -> float:
    begin = time.perf_counter()
    outcome = decide(*args, **options)
    seconds = time.perf_counter() - begin
    print(f"  {name}: {outcome.verdict}, {seconds:.1f} s", flush=True)
    return seconds


def specimen(case: Specimen) -> float:
    """Return the seconds of one specimen."""
    keywords, arguments = dict(case.keywords), case.arguments()
    if case.property.startswith("gradient"):
        (keywords["param"],) = keywords.pop("on")

    def function(*arrays: Any) -> Any:
        return case.function(*arrays)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    vars(function)["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in arguments])
    begin = time.perf_counter()
    outcome = getattr(samebits, case.property)(function, *arguments.values(), **keywords)
    assert outcome.verdict == ("refuted" if case.leaks else "proved"), outcome
    return time.perf_counter() - begin


def main() -> None:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), (BATCH, length)).copy()
    ends = [0, *[1] * (length - 2), 2]
    segments = np.array([np.arange(length) * 4 // length, ends], np.int32)
    x, w = drawn(0, BATCH, length, WIDTH), weights(1)
    print(f"a layer, {length} positions, forward and gradient")
    for name in ("causal", "batch_rows"):
        printed(name, getattr(samebits, name), layer, x, w, positions, segments, on="x")
    printed("packed", samebits.packed, layer, x, w, positions, segments, segment_ids="segments", on="x")
    printed("causal, a mask off by one", samebits.causal, layer, x, w, positions, segments, ahead=1, on="x")
    print(f"a decoder of {LAYERS} layers, forward")
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, length)).astype(np.int32)
    stacked = jax.tree.map(lambda *each: np.stack(each), *[weights(10 * number) for number in range(LAYERS)])
    table = drawn(9, VOCABULARY, WIDTH)
    printed("causal", samebits.causal, decoder, tokens, table, stacked, positions, segments, on="tokens")
    for leaks in (True, False):
        seconds = [specimen(case) for case in (*SPECIMENS, *THREADS) if case.leaks == leaks]
        what, verdict = ("leaks", "refuted") if leaks else ("honest forms", "proved")
        middle = sorted(seconds)[len(seconds) // 2]
        print(f"{len(seconds)} {what} {verdict}: {middle:.1f} s each in the median, {max(seconds):.1f} s at most")


if __name__ == "__main__":
    main()
