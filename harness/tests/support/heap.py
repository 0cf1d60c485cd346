"""The heap of a test process: what is loaded before the first test is kept out of collections (`conftest`)."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def whole_heap() -> Iterator[None]:
    """Inside, the collector knows all objects: also those that files of tests have at their top level, and of jax."""
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()
