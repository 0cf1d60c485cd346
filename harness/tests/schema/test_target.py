"""Targets by name, and layouts spread over their devices."""

import re

import pytest

from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import MeshSpec
from samebits.schema.target import Target, can_match, fixed_part, spread


@pytest.mark.parametrize(
    ("name", "platform", "cpus"),
    [
        ("cpu", "cpu", None),
        ("cpu:1", "cpu", 1),
        ("cpu:16", "cpu", 16),
        ("v5e:2x2", "tpu", None),
        ("tpu7x:4x4x4", "tpu", None),
        ("v9:2x2", "tpu", None),  # the compiler itself reports which it supports
    ],
)
def test_names(name: str, platform: str, cpus: int | None) -> None:
    target = Target(name=name)
    assert (target.platform, target.cpu_devices) == (platform, cpus)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tpu",
        "v5e",
        "v5e:",
        "v5e:4",
        "v5e:2x",
        "v5e:0x2",
        "v5e:2x2x2x2",
        "V5E:2x2",
        "v5e 2x2",
        "cpu:0",
        "cpu:",
        "gpu",
    ],
)
def test_malformed_names(name: str) -> None:
    line = f"target '{name}' is malformed; expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4"
    with pytest.raises(RequestError, match=f"^{re.escape(line)}$"):
        Target(name=name)


@pytest.mark.parametrize("name", ["v7x", "v7", "tpu7"])
def test_the_newest_generation_is_often_called_otherwise(name: str) -> None:
    with pytest.raises(RequestError, match=rf"^target '{name}:2x2x1' is unknown; did you mean 'tpu7x:2x2x1'\?$"):
        Target(name=f"{name}:2x2x1")


@pytest.mark.parametrize(
    ("layout", "number", "mesh"),
    [
        ("context*", 8, "context8"),
        ("context*", 1, "context1"),
        ("fsdp*_tensor2", 128, "fsdp64_tensor2"),
        ("tensor2_fsdp*_expert4", 8, "tensor2_fsdp1_expert4"),
        ("dp*_tp2", 8, "dp4_tp2"),
        ("fsdp_transpose=*,tensor=2", 8, "fsdp_transpose=4,tensor=2"),
        ("dp=*:explicit,tp=2", 8, "dp=4:explicit,tp=2"),
        ("none", 4, "none"),
        ("context4", 4, "context4"),
        ("context4", 8, "context4"),
    ],
)
def test_a_layout_is_spread_over_the_devices(layout: str, number: int, mesh: str) -> None:
    assert spread(layout, number) == MeshSpec.parse(mesh)


@pytest.mark.parametrize(
    ("layout", "number", "line"),
    [
        ("context8", 4, "layout 'context8' does not fit 4 devices; its fixed axes need 8"),
        ("fsdp*_tensor3", 8, "layout 'fsdp*_tensor3' does not fit 8 devices; its fixed axes need 3"),
        ("fsdp*_tensor16", 8, "layout 'fsdp*_tensor16' does not fit 8 devices; its fixed axes need 16"),
        ("fsdp*_tensor*", 8, "layout 'fsdp*_tensor*' has 2 stars; expected at most one size left open"),
    ],
)
def test_layouts_that_do_not_fit(layout: str, number: int, line: str) -> None:
    with pytest.raises(MeshError, match=f"^{re.escape(line)}$"):
        spread(layout, number)


@pytest.mark.parametrize("layout", ["", "*", "context", "rows_of*", "context*_context2"])
def test_malformed_layouts(layout: str) -> None:
    with pytest.raises(MeshError, match=r"^mesh "):
        fixed_part(layout)


MATCHING = ("*", "cpu", "tpu", "cpu*", "cpu:8", "tpu7x:*", "v5*", "v5[ep]:*", "?5e:2x2", "*:2x2x1", "v5p:4x4x4", "tpu*")


@pytest.mark.parametrize("pattern", MATCHING)
def test_a_pattern_of_known_generations(pattern: str) -> None:
    assert can_match(pattern)


@pytest.mark.parametrize("pattern", ["tpu7:2x2x1", "tpu7:*", "v5p", "v7*", "gpu", "TPU7x:*", "tpu7x:2x", ""])
def test_a_pattern_that_matches_no_target(pattern: str) -> None:
    assert not can_match(pattern)
