"""A compiled module as a graph: instructions by id, the computations that they call, and how often each runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

from samebits.errors import CouldNotRun
from samebits.hlo.origins import InstructionOrigin

# The part of XLA's serialised `HloModuleProto` that is read here, as protobuf messages made on the spot.
_TYPES = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
}

_FIELDS = """
Tile: dimensions 1 int64*
Layout: minor_to_major 1 int64*, tiles 6 Tile*
Shape: element_type 2 int64, dimensions 3 int64*, tuple_shapes 4 Shape*, layout 5 Layout, is_dynamic 6 bool*
WindowDimension: size 1 int64, stride 2 int64, low 3 int64, high 4 int64, window_dilation 5 int64,
    base_dilation 6 int64, reversal 7 bool
Window: dimensions 1 WindowDimension*
Convolution: rhs_input 3 int64, rhs_output 4 int64, rhs_spatial 6 int64*, lhs_batch 7 int64, lhs_feature 8 int64,
    out_batch 9 int64, out_feature 10 int64, lhs_spatial 11 int64*, out_spatial 12 int64*
Dot: lhs_contracting 1 int64*, rhs_contracting 2 int64*, lhs_batch 3 int64*, rhs_batch 4 int64*
Precision: operands 1 int64*, algorithm 2 int64
Gather: offset_dims 1 int64*, collapsed_slice_dims 2 int64*, start_index_map 3 int64*, index_vector_dim 4 int64,
    operand_batching_dims 5 int64*, start_indices_batching_dims 6 int64*
Scatter: update_window_dims 1 int64*, inserted_window_dims 2 int64*, scatter_dims_to_operand_dims 3 int64*,
    index_vector_dim 4 int64, operand_batching_dims 5 int64*, scatter_indices_batching_dims 6 int64*
Slice: start 1 int64, limit 2 int64, stride 3 int64
PadDimension: low 1 int64, high 2 int64, interior 3 int64
Padding: dimensions 1 PadDimension*
ReplicaGroup: replica_ids 1 int64*
IotaGroups: groups 1 int64, size 2 int64, dimensions 3 int64*, permutation 4 int64*
DeviceList: replica_groups 1 ReplicaGroup*, iota 2 IotaGroups
MeshAxis: name 1 string, size 2 int64
IotaOrder: dimensions 1 int64*, permutation 2 int64*
DeviceMesh: axes 1 MeshAxis*, device_ids 2 int64*, iota 3 IotaOrder
SubAxis: before 1 int64, size 2 int64
AxisRef: index 1 int64, sub_axis 2 SubAxis
MeshGroups: mesh 1 DeviceMesh, axes 2 AxisRef*
SourceTarget: source 1 int64, target 2 int64
Literal: shape 1 Shape, preds 2 bool*, u8s 3 bytes, s32s 4 int64*, s64s 5 int64*, u32s 6 int64*, u64s 7 int64*,
    f32s 8 float*, f64s 9 double*, tuple_literals 10 Literal*, f16s 11 bytes, c64s 12 float*, bf16s 13 bytes,
    s8s 15 bytes, u16s 16 bytes, s16s 17 bytes, c128s 18 double*, f8e5m2s 19 bytes, f8e4m3fns 20 bytes, s4s 21 bytes,
    u4s 22 bytes, f8e4m3b11fnuzs 23 bytes, f8e5m2fnuzs 24 bytes, f8e4m3fnuzs 25 bytes, s2s 26 bytes, u2s 27 bytes,
    f8e4m3s 28 bytes, f8e3m4s 29 bytes, f4e2m1fns 32 bytes, f8e8m0fnus 33 bytes
Metadata: op_name 2 string, file 3 string, line 4 int64, frame 15 int64
FileLocation: file 1 int64, line 3 int64
StackFrame: location 1 int64
StackFrames: files 1 string*, locations 3 FileLocation*, frames 4 StackFrame*
Attribute: key 1 string, value 2 string
Attributes: map 1 Attribute*
Instruction: name 1 string, opcode 2 string, shape 3 Shape, metadata 7 bytes, literal 8 Literal,
    parameter_number 9 int64, tuple_index 13 int64, dimensions 14 int64*, window 15 Window,
    convolution 16 Convolution, slices 17 Slice*, exponent_bits 18 int64, mantissa_bits 19 int64,
    dynamic_slice_sizes 20 int64*, padding 21 Padding, channel_id 26 int64, custom_call_target 28 string, dot 30 Dot,
    fft_type 31 int64, fft_length 32 int64*, gather 33 Gather, gather_slice_sizes 34 int64*, id 35 int64,
    sharding 40 bytes, operand_ids 36 int64*, control_predecessor_ids 37 int64*, called_computation_ids 38 int64*,
    backend_config 43 bytes, scatter 48 Scatter, replica_groups 49 ReplicaGroup*, feature_group_count 50 int64,
    precision 51 Precision, source_target_pairs 52 SourceTarget*, batch_group_count 58 int64,
    frontend_attributes 68 Attributes, rng_algorithm 70 int64, comparison_type 72 string, comparison_order 102 string,
    async_execution_thread 79 string, k 81 int64, statistics 82 bytes, largest 85 bool,
    comparison_direction 63 string, devices 87 DeviceList, original_value 88 bytes, iota_groups 92 IotaGroups,
    mesh_groups 93 MeshGroups
