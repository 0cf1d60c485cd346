"""Inputs that are gathered along a dimension that the mesh splits, so that a gather may be compiled to a sum."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec, reshard

from samebits.prove.partitioned_gather import HeldInput, _gathered

ORDER = np.array([2, 0, 3, 1])


def left_to_the_compiler(x: Any) -> Any:
    return jax.sharding.auto_axes(lambda x: x[:, ORDER], out_sharding=jax.typeof(x).sharding)(x)


def replicated_first(x: Any) -> Any:
    return reshard(x, PartitionSpec(None, None))[:, ORDER]


def split_first(x: Any) -> Any:
    moved = reshard(x, PartitionSpec(None, "context"))
    return jax.sharding.auto_axes(lambda x: x[:, ORDER], out_sharding=jax.typeof(moved).sharding)(moved)


def reduced_first(x: Any) -> Any:
    moved = reshard(x, PartitionSpec(None, None, reduced={"context"}))
    return jax.sharding.auto_axes(lambda x: x[:, ORDER], out_sharding=PartitionSpec(None, None))(moved)


@pytest.mark.parametrize(
    ("function", "spec", "gathered"),
    [
        (left_to_the_compiler, (None, "context"), ["x"]),
        (left_to_the_compiler, ("context", None), []),
        (replicated_first, (None, "context"), []),
        (split_first, (None, None), ["x"]),
        (reduced_first, (None, None), []),
    ],
)
def test_a_layout_that_is_chosen_on_the_way_counts(function: Any, spec: tuple[Any, ...], gathered: list[str]) -> None:
    mesh = jax.make_mesh((4,), ("context",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        kind = jax.ShapeDtypeStruct((4, 8), np.float32, sharding=NamedSharding(mesh, PartitionSpec(*spec)))
        jaxpr = jax.make_jaxpr(function)(kind).jaxpr
    held = HeldInput("x", tuple(name is not None for name in spec), is_float=True)
    assert _gathered(jaxpr, {jaxpr.invars[0]: held}) == gathered
