"""Devices and determinism for every test of this repository, set before jax starts. No checks of components here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import RequestError
from samebits.host import environment


def pytest_configure(config: pytest.Config) -> None:
    """Eight CPU devices, or as many as `--samebits-devices` or `JAX_NUM_CPU_DEVICES` says."""
    try:
        environment.prepare(devices=config.getoption("--samebits-devices", None))
    except RequestError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(autouse=True, scope="session")
def _in_the_tree() -> Iterator[None]:
    """Commands take the pairs of the current folder, and pytest may have been started in another one."""
    with contextlib.chdir(Path(__file__).parent):
        yield


@pytest.fixture(autouse=True)
def _no_leaked_settings() -> Iterator[None]:
    """Fail a test that leaves jax's configuration, or a mesh in its context, to the tests after it."""
    before = _settings()
    yield
    after = _settings()
    leaked = [f"{name}: {before[name]!r} -> {after[name]!r}" for name in before if after[name] != before[name]]
    if leaked:
        pytest.fail("this test leaves jax changed for those after it: " + "; ".join(leaked), pytrace=False)


def _settings() -> dict[str, Any]:
    import jax

    # Settings that a context manager can change are attributes, the others are only in `values`.
    settings = {name: getattr(jax.config, name, value) for name, value in jax.config.values.items()}
    return {**settings, "mesh in context": jax.sharding.get_abstract_mesh()}
