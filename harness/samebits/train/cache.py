"""Enables JAX's persistent compilation cache for training steps on GPU and TPU, so that a second run compiles nothing.

It is not enabled on the CPU. XLA:CPU orders the collectives of a program by a shared resource. In a program read back
from disk each collective has a resource of its own, so that devices may start independent collectives in different
orders and deadlock: a step over two axes did so within 400 steps, and never in 2400 if compiled (jaxlib 0.10.2).
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator

from samebits.host import environment
from samebits.host.cache_folder import cache_folder


@contextlib.contextmanager
def persistent_compile_cache() -> Iterator[None]:
    """Enable JAX's persistent cache for the duration of a `with` block; an unwritable folder is only a warning."""
    import jax

    if jax.default_backend() == "cpu":
        yield
        return
    # Machine code for one processor must not be loaded by another that shares the folder.
    host = environment.capture()
    place = hashlib.sha256(f"{host.machine} {host.instruction_sets} {host.versions['jaxlib']}".encode()).hexdigest()[:8]
    folder = cache_folder("steps") / place
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warnings.warn(f"compiled steps are not cached: {folder}: {error.strerror}", stacklevel=2)
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
