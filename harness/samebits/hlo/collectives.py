"""The meaning of XLA's collectives, where a `vmap` axis stands for the partitions.

Every collective is an `all_gather` over that axis, which all partitions share, and an index: what a group computes is
computed once for the group.

Source: XLA, "Operation semantics".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.hlo.operations import reduced
from samebits.hlo.steps import HloStep

PARTITIONS = "partitions"

_Table = np.ndarray[Any, Any]


def groups(step: HloStep) -> _Table:
    """Return the partitions of each group, one group a row, in whichever form the module has them.

    Raises:
        Untranslated: the groups differ in size, or are not of this module's partitions.
    """
    inst, count = step.inst, step.program.partitions
    device_groups = list(inst.replica_groups) or list(inst.devices.replica_groups)
    if device_groups:
        rows = [list(group.replica_ids) for group in device_groups]
    elif iota := next((form for form in (inst.iota_groups, inst.devices.iota) if form.groups), None):
        rows = _iota(iota).reshape(iota.groups, iota.size).tolist()
    elif inst.mesh_groups.mesh.axes:
        rows = _of_mesh(inst.mesh_groups).tolist()
    else:
        rows = [[*range(count)]]
    if len({len(row) for row in rows}) != 1 or sorted(number for row in rows for number in row) != [*range(count)]:
        raise step.refuse(f"the groups {rows} are not groups of one size of {count} partitions")
    return np.array(rows)


def _iota(form: Any) -> _Table:
    """Return consecutive numbers, perhaps transposed as an array of given dimensions, as a list."""
    order = np.arange(math.prod(form.dimensions)).reshape(tuple(form.dimensions))
    return (order.transpose(tuple(form.permutation)) if form.permutation else order).reshape(-1)


def _of_mesh(form: Any) -> _Table:
    """Return groups over axes of a mesh; a part of an axis counts from its major end."""
    sizes = [axis.size for axis in form.mesh.axes]
    ids = _iota(form.mesh.iota) if form.mesh.iota.dimensions else np.arange(math.prod(sizes))
    ids = np.array(form.mesh.device_ids) if form.mesh.device_ids else ids
    split: list[tuple[int, int, int]] = []  # axis, where the part begins, its size
    for reference in form.axes:
        part, whole = reference.sub_axis, sizes[reference.index]
        split.append((reference.index, part.before or 1, part.size) if part.size else (reference.index, 1, whole))
    shape: list[int] = []
    places: dict[tuple[int, int], int] = {}
    for axis, size in enumerate(sizes):
        borders = sorted({1, size, *(b for a, b, _ in split if a == axis), *(b * s for a, b, s in split if a == axis)})
        for low, high in itertools.pairwise(borders):
            places[axis, low] = len(shape)
            shape.append(high // low)
        if size == 1:
            places[axis, 1] = len(shape)
            shape.append(1)
    grid = ids.reshape(shape)
    last = [places[axis, low] for axis, low, _ in split]
    first = [axis for axis in range(grid.ndim) if axis not in last]
    members = math.prod(shape[axis] for axis in last)
    return grid.transpose(*first, *last).reshape(-1, members)


def _gathered(step: HloStep, value: Any) -> tuple[Any, _Table]:
    """Return the values of all partitions by group and place in it, and the groups."""
    table = groups(step)
    everything = lax.all_gather(value, PARTITIONS)
    if table.shape[0] == 1 and table[0].tolist() == [*range(table.size)]:
        return everything[None], table
    return jnp.take(everything, table, axis=0, mode="clip"), table


def _own(table: _Table, by_group: Any) -> Any:
    """Return what belongs to a partition's own group."""
    if table.shape[0] == 1:
        return by_group[0]
    group = np.zeros(table.size, np.int32)
    for number, row in enumerate(table):
        group[row] = number
    return by_group[jnp.asarray(group)[lax.axis_index(PARTITIONS)]]


def _place(table: _Table) -> Any:
    """Return a partition's place in its group."""
    place = np.zeros(table.size, np.int32)
    for row in table:
        place[row] = np.arange(len(row))
    return jnp.asarray(place)[lax.axis_index(PARTITIONS)]


def _result(step: HloStep, parts: list[Any]) -> Any:
    return tuple(parts) if len(parts) > 1 or (step.inst.shape.tuple_shapes and _is_tuple(step)) else parts[0]


