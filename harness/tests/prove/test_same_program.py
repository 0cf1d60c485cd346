"""Programs that are one program on one device, and forms that are not although they compute the same."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

from samebits.prove.same_program import same_on_one_device
from samebits.prove.size_tracing import traced
from tests.prove.size_faults import ON_TABLE


def layer(x: jax.Array) -> jax.Array:
    return jnp.tanh(x * 2.5).sum(0) @ x.T


def _placed(x: jax.Array) -> jax.Array:
    mesh = jax.sharding.AbstractMesh((1,), ("data",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    return layer(jax.lax.with_sharding_constraint(x, spec))


SAME: dict[str, Callable[[jax.Array], jax.Array]] = {
    "itself": layer,
    "jitted": jax.jit(layer),
    "jitted twice": jax.jit(jax.jit(layer)),
    "partial": functools.partial(layer),
    "placed": _placed,
    "to its own shape": lambda x: layer(x.reshape(x.shape).astype(jnp.float32)),
    "dead code": lambda x: (jnp.exp(x), layer(x))[1],
}
OTHER: dict[str, Callable[[jax.Array], jax.Array]] = {
    "a constant": lambda x: jnp.tanh(x * 2.25).sum(0) @ x.T,
    "an order": lambda x: jnp.tanh(2.5 * x).sum(0) @ x.T,
    "another function": lambda x: jnp.sin(x * 2.5).sum(0) @ x.T,
    "an axis": lambda x: jnp.tanh(x * 2.5).T.sum(1) @ x.T,
    "a cast": lambda x: jnp.tanh(x * 2.5).astype(jnp.bfloat16).astype(x.dtype).sum(0) @ x.T,
    "remat": lambda x: jax.checkpoint(layer)(x),
    "a barrier": lambda x: layer(jax.lax.optimization_barrier(x)),
    "precision": lambda x: jnp.matmul(jnp.tanh(x * 2.5).sum(0), x.T, precision="highest"),
    "metadata": set_xla_metadata(kind="slow")(layer),
    "an effect": lambda x: jax.pure_callback(np.asarray, jax.ShapeDtypeStruct((3,), x.dtype), x[0, :3]),
}


@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", SAME)
def test_calls_names_and_places_are_not_seen(name: str, direction: str) -> None:
    sides = [traced(side, ON_TABLE, direction).closed for side in (layer, SAME[name])]
    assert same_on_one_device(*sides)
    numbers = ON_TABLE.at({"m": 3, "n": 4})
    assert same_on_one_device(*(traced(side, numbers, direction).closed for side in (layer, SAME[name])))


@pytest.mark.parametrize("name", OTHER)
def test_every_other_form_is_another_program(name: str) -> None:
    for family in (ON_TABLE, ON_TABLE.at({"m": 4, "n": 3})):
        first, second = (traced(side, family).closed for side in (layer, OTHER[name]))
        assert not same_on_one_device(first, second)
        if name != "an effect":
            assert same_on_one_device(second, second)


def test_constants_are_compared_by_their_bits() -> None:
    table, other = np.arange(3.0, dtype=np.float32), np.array([0, 1, 2.5], np.float32)
    first, same, wrong = (jax.make_jaxpr(lambda x, t=t: x + t)(jnp.ones(3)) for t in (table, table.copy(), other))
    assert same_on_one_device(first, same)
    assert not same_on_one_device(first, wrong)


def test_loops_and_branches_are_compared_inside() -> None:
    def looped(factor: float) -> Callable[[jax.Array], jax.Array]:
        return lambda x: jax.lax.scan(lambda c, row: (c + factor * row, c), x[0], x)[1]

    def branched(factor: float) -> Callable[[jax.Array], jax.Array]:
        return lambda x: jax.lax.cond(x[0, 0] > 0, lambda y: y * factor, lambda y: y, x)

    for form in (looped, branched):
        first, same, wrong = (traced(form(factor), ON_TABLE).closed for factor in (2.0, 2.0, 3.0))
        assert same_on_one_device(first, same)
        assert not same_on_one_device(first, wrong)
