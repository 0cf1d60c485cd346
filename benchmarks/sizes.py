"""What a verdict on two functions costs beside running both: attention at growing lengths, and one program twice.

Run as `python benchmarks/sizes.py [LENGTH ...]`; without lengths 16, 256 and 512. The unit is both sides compiled and
run once, forward and gradient. It prints ratios of one run, and the exponent by which both grow with the length from
256 on; it asserts nothing.
"""

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import jax
import jax.numpy as jnp

import samebits

LENGTHS = (16, 256, 512)
GROWN_FROM = 256
WIDE = 2048
"""From this length on there are 8 heads of 128, as in a real layer, and else 4 of 64."""


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Attention as einsums and a softmax."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


def normalised_late(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Attention whose rows are divided by their sums at the end."""
    scores = (q / q.shape[-1] ** 0.5) @ jnp.swapaxes(k, -1, -2)
    weights = jnp.exp(scores - jnp.max(scores, -1, keepdims=True))
    return (weights @ v) / jnp.sum(weights, -1, keepdims=True)


def einsum(x: jax.Array, w: jax.Array) -> jax.Array:
    """A layer as an einsum."""
    return jnp.einsum("bsd,df->bsf", x, w)


def matmul(x: jax.Array, w: jax.Array) -> jax.Array:
    """The same layer as a product of matrices."""
    return x @ w


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def executed(sides: tuple[Callable[..., Any], ...], arrays: tuple[Any, ...]) -> tuple[float, float]:
    """How long both sides take with their gradients: compiled and run, and run again."""
    programs: list[Callable[[], object]] = []

    def compile_and_run() -> None:
        for side in sides:
            output = jax.eval_shape(side, *arrays)
            cotangent = np.ones(output.shape, output.dtype)

            def pulled(given: Any, *args: Any, side: Any = side) -> Any:
                return jax.vjp(side, *args)[1](given)

            forward = jax.jit(side).lower(*arrays).compile()
            gradient = jax.jit(pulled).lower(cotangent, *arrays).compile()
            programs.append(lambda forward=forward: forward(*arrays))  # type: ignore[misc]
            programs.append(lambda gradient=gradient, cotangent=cotangent: gradient(cotangent, *arrays))  # type: ignore[misc]
        run()

    def run() -> None:
        jax.block_until_ready([program() for program in programs])

    return seconds(compile_and_run), seconds(run)


def row(name: str, sides: tuple[Callable[..., Any], ...], arrays: tuple[Any, ...]) -> tuple[float, float]:
    """Print one line; the seconds of the verdict and of both sides run."""
    whole, again = executed(sides, arrays)
    verdict = ""

    def check() -> None:
        nonlocal verdict
        verdict = samebits.check(*sides, *arrays).verdict

    taken = seconds(check)
    print(
        f"{name:<28}{whole:>10.2f} s{again:>9.3f} s{taken:>9.2f} s{taken / whole:>9.1f}{taken / again:>9.1f}  {verdict}"
    )
    return taken, again


def main(lengths: tuple[int, ...]) -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print(f"{'':<28}{'compile+run':>12}{'run':>11}{'verdict':>11}{'of first':>9}{'of run':>9}")
    samebits.check(jnp.sin, jnp.cos, np.ones(3, np.float32))  # what is imported and tested once is not of a verdict
    taken: dict[int, tuple[float, float]] = {}
    for length in lengths:
        shape = (1, 8, length, 128) if length >= WIDE else (1, 4, length, 64)
        arrays = tuple(rng.normal(size=shape).astype(np.float32) for _ in range(3))
        taken[length] = row(f"attention {shape}", (attention, normalised_late), arrays)
    layer = (
        rng.normal(size=(2, 256, 256)).astype(np.float32),
        rng.normal(size=(256, 1024)).astype(np.float32),
    )
    row("one layer as @ and einsum", (matmul, einsum), layer)
    first, last = min(lengths), max(lengths)
    print(f"verdict at {last} over verdict at {first}: {taken[last][0] / taken[first][0]:.1f}")
    grown = [length for length in lengths if length >= GROWN_FROM]
    if len(grown) > 1:
        steps = math.log(grown[-1] / grown[0])
        verdict, run = (math.log(b / a) / steps for a, b in zip(taken[grown[0]], taken[grown[-1]], strict=True))
        print(f"from {grown[0]} to {grown[-1]}: verdict grows with the exponent {verdict:.2f}, run with {run:.2f}")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
