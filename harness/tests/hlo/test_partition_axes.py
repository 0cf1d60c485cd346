"""The grid of partitions: its axes, and what is computed once along one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
