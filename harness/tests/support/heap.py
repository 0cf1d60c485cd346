"""The heap of a test process, of which `conftest` freezes what is loaded before the first test."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def whole_heap() -> Iterator[None]:
    """Inside, the garbage collector sees frozen objects too: those of jax, and those that test files make on import."""
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()
