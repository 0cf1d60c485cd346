"""The threads of NumPy while programs are interpreted: one for small arrays, all processors for large ones.

Interpretation multiplies many small matrices, and the other processors have worker processes or XLA's compiler. The
threads of OpenBLAS wait for each other in busy loops: with a busy neighbour on each processor a product takes ten
times as long as on one thread. Large arrays are divided between threads of our own, which wait for nothing.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from samebits.host.processors import usable_processors

Part = TypeVar("Part")
Result = TypeVar("Result")

LARGE = 1 << 20
"""Elements from which on an array is worth threads: some ten milliseconds of work."""

LARGE_PRODUCT = 1 << 27
"""The same for a product of matrices, in multiplications of two numbers."""

_processors = functools.cache(usable_processors)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread inside, and on as many as before outside.

    It holds for all threads of this process where BLAS has one pool for all; the first one inside decides then.
    """
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the libraries of this process that have pools of threads; to look for them takes about a millisecond.

    They are looked for again where another number of modules is loaded: SciPy, with whose LAPACK jax decomposes
    matrices on a CPU, has a BLAS of its own and is often imported later than NumPy.
    """
    del modules
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()


def uses_threads(size: int) -> bool:
    """Return whether work on so many elements is divided between threads."""
    return size >= LARGE and _processors() > 1


def in_threads(function: Callable[[Part], Result], parts: Iterable[Part], size: int) -> list[Result]:
    """Return what a function gives for each part of an array of so many elements, a large one on all processors.

    NumPy's warnings are off in the threads, as they are where programs are interpreted.
    """
    if not uses_threads(size):
        return [function(part) for part in parts]
    with ThreadPoolExecutor(_processors(), "arrays", functools.partial(np.seterr, all="ignore")) as pool:
        return list(pool.map(function, parts))


def matmul(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return `np.matmul(a, b)`; the rows of a large product on all processors."""
    rows = a.shape[-2] if min(a.ndim, b.ndim) > 1 else 0
    parts = min(_processors(), rows // 2)
    if parts < 2 or a.size * b.shape[-1] < LARGE_PRODUCT:
        return np.asarray(np.matmul(a, b))
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, b.shape[-1])
    result, ends = np.empty(shape, np.result_type(a, b)), np.linspace(0, rows, parts + 1).astype(int).tolist()

    def some_rows(start: int, end: int) -> None:
        np.matmul(a[..., start:end, :], b, out=result[..., start:end, :])

    with ThreadPoolExecutor(parts, "rows") as pool:
        list(pool.map(some_rows, ends[:-1], ends[1:]))
    return result
