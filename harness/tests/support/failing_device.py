"""A device that fails as a GPU does after an access out of bounds: it rejects all that follows in its process."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tests.support.foreign import HONEST, write_pair

if TYPE_CHECKING:  # worker processes import this file, and pytest takes a third of their start
    import pytest

MESSAGE = "INTERNAL: CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"

SOURCE = f"""
def fail():
    import jax
    from jaxlib import xla_client

    def rejected(*args, **keywords):
        raise jax.errors.JaxRuntimeError({MESSAGE!r})

    jax.devices()
    xla_client.batched_device_put = rejected
"""
"""`fail`, for the files of users."""


def fail() -> None:
    """From here on nothing reaches the devices of this process."""
    import jax
    from jaxlib import xla_client

    def rejected(*args: Any, **keywords: Any) -> NoReturn:
        raise jax.errors.JaxRuntimeError(MESSAGE)

    jax.devices()
    xla_client.batched_device_put = rejected


def write_failing_pair(tree: Path, name: str) -> None:
    """A pair, as `write_pair` writes it, whose variant leaves the devices unusable when it is traced."""
    write_pair(
        tree,
        name,
        optimized=SOURCE + textwrap.dedent(HONEST).replace("return", "fail(); return"),
        extra="gradients=False,",
    )


def mend_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the devices of this process work again at the end of a test, whatever it does to them."""
    from jaxlib import xla_client

    monkeypatch.setattr(xla_client, "batched_device_put", xla_client.batched_device_put)
