"""Names of meshes: parsed, formatted, rejected, and built."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Callable
from typing import Any

import jax
import pytest

from samebits.errors import MeshError
from samebits.schema import meshes
from samebits.schema.meshes import AXES, MODES, MeshSpec, Mode
from tests.schema import raising

AXIS_LIST = "data, fsdp, tensor, context, expert, stage"
SHAPE = "expected axis names each followed by a size and joined by '_', as in 'context8' or 'expert4_fsdp2'"

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    **{
        f"malformed '{text}'": (lambda text=text: MeshSpec.parse(text), f"mesh '{text}' is malformed; {SHAPE}")  # type: ignore[misc]
        for text in (
            "",
            "context",
            "8",
            "context8_",
            "_context8",
            "context8__fsdp2",
            "context 8",
            "Context8",
            "context-8",
            "context08",
        )
    },
    "misspelt axis": (
        lambda: MeshSpec.parse("contxt4"),
        f"mesh axis 'contxt' is unknown; the axes are {AXIS_LIST}; did you mean 'context'?",
    ),
    "axis like no other": (
        lambda: MeshSpec.parse("rows4"),
        f"mesh axis 'rows' is unknown; the axes are {AXIS_LIST}",
    ),
    "axis twice": (
        lambda: MeshSpec.parse("context2_context4"),
        "mesh axis 'context' appears twice in 'context2_context4'; give each axis once",
    ),
    "axis of size zero": (
        lambda: MeshSpec.parse("fsdp2_context0"),
        "mesh axis 'context' has size 0; expected at least 1",
    ),
    "no axis": (
        lambda: MeshSpec(axes=()),
        f"a mesh without axes; expected at least one of {AXIS_LIST}, as in 'context4'",
    ),
    "more devices than there are": (
        lambda: MeshSpec.parse("expert4_fsdp4").require(8),
        "mesh 'expert4_fsdp4' needs 16 devices and 8 are there; on CPU ask for them: --devices 16",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mesh_is_told_what_to_write(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(MeshError, match=f"^{re.escape(message)}$") as caught:
        call()
    assert caught.value.exit_code == 2


def test_every_message_is_in_the_table() -> None:
    assert raising.unreached(meshes, [call for call, _ in WRONG.values()]) == [], "add a row to the table above"
    assert len(raising.unreached(meshes, [])) == len(raising.raise_statements(meshes)) > 0


@pytest.mark.parametrize("text", ["context8", "expert4_fsdp2", "data1", "data2_fsdp3_tensor5_context1_expert7_stage2"])
def test_a_mesh_reads_its_own_name(text: str) -> None:
    mesh = MeshSpec.parse(text)
    assert mesh.id == text
    assert MeshSpec.parse(mesh.id) == mesh


def test_axes_keep_their_order_and_sizes() -> None:
    mesh = MeshSpec.parse("expert4_fsdp2")
    assert mesh.axes == (("expert", 4), ("fsdp", 2))
    assert mesh.names == ("expert", "fsdp")
    assert mesh.devices == 8
    assert (mesh.size("expert"), mesh.size("fsdp"), mesh.size("stage")) == (4, 2, 1)
    assert mesh != MeshSpec.parse("fsdp2_expert4")


def test_a_mesh_that_just_fits_is_accepted() -> None:
    MeshSpec.parse("context8").require(8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["data1", "expert1_fsdp1"])
def test_the_built_mesh_has_the_names_sizes_and_mode(text: str, mode: Mode) -> None:
    """On one device, so that it runs on every machine; larger ones are checked against their label in every run."""
    spec = MeshSpec.parse(text)
    mesh = spec.build(mode)
    assert tuple(mesh.shape.items()) == spec.axes
    kind: Any = {"auto": jax.sharding.AxisType.Auto, "explicit": jax.sharding.AxisType.Explicit}[mode]
    assert mesh.axis_types == (kind,) * len(spec.axes)
    assert mesh.devices.size == spec.devices


def test_a_mesh_beyond_the_machine_is_not_built() -> None:
    count = len(jax.devices())
    with pytest.raises(MeshError, match=f"needs {2 * count} devices and {count} are there"):
        MeshSpec.parse(f"context{2 * count}").build("auto")


def test_a_mesh_is_frozen_keyword_only_hashable_and_pickles() -> None:
    mesh = MeshSpec.parse("expert4_fsdp2")
    with pytest.raises(dataclasses.FrozenInstanceError):
        mesh.axes = ()  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        MeshSpec((("context", 4),))  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    assert len({mesh, MeshSpec.parse("expert4_fsdp2")}) == 1


def test_the_axes_are_those_of_the_field() -> None:
    assert ", ".join(AXES) == AXIS_LIST
