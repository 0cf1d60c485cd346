"""Pieces of arrays that processes exchange: what is as expected is not sent, what is not is sent whole."""

import re
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from samebits.cluster.process_group import Board, ProcessGroup
from samebits.cluster.spanning import agreed, fetch, fetched_tree, in_step, spans
from samebits.errors import CouldNotRun, MeshNotSpanned
from samebits.schema.meshes import MeshSpec


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    only = ProcessGroup(0, 1, Board(1), 60)
    yield only
    only.close()


class Recording(ProcessGroup):
    """A group of one that records what it sends."""

    sent: list[Any]

    def share(self, name: str, payload: Any) -> list[Any]:
        self.sent = [*getattr(self, "sent", []), payload]
        return super().share(name, payload)


def laid_out(array: Any, *spec: str | None) -> Any:
    return jax.device_put(array, NamedSharding(MeshSpec.parse("data4").build("auto"), PartitionSpec(*spec)))


def test_expected_bits_are_not_sent_and_others_are_whole() -> None:
    own = Recording(0, 1, Board(1), 60)
    array = np.arange(32, dtype=np.float32).reshape(8, 4)
    whole, replicas = fetch(own, "rope", {"out": laid_out(array, "data")}, {"out": array.copy()})
    assert np.array_equal(whole["out"], array) and not replicas and not hasattr(own, "sent")
    wrong = array.copy()
    wrong[5, 1] += 1
    whole, replicas = fetch(own, "rope", {"out": laid_out(array, "data")}, {"out": wrong})
    assert np.array_equal(whole["out"], array) and not replicas and len(own.sent[0]) == 4
    own.close()


def test_another_dtype_or_shape_is_not_what_is_expected(group: ProcessGroup) -> None:
    array = np.arange(8, dtype=np.float32)
    for other in (array.astype(np.float64), array.reshape(2, 4)):
        whole, _ = fetch(group, "rope", {"out": laid_out(array, "data")}, {"out": other})
        assert whole["out"].dtype == np.float32 and whole["out"].shape == (8,)


def test_copies_that_differ_are_told_apart(group: ProcessGroup) -> None:
    where = NamedSharding(MeshSpec.parse("data4").build("auto"), PartitionSpec())
    pieces = [np.zeros(3, np.float32) for _ in range(4)]
    pieces[2][1] = 7
    array = jax.make_array_from_single_device_arrays(
        (3,), where, [jax.device_put(piece, device) for piece, device in zip(pieces, jax.devices(), strict=False)]
    )
    whole, replicas = fetch(group, "rope", {"out": array}, {"out": pieces[0]})
    assert np.array_equal(whole["out"], pieces[0])
    assert [(replica.path, replica.mismatches) for replica in replicas] == [("out (replica on device 2)", 1)]


def test_a_mesh_of_this_process_spans_none(group: ProcessGroup) -> None:
    mesh = MeshSpec.parse("data4").build("auto")
    assert not spans(mesh) and not spans(None)
    assert in_step(group, mesh, "rope", lambda: 3) == 3
    tree = fetched_tree(group, "rope", {"a": laid_out(np.arange(4.0, dtype=np.float32), "data")})
    assert tree["a"].tolist() == [0, 1, 2, 3]


def test_an_error_is_raised_where_it_is_and_known_elsewhere(group: ProcessGroup) -> None:
    def fails() -> None:
        raise CouldNotRun("no kernel")

    with pytest.raises(CouldNotRun, match="no kernel"):
        agreed(group, "compiled", fails)
    assert agreed(group, "compiled", lambda: 5) == 5


def devices(processes: int, each: int) -> list[Any]:
    return [
        SimpleNamespace(process_index=process, id=(process, n)) for process in range(processes) for n in range(each)
    ]


@pytest.mark.parametrize(
    ("mesh", "processes", "ids"),
    [
        ("data8", 2, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]),
        ("data2_tensor2", 2, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("data2", 2, [(0, 0), (1, 0)]),
        ("data1", 2, [(1, 0)]),
        ("data2", 4, [(1, 0), (1, 1)]),
    ],
)
def test_a_mesh_has_equally_many_devices_of_each_process(mesh: str, processes: int, ids: list[tuple[int, int]]) -> None:
    spec = MeshSpec.parse(mesh)
    chosen = spec.spanning(devices(processes, 4), 1)
    assert [device.id for device in chosen[: spec.devices]] == ids


def test_a_mesh_that_does_not_divide_is_skipped_with_the_reason() -> None:
    with pytest.raises(MeshNotSpanned) as error:
        MeshSpec.parse("data5").spanning(devices(2, 4), 0)
    assert str(error.value) == (
        "mesh 'data5' has 5 devices, which do not divide by 2 processes of 4; leave it out by --mesh, or start another "
        "number of processes"
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"out": np.float32}, r"^rope: 'out' is float32\[8\] in process 1 and float16\[8\] in process 0$"),
        (
            {"out": np.float16, "more": np.float16},
            r"^rope: 'more' is float16\[8\] in process 1 and missing in process 0$",
        ),
        ({}, r"^rope: 'out' is missing in process 1 and float16\[8\] in process 0$"),
    ],
)
def test_other_arrays_in_another_process_make_up_none(other: dict[str, Any], said: str) -> None:
    """Their pieces would be cast to one dtype, and rounding would hide what differs."""
    board = Board(2)
    groups = [ProcessGroup(number, 2, board, 60) for number in range(2)]
    outputs = [{"out": np.float16}, other]
    errors: list[str] = []

    def fetched(number: int) -> None:
        arrays = {path: laid_out(np.arange(8, dtype=kind), "data") for path, kind in outputs[number].items()}
        try:
            fetch(groups[number], "rope", arrays, {})
        except CouldNotRun as error:
            errors.append(str(error))

    threads = [threading.Thread(target=fetched, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for group in groups:
        group.close()
    assert len(errors) == 2
    assert all(re.search(said, error) for error in errors), errors


def test_an_element_that_no_device_holds_is_no_element(group: ProcessGroup) -> None:
    array = laid_out(np.arange(8, dtype=np.float32), "data")
    torn = SimpleNamespace(addressable_shards=array.addressable_shards[1:], shape=(8,), dtype=array.dtype)
    with pytest.raises(CouldNotRun, match="no device holds 2 of 8 elements of an output"):
        fetch(group, "rope", {"out": torn}, {})
