"""The serialised form of XLA, from messages built in the test: device groups, sizes, and invalid modules."""

from typing import Any

import pytest

from samebits.errors import CouldNotRun
from samebits.hlo import module
from samebits.hlo.counts import difference, group_size
from samebits.hlo.module import HloModule, size_in_bytes


def written(**fields: Any) -> Any:
    return module._CLASSES["Instruction"](**fields)


GROUPS: dict[str, tuple[dict[str, Any], int | None]] = {
    "lists": ({"replica_groups": [{"replica_ids": [0, 1, 2]}, {"replica_ids": [3, 4, 5]}]}, 3),
    "lists of devices": ({"devices": {"replica_groups": [{"replica_ids": [0, 1]}]}}, 2),
    "uneven lists": ({"replica_groups": [{"replica_ids": [0]}, {"replica_ids": [1, 2]}]}, 2),
    "iota": ({"devices": {"iota": {"groups": 2, "size": 4}}}, 4),
    "one axis of a mesh": (
        {"mesh_groups": {"mesh": {"axes": [{"size": 4}, {"size": 2}]}, "axes": [{"index": 1}]}},
        2,
    ),
    "two axes of a mesh": (
        {"mesh_groups": {"mesh": {"axes": [{"size": 4}, {"size": 2}]}, "axes": [{"index": 0}, {"index": 1}]}},
        8,
    ),
    "part of an axis": (
        {"mesh_groups": {"mesh": {"axes": [{"size": 8}]}, "axes": [{"sub_axis": {"before": 1, "size": 4}}]}},
        4,
    ),
    "an axis that the mesh has not": ({"mesh_groups": {"mesh": {"axes": [{"size": 8}]}, "axes": [{"index": 3}]}}, None),
    "none at all": ({}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_size_of_a_group_in_each_form(name: str) -> None:
    fields, size = GROUPS[name]
    assert group_size(written(**fields)) == size


def test_sizes_of_small_types_and_tuples() -> None:
    shape = module._CLASSES["Shape"]
    assert size_in_bytes(shape(element_type=21, dimensions=[3, 5])) == 8  # fifteen halves of a byte
    assert size_in_bytes(shape(element_type=16, dimensions=[])) == 2
    assert size_in_bytes(shape(tuple_shapes=[{"element_type": 11, "dimensions": [2]}, {"element_type": 17}])) == 8


def test_the_largest_difference_comes_first() -> None:
    assert list(difference({"add": 1, "copy": 9, "same": 4}, {"copy": 2, "same": 4, "while": 1}).items()) == [
        ("copy", [9, 2]),
        ("add", [1, 0]),
        ("while", [0, 1]),
    ]


@pytest.mark.parametrize(
    ("serialised", "line"),
    [
        (b"\xff\xff\xff", "^the compiled program cannot be read as an HloModuleProto: "),
        (b"", "^the compiled program holds no computation; this version of XLA is not understood$"),
        (
            module._CLASSES["Module"](computations=[{"id": 1}], entry_computation_id=2).SerializeToString(),
            "^the compiled program refers to parts that it does not hold; this XLA is not understood$",
        ),
    ],
    ids=["no proto", "empty", "dangling"],
)
def test_what_is_no_module_is_refused(serialised: bytes, line: str) -> None:
    with pytest.raises(CouldNotRun, match=line):
        HloModule(serialised)
