"""Counts of a compiled module: loops, gathers, collectives, bytes on the wire, work of the SparseCore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samebits.hlo.module import HloComputation, HloModule, Instruction, config, size_in_bytes

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
"""Operations that move data between devices."""

_PLUMBING = ("parameter", "tuple", "get-tuple-element", "constant", "bitcast", "after-all", "opt-barrier")
"""Opcodes that name values and do no work: left out of the counts that distinguish two programs."""

_SPARSECORE = "sparsecore"
"""The execution thread of what TPUs hand to their SparseCores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstructionCounts:
    """What one compiled program holds; an asynchronous start and its end count as one.

    Args:
        opcodes: every operation that does work, those inside fusions included.
        collectives: the collectives among them.
        sparsecore: operations that run on the SparseCore.
        custom_calls: by target, such as `tpu_custom_call` for a Pallas kernel.
        loop_turns: the trip counts of all loops per run of the program, added; None where one is unknown.
        wire_bytes: bytes that a device sends per run, loops included; None in a loop of unknown length, or where the
            group of devices cannot be read.
    """

    opcodes: Mapping[str, int]
    collectives: Mapping[str, int]
    sparsecore: Mapping[str, int]
    custom_calls: Mapping[str, int]
    loop_turns: int | None
    wire_bytes: int | None


def count(module: HloModule) -> InstructionCounts:
    """Count what a module holds."""
    opcodes: Counter[str] = Counter()
    collectives: Counter[str] = Counter()
    sparse: Counter[str] = Counter()
    custom: Counter[str] = Counter()
    runs = module.runs()
    numbers = {id(computation): number for number, computation in module.computations.items()}
    turns: int | None = 0
    wire: int | None = 0
    for where, inst in module.instructions():
        opcode = _once(inst.opcode)
        if opcode is None:
            continue
        opcodes[opcode] += 1
        times = runs.get(numbers[id(where)])
        if opcode == "custom-call":
            custom[inst.custom_call_target] += 1
        if opcode == "while":
            turns = _added(turns, _turns(module, inst, runs))
        if opcode in COLLECTIVES:
            collectives[opcode] += 1
            wire = _added(wire, _times(sent_bytes(where, inst, opcode), times))
        if _on_sparsecore(where, inst) and (opcode in COLLECTIVES or where.thread != _SPARSECORE):
            sparse[opcode] += 1
    return InstructionCounts(
        opcodes=dict(sorted(opcodes.items())),
        collectives=dict(sorted(collectives.items())),
        sparsecore=dict(sorted(sparse.items())),
        custom_calls=dict(sorted(custom.items())),
        loop_turns=turns,
        wire_bytes=wire,
    )


def sent_bytes(where: HloComputation, inst: Instruction, opcode: str) -> int | None:
    """Return the bytes that a device of the group sends in one collective, at the least that a ring can do.

    `n` devices, operands of `b` bytes on each: an all-gather sends `b(n-1)`, a reduce-scatter and an all-to-all
    `b(n-1)/n`, an all-reduce `2b(n-1)/n`, a permute `b` unless every device keeps its own. What a ragged all-to-all
    sends depends on its sizes: `b` is the most. None where the group cannot be read.
    """
    own = sum(size_in_bytes(operand.shape) for operand in where.operands(inst))
    if opcode == "collective-permute":
        return own if any(pair.source != pair.target for pair in inst.source_target_pairs) else 0
    if opcode in ("collective-broadcast", "ragged-all-to-all"):
        return own
    group = group_size(inst)
    if group is None:
        return None
    if opcode == "all-gather":
        return own * (group - 1)
    return own * (group - 1) * (2 if opcode == "all-reduce" else 1) // group


def group_size(inst: Instruction) -> int | None:
    """Return how many devices take part in a collective with each other; None where the compiler does not say."""
    if inst.HasField("mesh_groups"):
        axes, size = inst.mesh_groups.mesh.axes, 1
        for axis in inst.mesh_groups.axes:
            if axis.index >= len(axes):
                return None
            size *= axis.sub_axis.size or axes[axis.index].size
        return size
    groups = inst.devices.replica_groups or inst.replica_groups
    if groups:
        return max(len(group.replica_ids) for group in groups)
    return inst.iota_groups.size or inst.devices.iota.size or None


def _once(opcode: str) -> str | None:
    """Return the operation that an opcode counts as: a start as the operation, its update and end as nothing."""
    if opcode in _PLUMBING or opcode.endswith(("-done", "-update")):
        return None
    # `async-start` and `call-start` wrap a computation that holds the operation itself, which is counted there.
    return None if opcode in ("async-start", "call-start") else opcode.removesuffix("-start")


def _on_sparsecore(where: HloComputation, inst: Instruction) -> bool:
    if where.thread == _SPARSECORE or inst.async_execution_thread == _SPARSECORE:
        return True
    return config(inst).get("device_type") == "DEVICE_TYPE_SPARSECORE"


def _turns(module: HloModule, loop: Instruction, runs: Mapping[int, int | None]) -> int | None:
    """Return how often the body of a loop runs, over all runs of the loop itself."""
    times = [runs[number] for number in loop.called_computation_ids]
    return None if None in times else max((count for count in times if count is not None), default=0)


def _added(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


def _times(count: int | None, times: int | None) -> int | None:
    return None if count is None or times is None else count * times


def difference(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, Any]:
    """Return the opcodes whose counts differ, with both counts, the largest change first."""
    changed = {name: [first.get(name, 0), second.get(name, 0)] for name in {*first, *second}}
    ordered = sorted(changed.items(), key=lambda item: (-abs(item[1][1] - item[1][0]), item[0]))
    return {name: counts for name, counts in ordered if counts[0] != counts[1]}