Computation: name 1 string, instructions 2 Instruction*, id 5 int64, root_id 6 int64, execution_thread 8 string
Module: name 1 string, computations 3 Computation*, entry_computation_id 6 int64, input_output_alias 8 bytes,
    stack_frames 17 StackFrames
Dump: module 1 Module
"""
"""Of each message its fields, their numbers and types; "*" marks a repeated field. An enum is read as its number."""

BITS = {
    1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 8, 7: 16, 8: 32, 9: 64, 10: 16, 11: 32, 12: 64, 15: 64, 16: 16, 18: 128, 19: 8,
    20: 8, 21: 4, 22: 4, 23: 8, 24: 8, 25: 8, 26: 2, 27: 2, 28: 8, 29: 8, 30: 1, 31: 1, 32: 4, 33: 8,
}  # fmt: skip
"""Bits per element of each `PrimitiveType`; tuples, tokens and opaque values are not in it."""


def _factory() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="samebits/hlo.proto", package="samebits", syntax="proto3")
    for line in re.split(r"\n(?=\w)", _FIELDS.strip()):
        name, _, fields = line.partition(":")
        described = file.message_type.add(name=name)
        for field, number, kind in map(str.split, fields.split(",")):
            repeated = kind.endswith("*")
            kind = kind.removesuffix("*")
            added = described.field.add(name=field, number=int(number))
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = added.TYPE_MESSAGE, f".samebits.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        each.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"samebits.{each.name}"))
        for each in file.message_type
    }


_CLASSES = _factory()


def parse_module(serialised: bytes) -> Any:
    """Return the module of `HloModule.as_serialized_hlo_module_proto()`.

    Raises:
        CouldNotRun: it is not one, or this XLA writes it in a form that is not understood.
    """
    module = _CLASSES["Module"]()
    try:
        module.ParseFromString(serialised)
    except message.DecodeError as error:
        raise CouldNotRun(f"the compiled program cannot be read as an HloModuleProto: {error}") from None
    if not module.computations:
        raise CouldNotRun("the compiled program holds no computation; this version of XLA is not understood")
    return module


def unread_fields(instruction: Any) -> set[int]:
    """Return the numbers of the fields of an instruction that say something and are not read here."""
    return {field.field_number for field in UnknownFieldSet(instruction) if field.data != b""}


def copy_of(instruction: Any) -> Any:
    """Return a copy of an instruction, to be changed freely."""
    copied = _CLASSES["Instruction"]()
    copied.CopyFrom(instruction)
    return copied


Instruction = Any
"""An instruction as protobuf read it (`samebits.hlo.module`)."""


@dataclass(frozen=True, slots=True)
class HloComputation:
    """One computation: its instructions by id, in the order in which they are scheduled, and its root."""

    name: str
    instructions: Mapping[int, Instruction]
    root: int
    thread: str

    def operands(self, instruction: Instruction) -> list[Instruction]:
        """Return the instructions whose results an instruction takes."""
        return [self.instructions[number] for number in instruction.operand_ids]


class HloModule:
    """A compiled module.

    Args:
        serialised: what `HloModule.as_serialized_hlo_module_proto()` gives.

    Raises:
        CouldNotRun: it is not a module, or refers to instructions or computations that it does not hold.
    """

    def __init__(self, serialised: bytes) -> None:
        proto = parse_module(serialised)
        self.alias: bytes = proto.input_output_alias
        self.stack_frames = proto.stack_frames
        self.computations = {
            computation.id: HloComputation(
                computation.name,
                {inst.id: inst for inst in computation.instructions},
                computation.root_id,
                computation.execution_thread,
            )
            for computation in proto.computations
        }
        self.entry: int = proto.entry_computation_id
        self._check()

    def _check(self) -> None:
        known = self.computations.keys()
        whole = self.entry in known and all(
            computation.root in computation.instructions
            and all(
                set(inst.called_computation_ids) <= known and set(inst.operand_ids) <= computation.instructions.keys()
                for inst in computation.instructions.values()
            )
            for computation in self.computations.values()
        )
        if not whole:
            raise CouldNotRun("the compiled program refers to parts that it does not hold; this XLA is not understood")

    @classmethod
    def of_dump(cls, serialised: bytes) -> HloModule:
        """Return the module of an `HloProto`, as XLA dumps them between passes."""
        return cls(_CLASSES["Dump"].FromString(serialised).module.SerializeToString())

    def origin(self, instruction: Instruction) -> InstructionOrigin:
        """Return where an instruction comes from, as the compiler noted it."""
        said = _CLASSES["Metadata"].FromString(instruction.metadata)
        file, line, tables = said.file, said.line, self.stack_frames
        if 0 < said.frame <= len(tables.frames):
            place = tables.locations[tables.frames[said.frame - 1].location - 1]
            file, line = tables.files[place.file - 1], place.line
        return InstructionOrigin(instruction.name, instruction.opcode, said.op_name, file, line)

    @property
    def parameter_count(self) -> int:
        """Return how many parameters the entry has."""
        return sum(inst.opcode == "parameter" for inst in self.computations[self.entry].instructions.values())

    def instructions(self) -> Iterator[tuple[HloComputation, Instruction]]:
        """Yield every instruction of every computation that the entry reaches, each once, those of fusions included."""
        for number in self.reached():
            for inst in self.computations[number].instructions.values():
                yield self.computations[number], inst

    def reached(self) -> list[int]:
        """Return the computations that the entry reaches, each once, callers before what they call."""
        reachable, waiting = dict.fromkeys([self.entry]), [self.entry]
        while waiting:
            for inst in self.computations[waiting.pop()].instructions.values():
                new = [number for number in inst.called_computation_ids if number not in reachable]
                reachable.update(dict.fromkeys(new))
                waiting += new
        return list(reachable)

    def runs(self) -> dict[int, int | None]:
        """Return how often each computation runs per run of the program; None inside a loop of unknown length.

        A branch of a conditional counts as run. Called computations that are part of one operation (the addition of a
        reduction) count once per operation.
        """
        kept: dict[int, Counter[int]] = {}
        unknown: set[int] = set()

        def below(number: int) -> Counter[int]:
            if number not in kept:
                total = Counter({number: 1})
                for inst in self.computations[number].instructions.values():
                    turns = trip_count(self, self.computations[number], inst) if inst.opcode == "while" else 1
                    for called in dict.fromkeys(inst.called_computation_ids):
                        inner = below(called)
                        if turns is None:
                            unknown.update(inner)
                        for nested, times in inner.items():
                            total[nested] += times * (1 if turns is None else turns)
                kept[number] = total
            return kept[number]

        return {number: None if number in unknown else times for number, times in below(self.entry).items()}


def config(instruction: Instruction) -> dict[str, Any]:
    """Return the backend's configuration where it is JSON (TPU and CPU write that); else empty."""
    try:
        parsed = json.loads(instruction.backend_config) if instruction.backend_config else {}
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def trip_count(module: HloModule, where: HloComputation, loop: Instruction) -> int | None:
    """Return the trip count of a `while`: from the compiler, or from its counter; None where neither gives it.

    The counter is understood in the form that scans and `fori_loop`s have: from a constant, plus a constant each turn,
    while it is less than a constant.
    """
    said = config(loop).get("known_trip_count", {}).get("n")
    if said is not None:
        return int(said)
    body, condition = _body_and_condition(module, loop)
    if body is None or condition is None:
        return None
    test = condition.instructions[condition.root]
    if test.opcode != "compare" or test.comparison_direction != "LT":
        return None
    counter, limit = condition.operands(test)
    place, last = _element(condition, counter), _constant(condition, limit)
    carried = body.instructions[body.root]
    start = where.operands(loop)[0]
    if place is None or last is None or carried.opcode != "tuple" or start.opcode != "tuple":
        return None
    step = body.operands(carried)[place]
    if step.opcode != "add" or {_element(body, operand) for operand in body.operands(step)} != {place, None}:
        return None
    by = next((_constant(body, operand) for operand in body.operands(step) if _element(body, operand) is None), None)
    first = _constant(where, where.operands(start)[place])
    return None if not by or by < 0 or first is None else max(-((first - last) // by), 0)


def _body_and_condition(module: HloModule, loop: Instruction) -> tuple[HloComputation | None, HloComputation | None]:
    """Return the two computations of a loop, distinguished by what they return: the condition returns a predicate."""
    body = condition = None
    for number in loop.called_computation_ids:
        called = module.computations[number]
        shape = called.instructions[called.root].shape
        if shape.element_type == 1 and not shape.dimensions:
            condition = called
        else:
            body = called
    return body, condition


def _bare(where: HloComputation, instruction: Instruction) -> Instruction:
    """Return an instruction without the copies and casts around it."""
    while instruction.opcode in ("copy", "bitcast", "convert"):
        instruction = where.operands(instruction)[0]
    return instruction


def _element(where: HloComputation, instruction: Instruction) -> int | None:
    """Return which element of the loop's own tuple an instruction is; None for one of another tuple."""
    instruction = _bare(where, instruction)
    if instruction.opcode != "get-tuple-element" or where.operands(instruction)[0].opcode != "parameter":
        return None
    return int(instruction.tuple_index)


def _constant(where: HloComputation, instruction: Instruction) -> int | None:
    instruction = _bare(where, instruction)
    if instruction.opcode != "constant":
        return None
    literal = instruction.literal
    values = [*literal.s32s, *literal.s64s, *literal.u32s, *literal.u64s]
    return int(values[0]) if len(values) == 1 else None


def size_in_bytes(shape: Any) -> int:
    """Return the bytes of an array without padding, or of all arrays of a tuple; tokens have none."""
    if shape.tuple_shapes:
        return sum(size_in_bytes(part) for part in shape.tuple_shapes)
    elements = 1
    for size in shape.dimensions:
        elements *= size
    return (elements * BITS.get(shape.element_type, 0) + 7) // 8
