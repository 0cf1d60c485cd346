"""The meaning of XLA's collectives, where the partitions are a grid of `vmap` axes.

Every collective is an `all_gather` along the axes on which the members of a group differ, and an index: what a group
computes is computed once for the group.

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

from samebits.hlo.module import Instruction
from samebits.hlo.operations import reduced
from samebits.hlo.partition_axes import PartitionAxes
from samebits.hlo.steps import HloStep, Untranslated

_Table = np.ndarray[Any, Any]


def groups(inst: Instruction, count: int) -> _Table:
    """Return the partitions of each group, one group a row, in whichever form the module has them.

    Args:
        count: how many partitions there are.

    Raises:
        Untranslated: the groups differ in size, or are not of this module's partitions.
    """
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
        raise Untranslated(inst, f"the groups {rows} are not groups of one size of {count} partitions")
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


def tables(inst: Instruction, count: int) -> list[_Table]:
    """Return what says which partitions an instruction connects; none of one that is not a collective."""
    opcode = inst.opcode.removesuffix("-start")
    if opcode == "collective-permute":
        return [_sources(inst, count)]
    return [groups(inst, count)] if opcode in RULES and not opcode.endswith("-id") else []


def _group(step: HloStep) -> tuple[PartitionAxes, _Table]:
    """Return the grid of partitions, and for each the members of its group."""
    axes = step.program.axes
    table = groups(step.inst, axes.count)
    members = np.empty((axes.count, table.shape[1]), np.int64)
    for row in table:
        members[row] = row
    return axes, members


def _members(step: HloStep, value: Any) -> Any:
    """Return the values of the members of a partition's own group, in the order of the group."""
    axes, members = _group(step)
    varying = axes.varying(members)
    everything, order = axes.gathered(value, varying), axes.along(members, varying)
    if order.shape[1] == everything.shape[0] and (order == np.arange(order.shape[1])).all():
        return everything
    return jnp.take(everything, axes.own(order), axis=0, mode="clip")


def _place(step: HloStep) -> Any:
    """Return a partition's place in its group."""
    axes, members = _group(step)
    return axes.own(np.argmax(members == np.arange(axes.count)[:, None], 1).astype(np.int32))


def _result(step: HloStep, parts: list[Any]) -> Any:
    return tuple(parts) if len(parts) > 1 or (step.inst.shape.tuple_shapes and _is_tuple(step)) else parts[0]


def _is_tuple(step: HloStep) -> bool:
    """Return whether a collective of one operand returns a tuple of one; a start's tuple is another one."""
    return not step.inst.opcode.endswith("-start")


def _all_reduce(step: HloStep) -> Any:
    return _result(step, [reduced(step, _members(step, value), None, (0,)) for value in step.values])


def _all_gather(step: HloStep) -> Any:
    axis = step.inst.dimensions[0]
    parts = []
    for value in step.values:
        members = _members(step, value)
        shape = (*value.shape[:axis], members.shape[0] * value.shape[axis], *value.shape[axis + 1 :])
        parts.append(jnp.moveaxis(members, 0, axis).reshape(shape))
    return _result(step, parts)


def _reduce_scatter(step: HloStep) -> Any:
    axis = step.inst.dimensions[0]
    parts = []
    for value in step.values:
        members = _members(step, value)
        size = value.shape[axis] // members.shape[0]
        whole = reduced(step, members, None, (0,))
        parts.append(lax.dynamic_slice_in_dim(whole, _place(step) * size, size, axis))
    return _result(step, parts)


def _all_to_all(step: HloStep) -> Any:
    """Exchange: of one array with a split dimension, or of a tuple with one array for each member."""
    if not step.inst.dimensions:
        stacked = jnp.stack([_members(step, value) for value in step.values], axis=1)  # from, to, ...
        mine = jnp.take(stacked, _place(step), axis=1, mode="clip")
        return tuple(mine[number] for number in range(len(step.values)))
    axis, value = step.inst.dimensions[0], step.values[0]
    members = _members(step, value)
    size = value.shape[axis] // members.shape[0]
    mine = lax.dynamic_slice_in_dim(members, _place(step) * size, size, axis + 1)
    return jnp.moveaxis(mine, 0, axis).reshape(value.shape)


def _sources(inst: Instruction, count: int) -> _Table:
    """Return for each partition itself and where it receives from, itself where from nowhere."""
    source = np.arange(count)
    for pair in inst.source_target_pairs:
        source[pair.target] = pair.source
    return np.stack([np.arange(count), source], 1)


def _permute(step: HloStep) -> Any:
    """Send along pairs; what receives nothing is zero."""
    axes = step.program.axes
    sources = _sources(step.inst, axes.count)
    varying = axes.varying(sources)
    receives = np.zeros(axes.count, bool)
    receives[[pair.target for pair in step.inst.source_target_pairs]] = True
    parts = []
    for value in step.values:
        received = axes.gathered(value, varying)[axes.own(axes.along(sources[:, 1], varying))]
        parts.append(received if receives.all() else jnp.where(axes.own(receives), received, jnp.zeros_like(received)))
    return _result(step, parts)


def _broadcast(step: HloStep) -> Any:
    return _result(step, [_members(step, value)[0] for value in step.values])


def _ragged_all_to_all(step: HloStep) -> Any:
    """Send segments of rows to each member: where they start, how many rows, and where they go in its output."""
    rows, output, *numbers = step.values
    everything, place = _members(step, rows), _place(step)
    members = everything.shape[0]
    starts, sizes, places = (
        jnp.take(_members(step, number).reshape(members, members, -1), place, axis=1, mode="clip")
        for number in (numbers[0], numbers[1], numbers[2])
    )
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
    axes = step.program.axes
    return axes.own(np.arange(axes.count)).astype(step.dtype)


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