def _is_tuple(step: HloStep) -> bool:
    """Return whether a collective of one operand returns a tuple of one; a start's tuple is another one."""
    return not step.inst.opcode.endswith("-start")


def _all_reduce(step: HloStep) -> Any:
    parts = []
    for value in step.values:
        by_group, table = _gathered(step, value)
        parts.append(_own(table, reduced(step, by_group, None, (1,))))
    return _result(step, parts)


def _all_gather(step: HloStep) -> Any:
    axis = step.inst.dimensions[0]
    parts = []
    for value in step.values:
        by_group, table = _gathered(step, value)
        moved = jnp.moveaxis(by_group, 1, axis + 1)
        shape = (table.shape[0], *value.shape[:axis], table.shape[1] * value.shape[axis], *value.shape[axis + 1 :])
        parts.append(_own(table, moved.reshape(shape)))
    return _result(step, parts)


def _reduce_scatter(step: HloStep) -> Any:
    axis = step.inst.dimensions[0]
    parts = []
    for value in step.values:
        by_group, table = _gathered(step, value)
        whole = _own(table, reduced(step, by_group, None, (1,)))
        size = value.shape[axis] // table.shape[1]
        parts.append(lax.dynamic_slice_in_dim(whole, _place(table) * size, size, axis))
    return _result(step, parts)


def _all_to_all(step: HloStep) -> Any:
    """Exchange: of one array with a split dimension, or of a tuple with one array for each member."""
    if not step.inst.dimensions:
        by_group = [_gathered(step, value) for value in step.values]
        table = by_group[0][1]
        stacked = jnp.stack([part for part, _ in by_group], axis=2)  # group, from, to, ...
        mine = jnp.take(_own(table, stacked), _place(table), axis=1, mode="clip")
        return tuple(mine[number] for number in range(len(step.values)))
    axis, value = step.inst.dimensions[0], step.values[0]
    by_group, table = _gathered(step, value)
    members = table.shape[1]
    size = value.shape[axis] // members
    mine = lax.dynamic_slice_in_dim(_own(table, by_group), _place(table) * size, size, axis + 1)
    return jnp.moveaxis(mine, 0, axis).reshape(value.shape)


def _permute(step: HloStep) -> Any:
    """Send along pairs; what receives nothing is zero."""
    source = np.full(step.program.partitions, -1)
    for pair in step.inst.source_target_pairs:
        source[pair.target] = pair.source
    parts = []
    for value in step.values:
        everything = lax.all_gather(value, PARTITIONS)
        number = jnp.asarray(source)[lax.axis_index(PARTITIONS)]
        received = everything[jnp.maximum(number, 0)]
        parts.append(received if (source >= 0).all() else jnp.where(number >= 0, received, jnp.zeros_like(received)))
    return _result(step, parts)


def _broadcast(step: HloStep) -> Any:
    parts = []
    for value in step.values:
        by_group, table = _gathered(step, value)
        parts.append(_own(table, by_group[:, 0]))
    return _result(step, parts)


def _ragged_all_to_all(step: HloStep) -> Any:
    """Send segments of rows to each member: where they start, how many rows, and where they go in its output."""
    rows, output, *numbers = step.values
    by_group, table = _gathered(step, rows)
    members, place = table.shape[1], _place(table)
    starts, sizes, places = (
        jnp.take(_own(table, _gathered(step, number)[0]).reshape(members, members, -1), place, axis=1, mode="clip")
        for number in (numbers[0], numbers[1], numbers[2])
    )
    everything = _own(table, by_group)
    result = output
    at = jnp.arange(output.shape[0])
    for sender in range(members):
        for update in range(starts.shape[-1]):
            start, size, where = (table_[sender, update] for table_ in (starts, sizes, places))
            inside = (at >= where) & (at < where + size)
            taken = jnp.take(everything[sender], jnp.clip(start + at - where, 0, rows.shape[0] - 1), axis=0)
            result = jnp.where(inside.reshape(-1, *(1,) * (rows.ndim - 1)), taken, result)
    return result


def _partition_id(step: HloStep) -> Any:
    return lax.axis_index(PARTITIONS).astype(step.dtype)


def _replica_id(step: HloStep) -> Any:
    return np.zeros((), step.dtype)


RULES: Mapping[str, Callable[[HloStep], Any]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "partition-id": _partition_id,
    "ragged-all-to-all": _ragged_all_to_all,
    "reduce-scatter": _reduce_scatter,
    "replica-id": _replica_id,
}
"""By opcode: what a partition gets."""
