"""What the comparison of two equal arrays costs: `same_bits` over `np.array_equal` on their integer views.

Run as `python benchmarks/bits.py`. It prints ratios of medians and asserts nothing; the aim is at most 1.5 at 256 MB.
NumPy's own call is the yardstick because it must read the same bytes; on the arrays themselves it would have to
convert the formats of ml_dtypes and would call NaN unequal.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from samebits.numerics.bits import compare, same_bits
from samebits.numerics.floats import Array
from samebits.report.progress import tracked

MEGABYTES = 256
REPETITIONS = 7
AIM = 1.5
DTYPES = ("float64", "float32", "bfloat16", "float8_e4m3fn", "int4", "complex64")


def equal_pair(name: str, megabytes: int) -> tuple[Array, Array]:
    """Two equal arrays of arbitrary bits in their own memory."""
    octets = np.random.default_rng(0).integers(0, 256, megabytes << 20, np.uint8)
    array = octets.view(getattr(ml_dtypes, name, name))
    return array, array.copy()


def medians(*calls: Callable[[], object], repetitions: int = REPETITIONS) -> list[float]:
    """The median seconds of each call, taken in turns so that a slow moment of the machine meets all of them."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repetitions + 1):
        for call, taken in zip(calls, seconds, strict=True):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
    return [statistics.median(taken[1:]) for taken in seconds]  # the first turn touches the pages


def main(megabytes: int = MEGABYTES) -> None:
    """Print one line per dtype."""
    print(f"two equal arrays of {megabytes} MB, medians of {REPETITIONS}; aim: at most {AIM}x")
    print(f"{'dtype':<16}{'array_equal':>12}{'same_bits':>12}{'ratio':>8}{'compare':>12}{'ratio':>8}")
    for name in tracked(DTYPES, "bits"):
        left, right = equal_pair(name, megabytes)
        word = f"u{min(left.itemsize, 8)}"
        views = left.view(word), right.view(word)
        numpy_s, ours_s, whole_s = medians(
            partial(np.array_equal, *views),
            partial(same_bits, left, right),
            partial(compare, reference=left, optimized=right),
        )
        print(
            f"{name:<16}{numpy_s * 1e3:>9.1f} ms{ours_s * 1e3:>9.1f} ms{ours_s / numpy_s:>8.2f}"
            f"{whole_s * 1e3:>9.1f} ms{whole_s / numpy_s:>8.2f}"
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
