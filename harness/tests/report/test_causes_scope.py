"""Where a group of failures ends: each restriction needs results beside the failures that hold."""

from typing import Any

import pytest

from samebits.report.causes import only, place_words
from samebits.schema.finding import Finding
from samebits.schema.picture import HeatMap, Picture
from tests.support.documents import different, result


def on(*meshes: str) -> list[Finding]:
    return [different(mesh=mesh) for mesh in meshes]


def holding(*meshes: str) -> list[Finding]:
    return [result(mesh=mesh) for mesh in meshes]


@pytest.mark.parametrize(
    ("failing", "beside", "words"),
    [
        ([different()], [result(dtype="float32")], ["only with bfloat16"]),
        ([different(direction="gradient")], [result()], ["only in the gradients"]),
        ([different(mode="explicit")], [result()], ["only in mode explicit"]),
        ([different()], [result(case="other")], ["only in case small"]),
        (on("data4", "data8"), holding("data1", "data2"), ["only on meshes of 4 devices and more"]),
        (on("data2", "data8"), holding("data1"), ["only on meshes of several devices"]),
        (on("data1"), holding("data2", "data4"), ["only on one device"]),
        (on("data3", "data5"), holding("data2", "data4"), ["only where the number of devices is odd"]),
        (on("data2_fsdp2", "fsdp4"), holding("data4", "data8"), ["only where the mesh has the axis 'fsdp'"]),
        (on("data4"), holding("data2", "data8"), ["only on data4"]),
    ],
)
def test_a_restriction(failing: list[Finding], beside: list[Finding], words: list[str]) -> None:
    assert only(failing, [*failing, *beside]) == words


@pytest.mark.parametrize(
    ("failing", "beside"),
    [
        ([different()], []),  # nothing beside it ran
        ([different()], [result(dtype="float32", verdict="skipped", ok=False)]),
        ([different()], [different(dtype="float32")]),  # the other fails too, in a group of its own
        ([different(direction="gradient")], [result(direction="forward", dtype="float32")]),  # of another dtype
        (on("data2", "data8"), holding("data4")),
        (on("data2"), [result(mesh="data4", variant="slice")]),
    ],
)
def test_no_restriction_without_its_evidence(failing: list[Finding], beside: list[Finding]) -> None:
    assert [words for words in only(failing, [*failing, *beside]) if "device" in words or "with" in words] == []


def parts(**more: int) -> dict[str, Any]:
    """A picture with so many differing elements in the parts of the devices `d0`, `d1` ..."""
    devices = {name.removeprefix("d").replace("_", ", "): count for name, count in more.items()}
    return {"picture": Picture(heat=HeatMap(edges={}, counts="1"), ulps={}, devices=devices)}


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        ([parts(d0=0, d1=8, d2=0)], ["only in the part of device 1"]),
        ([parts(d0_1=0, d2_3=8)] * 2, ["only in the part of devices 2, 3"]),
        ([parts(d0=0, d1=8, d2=8)], ["only in the parts of devices 1 and 2"]),
        ([parts(d0=1, d1=8)], []),  # every device has some
        ([parts(d0=0, d1=8), parts(d0=8, d1=0)], []),  # not the same one in all results
        ([parts(d0=0, d1=8), {}], []),  # of one of them it is not known
        ([parts(d0=8)], []),  # one device has all
    ],
)
def test_the_parts_of_devices(pictures: list[dict[str, Any]], words: list[str]) -> None:
    assert only([different(case=f"c{number}", **more) for number, more in enumerate(pictures)], []) == words


def test_an_unreadable_mesh_restricts_nothing() -> None:
    assert only(on("?!"), [*on("?!"), *holding("data2")]) == []


def test_places_in_few_words() -> None:
    assert place_words(on("data2", "data4")) == "small; bfloat16; data2/4; forward"
    many = [different(case=f"c{number}", mesh=f"data{number}") for number in range(1, 10)]
    assert place_words(many) == "9 cases; bfloat16; 9 meshes; forward"
