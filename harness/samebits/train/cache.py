"""Compiled training steps kept on disk by jax itself, on GPU and TPU: the second run of a matrix compiles nothing.

Not on the CPU. XLA:CPU orders the collectives of a program by one resource that they share. Read back from disk, each
has its own: devices start independent collectives in different orders, and wait for each other for ever. A step over
two axes did within 400 steps, and never in 2 400 where it was compiled afresh (jaxlib 0.10.2).
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator

from samebits.compile.cache import cache_folder
from samebits.host import environment


@contextlib.contextmanager
def persistent_compile_cache() -> Iterator[None]:
    """Have jax keep compiled steps on disk, meanwhile; a folder that cannot be written is no error."""
    import jax

    if jax.default_backend() == "cpu":
        yield
        return
    # Machine code of one processor must not be taken up by another that shares the folder.
    host = environment.capture()
    place = hashlib.sha256(f"{host.machine} {host.instruction_sets} {host.versions['jaxlib']}".encode()).hexdigest()[:8]
    folder = cache_folder("steps") / place
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warnings.warn(f"compiled steps are not kept: {folder}: {error.strerror}", stacklevel=2)
        yield
        return
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.5,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
