"""The part of XLA's serialised `HloModuleProto` that is read here, as protobuf messages made on the spot.

Only fields that are read, or that must be left out of a comparison, are named; protobuf keeps all others as they are
and writes them back, so that a comparison of two instructions sees every attribute, those of later XLA versions too.

Source: openxla/xla, `xla/service/hlo.proto` and `xla/xla_data.proto` (field numbers are never used again there).
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from samebits.errors import CouldNotRun

_TYPES = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}

# Message -> field -> (number, type); "*" marks a repeated field. An enum is read as its number.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Shape": {
        "element_type": (2, "int64"),
        "dimensions": (3, "int64*"),
        "tuple_shapes": (4, "Shape*"),
    },
    "ReplicaGroup": {"replica_ids": (1, "int64*")},
    "IotaGroups": {"groups": (1, "int64"), "size": (2, "int64")},
    "DeviceList": {"replica_groups": (1, "ReplicaGroup*"), "iota": (2, "IotaGroups")},
    "MeshAxis": {"name": (1, "string"), "size": (2, "int64")},
    "DeviceMesh": {"axes": (1, "MeshAxis*")},
    "SubAxis": {"before": (1, "int64"), "size": (2, "int64")},
    "AxisRef": {"index": (1, "int64"), "sub_axis": (2, "SubAxis")},
    "MeshGroups": {"mesh": (1, "DeviceMesh"), "axes": (2, "AxisRef*")},
    "SourceTarget": {"source": (1, "int64"), "target": (2, "int64")},
    "Literal": {"s32s": (4, "int64*"), "s64s": (5, "int64*"), "u32s": (6, "int64*"), "u64s": (7, "int64*")},
    "Attribute": {"key": (1, "string"), "value": (2, "string")},
    "Attributes": {"map": (1, "Attribute*")},
    "Instruction": {
        "name": (1, "string"),
        "opcode": (2, "string"),
        "shape": (3, "Shape"),
        "metadata": (7, "bytes"),
        "literal": (8, "Literal"),
        "parameter_number": (9, "int64"),
        "tuple_index": (13, "int64"),
        "channel_id": (26, "int64"),
        "custom_call_target": (28, "string"),
        "id": (35, "int64"),
        "sharding": (40, "bytes"),
        "operand_ids": (36, "int64*"),
        "control_predecessor_ids": (37, "int64*"),
        "called_computation_ids": (38, "int64*"),
        "backend_config": (43, "bytes"),
        "replica_groups": (49, "ReplicaGroup*"),
        "source_target_pairs": (52, "SourceTarget*"),
        "frontend_attributes": (68, "Attributes"),
        "async_execution_thread": (79, "string"),
        "statistics": (82, "bytes"),
        "comparison_direction": (63, "string"),
        "devices": (87, "DeviceList"),
        "original_value": (88, "bytes"),
        "iota_groups": (92, "IotaGroups"),
        "mesh_groups": (93, "MeshGroups"),
    },
    "Computation": {
        "name": (1, "string"),
        "instructions": (2, "Instruction*"),
        "id": (5, "int64"),
        "root_id": (6, "int64"),
        "execution_thread": (8, "string"),
    },
    "Module": {
        "name": (1, "string"),
        "computations": (3, "Computation*"),
        "entry_computation_id": (6, "int64"),
        "input_output_alias": (8, "bytes"),
    },
}

BITS = {
    1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 8, 7: 16, 8: 32, 9: 64, 10: 16, 11: 32, 12: 64, 15: 64, 16: 16, 18: 128, 19: 8,
    20: 8, 21: 4, 22: 4, 23: 8, 24: 8, 25: 8, 26: 2, 27: 2, 28: 8, 29: 8, 30: 1, 31: 1, 32: 4, 33: 8,
}  # fmt: skip
"""Bits per element of each `PrimitiveType`; tuples, tokens and opaque values are not in it."""


def _factory() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="samebits/hlo.proto", package="samebits", syntax="proto3")
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = kind.endswith("*")
            kind = kind.removesuffix("*")
            added = described.field.add(name=field, number=number)
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = added.TYPE_MESSAGE, f".samebits.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"samebits.{name}")) for name in _MESSAGES}


_CLASSES = _factory()


def parse_module(serialised: bytes) -> Any:
    """The module of `HloModule.as_serialized_hlo_module_proto()`.

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


def copy_of(instruction: Any) -> Any:
    """A copy of an instruction, to be changed freely."""
    copied = _CLASSES["Instruction"]()
    copied.CopyFrom(instruction)
    return copied
