"""The grid of partitions: its axes, and what is computed once along one."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.hlo import operations
from samebits.hlo.partition_axes import PartitionAxes

ROWS, COLUMNS = np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4).T


@pytest.mark.parametrize(
    ("mesh", "tables", "sizes"),
    [
        ((12,), [], (12,)),
        ((3, 4), [ROWS], (3, 4)),
        ((3, 4), [COLUMNS], (3, 4)),
        ((3, 4), [np.arange(12)[None]], (12,)),
        ((8,), [np.array([[0, 1], [2, 3], [4, 5], [6, 7]])], (4, 2)),
        ((8,), [np.array([[0, 4], [1, 5], [2, 6], [3, 7]]), np.arange(8) % 2], (2, 2, 2)),
        ((1,), [], (1,)),
    ],
)
def test_axes_are_as_few_as_tell_tables_apart(
    mesh: tuple[int, ...], tables: list[np.ndarray], sizes: tuple[int, ...]
) -> None:
    assert PartitionAxes.dividing(mesh, tables).sizes == sizes


@pytest.mark.parametrize("table", [ROWS, COLUMNS, ROWS[:, ::-1], ROWS[:, [2, 0, 3, 1]], ROWS.reshape(6, 2)])
def test_members_are_gathered_in_their_order(table: np.ndarray) -> None:
    axes = PartitionAxes((3, 4))
    varying = axes.varying(table)
    order = np.empty((12, table.shape[1]), np.int64)
    for row in table:
        order[row] = axes.along(row, varying)

    def of_one(x: jax.Array) -> jax.Array:
        return jnp.take(axes.gathered(x, varying), axes.own(order), axis=0)

    values = np.arange(12.0).reshape(3, 4)
    gathered = np.asarray(axes.mapped(of_one, [(0, 1)])(values))
    for row in table:
        for partition in row:
            np.testing.assert_array_equal(gathered[partition], row)


def test_what_is_gathered_along_an_axis_has_no_dimension_for_it() -> None:
    """A product of weights that are gathered over four of eight partitions is computed twice, not eight times."""
    axes = PartitionAxes((4, 2))

    def of_one(weights: jax.Array) -> jax.Array:
        whole = axes.gathered(weights, [0])
        return jnp.sin(whole)

    traced = str(jax.make_jaxpr(axes.mapped(of_one, [(0, 1)]))(jnp.zeros((4, 2, 3))))
    assert "f32[2,4,3] = sin" in traced and "f32[4,2,4,3] = sin" not in traced


def test_the_own_entry_varies_only_where_the_table_does() -> None:
    axes = PartitionAxes((4, 2))
    table = np.repeat(np.arange(4), 2)
    own = axes.mapped(lambda: axes.own(table), [])()
    np.testing.assert_array_equal(own, table)
    assert axes.mapped(lambda: axes.own(np.zeros(8, np.int32)), [])().shape == (8,)


@pytest.mark.parametrize("varying", [(0, 1), (0,), (1,), ()])
def test_a_slice_at_one_place_of_all_is_one_slice(varying: tuple[int, ...]) -> None:
    axes = PartitionAxes((3, 2))

    def of_one(x: jax.Array, start: jax.Array) -> Any:
        step: Any = SimpleNamespace(values=[x, start], inst=SimpleNamespace(dynamic_slice_sizes=[2]))
        part = operations._dynamic_slice(step)
        step.values = [x, 2 * part, start]
        return part, operations._dynamic_update_slice(step)

    x = np.arange(30.0, dtype="float32").reshape(3, 2, 5)
    x = x[tuple(slice(None) if axis in varying else 0 for axis in (0, 1))]
    on_all = axes.mapped(of_one, [varying, ()])
    traced = str(jax.make_jaxpr(on_all)(x, np.int32(1)))
    assert "dynamic_update_slice" in traced and "gather" not in traced and "scatter" not in traced
    whole = x.reshape([size if axis in varying else 1 for axis, size in enumerate((3, 2))] + [5])
    whole = np.broadcast_to(whole, (3, 2, 5)).reshape(6, 5)
    part, updated = on_all(x, np.int32(1))
    np.testing.assert_array_equal(part, whole[:, 1:3])
    np.testing.assert_array_equal(updated, np.concatenate([whole[:, :1], 2 * whole[:, 1:3], whole[:, 3:]], 1))
