"""One thread for NumPy's products of matrices while programs are interpreted.

Interpretation multiplies many small matrices, and the other processors have worker processes or XLA's compiler. The
threads of OpenBLAS wait for each other in busy loops: with a busy neighbour on each processor a product takes ten
times as long as on one thread.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread inside, and on as many as before outside.

    It holds for all threads of this process where BLAS has one pool for all; the first one inside decides then.
    """
    import numpy  # noqa: F401 - what is not loaded is not found

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
