"""Copies of one output on several devices: all are compared, on every input."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from samebits.schema.case import Arg
from tests.support.toys import of, run, toy


def test_replicas_that_diverge_are_different() -> None:
    """Each device keeps its own value of what the sharding calls one replicated array."""

    def summed(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.sum(x * 0, axis=0) + jnp.arange(16, dtype=x.dtype)

    def local(x: Any, *, factor: float = 2.0) -> Any:
        def body(x: Any) -> Any:
            return jnp.sum(x * 0, axis=0) + jnp.arange(16, dtype=x.dtype) + jax.lax.axis_index("data")

        return jax.shard_map(body, in_specs=P("data"), out_specs=P(), check_vma=False)(x)

    results = of(run(toy(summed, local=local), gradients=False), variant="local")
    assert [r.ruling.verdict for r in results] == ["bitwise", "different", "different", "different"]
    assert results[1].place.leaf == "out (replica on device 1)"


def test_replicas_that_differ_for_special_values_are_different() -> None:
    """The first record has no infinity; in the second, every device gives another number for it."""

    def largest(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.max(x, axis=0)

    def local(x: Any, *, factor: float = 2.0) -> Any:
        def body(x: Any) -> Any:
            found = jax.lax.pmax(jnp.max(x, axis=0), "data")
            return jnp.where(jnp.isinf(found), jnp.where(jax.lax.axis_index("data") == 0, found, 0), found)

        return jax.shard_map(body, in_specs=P("data"), out_specs=P(), check_vma=False)(x)

    special = {"x": Arg(shape=("rows", "columns"), spec=("data",), special=("inf",))}
    results = of(run(toy(largest, local=local), args=special, gradients=False), variant="local")
    assert {r.place.leaf: r.ruling.verdict for r in results if r.place.leaf != "out"} == {
        f"out (replica on device {device})": "different" for device in (1, 2, 3)
    }
