"""Programs that are one program on one device, and forms that are not although they compute the same."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

from samebits.interpret.dead_code import live
from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.number_forms import same_on_one_device, with_slices
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import ON_TABLE


def layer(x: jax.Array) -> jax.Array:
    return jnp.tanh(x * 2.5).sum(0) @ x.T


def _placed(x: jax.Array) -> jax.Array:
    mesh = MeshSpec.parse("data1").abstract("auto")
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


ROWS = Family(symbols={"m": 1, "n": 1}, args={"x": Shaped(("6*m", "n"))})
SLICED: dict[str, Callable[[jax.Array], jax.Array]] = {
    "even": lambda x: x[0::2],
    "odd": lambda x: x[1::2],
    "every third": lambda x: x[::3],
    "after the first": lambda x: x[1:],
    "before the last": lambda x: x[:-1],
    "the last two": lambda x: x[-2:],
    "second half": lambda x: x[x.shape[0] // 2 :],
    "some": lambda x: x[1:3],
    "a column": lambda x: x[:, :1],
    "one": lambda x: x[0],
    "the last": lambda x: x[-1],
    "one of each": lambda x: x[:, 0],
}


@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", SLICED)
def test_a_slice_of_symbols_is_written_as_it_is_with_numbers(name: str, direction: str) -> None:
    def squared(x: jax.Array) -> jax.Array:
        return jnp.square(SLICED[name](x))

    numbers = ROWS.at({"m": 2, "n": 2})
    symbolic, concrete = (live(with_slices(traced(squared, family, direction).closed)) for family in (ROWS, numbers))
    assert [eqn.primitive.name for eqn in symbolic.eqns] == [eqn.primitive.name for eqn in concrete.eqns]
    for first, second in zip(symbolic.eqns, concrete.eqns, strict=True):
        if first.primitive.name == "slice":
            at = {"m": 2, "n": 2}
            for key in ("start_indices", "limit_indices"):
                assert [eval(str(size), {}, at) for size in first.params[key]] == list(second.params[key])
            assert (first.params["strides"] or (1, 1)) == (second.params["strides"] or (1, 1))


def _silu_of(*starts: int, stride: int = 2, late: bool = False) -> Callable[[jax.Array], jax.Array]:
    """Written with slices of `lax`, or all at once and sliced afterwards."""

    def function(x: jax.Array) -> jax.Array:
        if late:
            x = jax.nn.silu(x)
        parts = (jax.lax.slice_in_dim(x, start, None, stride) for start in starts)
        return jnp.stack([part if late else jax.nn.silu(part) for part in parts])

    return function


def _indexed(x: jax.Array) -> jax.Array:
    return jnp.stack([jax.nn.silu(x[0::2]), jax.nn.silu(x[1::2])])


def _gathered(x: jax.Array) -> jax.Array:
    """With the very gathers that jax writes for symbols."""
    places = 2 * jnp.arange(x.shape[0] // 2)
    how: Any = {"mode": "promise_in_bounds", "indices_are_sorted": True, "unique_indices": True}
    parts = [x.at[places + start].get(**how, wrap_negative_indices=False) for start in (0, 1)]
    return jnp.stack([jax.nn.silu(part) for part in parts])


@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_indexing_with_strides_is_a_slice(direction: str) -> None:
    numbers = ROWS.at({"m": 2, "n": 2})
    for family in (ROWS, numbers):
        indexed, *others = (
            traced(side, family, direction).closed
            for side in (_indexed, _silu_of(0, 1), _silu_of(1, 0), _silu_of(0, 0), _silu_of(0, 1, late=True))
        )
        same, *wrong = (same_on_one_device(indexed, other) for other in others)
        assert same
        assert not any(wrong)
    assert not same_on_one_device(*(traced(side, numbers, direction).closed for side in (_indexed, _gathered)))


def test_an_index_that_is_not_promised_to_be_a_slice_is_none() -> None:
    def taken(x: jax.Array) -> jax.Array:
        return x.at[2 * jnp.arange(x.shape[0] // 2)].get(mode="promise_in_bounds", wrap_negative_indices=False)

    first, second = (traced(side, ROWS).closed for side in (lambda x: x[0::2], taken))
    assert not same_on_one_device(first, second)


def test_a_slice_that_ends_earlier_is_another_program() -> None:
    def earlier(x: jax.Array) -> jax.Array:
        return jax.lax.slice_in_dim(x, 0, -1, 2)

    first, second = (traced(side, ROWS).closed for side in (lambda x: x[0::2], earlier))
    assert not same_on_one_device(first, second)
    numbers = ROWS.at({"m": 2, "n": 2})
    first, second = (traced(side, numbers).closed for side in (lambda x: x[0:-1:2], SLICED["even"]))
    assert not same_on_one_device(first, second)
