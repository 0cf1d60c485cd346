"""Names of meshes: parsed, formatted, rejected, and built."""

import dataclasses
import pickle
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import MeshError, MeshNotSpanned
from samebits.schema import meshes
from samebits.schema import meshes as mesh_ids
from samebits.schema.meshes import MODES, MeshSpec, Mode
from tests.schema import raising

SHAPE = (
    "expected names of letters each followed by a size and joined by '_', as in 'dp2_tp4'; or NAME=SIZE joined by ',', "
    "as in 'fsdp_transpose=2,tensor=4'; or 'none' for no mesh"
)
MANUAL = "is of type manual, which jax.set_mesh rejects;"


def manual_mesh() -> object:
    return jax.sharding.AbstractMesh((2,), ("dp",), axis_types=(jax.sharding.AxisType.Manual,))


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
            "context-8",
            "context08",
            "fsdp_transpose2",
            "dp=2,",
            "dp=2_tp=4",
            "dp=02",
            "dp=",
            "=2",
            "dp=2,tp4",
            "none4_",
        )
    },
    "not an identifier": (
        lambda: MeshSpec.parse("d-p=2"),
        "mesh axis 'd-p' is not an identifier; expected letters, digits and '_', e.g. 'dp'",
    ),
    "axis twice": (
        lambda: MeshSpec.parse("context2_context4"),
        "mesh axis 'context' appears twice in 'context2_context4'; give each axis once",
    ),
    "axis of size zero": (
        lambda: MeshSpec.parse("fsdp2_context0"),
        "mesh axis 'context' has size 0; expected at least 1",
    ),
    "manual axis": (
        lambda: MeshSpec.parse("dp=2:manual"),
        f"mesh 'dp=2:manual': axis 'dp' {MANUAL} write auto or explicit, and "
        "let jax.shard_map make the axis manual inside the function",
    ),
    "unknown type": (
        lambda: MeshSpec.parse("dp=2,tp=4:exlicit"),
        "mesh 'dp=2,tp=4:exlicit': axis 'tp' is of type 'exlicit'; expected auto or explicit",
    ),
    "unknown type of a record": (
        lambda: MeshSpec(axes=(("dp", 2),), types=("manual",)),  # type: ignore[arg-type]
        "mesh with an axis of type 'manual'; expected auto or explicit, or None",
    ),
    "too few types": (
        lambda: MeshSpec(axes=(("dp", 2), ("tp", 2)), types=("auto",)),
        "mesh of 2 axes with 1 axis types; expected one for each",
    ),
    "manual axis of a mesh of jax's": (
        lambda: MeshSpec.of(manual_mesh()),  # type: ignore[arg-type]
        f"mesh axis 'dp' {MANUAL} expected a mesh of auto or explicit axes",
    ),
    "axis without a name": (
        lambda: MeshSpec.of(jax.sharding.AbstractMesh((2,), (7,))),  # type: ignore[arg-type]
        "mesh axis 7 is of type int; expected a name, as in 'dp'",
    ),
    "more devices than there are": (
        lambda: MeshSpec.parse("expert4_fsdp4").require(8),
        "mesh 'expert4_fsdp4' needs 16 devices and 8 are there; on CPU ask for them: --devices 16, "
        "or JAX_NUM_CPU_DEVICES=16 where the command has no --devices",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mesh_is_told_what_to_write(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(MeshError, match=f"^{re.escape(message)}$") as caught:
        call()
    assert caught.value.exit_code == 2


def _not_divisible() -> None:
    MeshSpec.parse("data3").spanning([SimpleNamespace(process_index=index % 2) for index in range(4)], 0)


def test_devices_that_do_not_divide_by_processes() -> None:
    """No error of the mesh: with another number of processes it runs."""
    with pytest.raises(
        MeshNotSpanned, match="mesh 'data3' has 3 devices, which do not divide by 2 processes of 2; leave"
    ):
        _not_divisible()


def test_every_message_is_in_the_table() -> None:
    calls = [*(call for call, _ in WRONG.values()), _not_divisible]
    assert raising.unreached(meshes, calls) == raising.unreached(mesh_ids, calls) == [], "add a row to the table above"
    for module in (meshes, mesh_ids):
        assert len(raising.unreached(module, [])) == len(raising.raise_statements(module)) > 0


CANONICAL = (
    "context8",
    "expert4_fsdp2",
    "data2_fsdp3_tensor5_context1_expert7_stage2",
    "X2_y4",
    "fsdp_transpose=2,tensor=4",
    "dp=2:explicit,tp=4:auto",
    "dp=2:explicit,tp=4",
    "stage1=2,stage2=4",
    "_=2",
    "none",
)


@pytest.mark.parametrize("text", CANONICAL)
def test_a_mesh_reads_its_own_name(text: str) -> None:
    mesh = MeshSpec.parse(text)
    assert mesh.id == text
    assert MeshSpec.parse(mesh.id) == mesh


@pytest.mark.parametrize(("text", "id"), [("dp=2,tp=4", "dp2_tp4"), ("a_b=2, c=4", "a_b=2,c=4"), ("dp=02,", None)])
def test_a_mesh_has_one_canonical_name(text: str, id: str | None) -> None:
    if id is None:
        with pytest.raises(MeshError, match="malformed"):
            MeshSpec.parse(text)
    else:
        assert MeshSpec.parse(text).id == id


# The categories of identifiers, and the two of other categories: of any text most examples would be thrown away.
LETTERS = st.characters(
    categories=("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd", "Pc"), include_characters="\u2118\u212e"
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True) | st.text(LETTERS, min_size=1, max_size=4).filter(
    str.isidentifier
)


@given(
    st.lists(st.tuples(names, st.integers(1, 20)), max_size=4, unique_by=lambda axis: axis[0]),
    st.lists(st.sampled_from([None, "auto", "explicit"]), min_size=4, max_size=4),
)
def test_every_mesh_reads_its_own_name(axes: list[tuple[str, int]], types: list[Mode | None]) -> None:
    mesh = MeshSpec(axes=tuple(axes), types=tuple(types[: len(axes)]))
    assert MeshSpec.parse(mesh.id) == mesh


@given(st.text(alphabet="dpt24_=,:aeuxlico", max_size=16))
def test_equal_meshes_have_equal_names(text: str) -> None:
    try:
        mesh = MeshSpec.parse(text)
    except MeshError:
        return
    assert MeshSpec.parse(mesh.id) == mesh


def test_no_mesh_is_one_device_without_axes() -> None:
    mesh = MeshSpec.parse("none")
    assert (mesh.axes, mesh.names, mesh.devices, mesh.size("dp"), mesh.id) == ((), (), 1, 1, "none")
    assert mesh.build("explicit") is None
    assert mesh.abstract("auto") is None
    assert MeshSpec(axes=()) == mesh == MeshSpec.of(jax.sharding.AbstractMesh((), ()))


@pytest.mark.parametrize(
    ("text", "mode", "swept"),
    [
        ("none", "auto", ("auto",)),
        ("dp2", None, ("auto", "explicit")),
        ("dp=2:explicit,tp=2", None, ("auto", "explicit")),
        ("dp=2:explicit,tp=2:auto", "explicit", ("explicit",)),
        ("dp=2:auto", "auto", ("auto",)),
    ],
)
def test_types_fix_the_mode_where_all_are_given(text: str, mode: Mode | None, swept: tuple[Mode, ...]) -> None:
    mesh = MeshSpec.parse(text)
    assert (mesh.mode, mesh.modes(MODES)) == (mode, swept)


def test_a_smaller_mesh_has_the_types_of_the_larger() -> None:
    mesh = MeshSpec.parse("dp=2:explicit,tp=4")
    assert mesh.having((("tp", 2), ("dp", 2))).id == "tp=2,dp=2:explicit"
    assert mesh.having((("tp", 2),)).id == "tp2"


@pytest.mark.parametrize("mode", MODES)
def test_a_mesh_of_jax_keeps_order_and_types(mode: Mode) -> None:
    text = "tp=1:explicit,dp=1"
    mesh = MeshSpec.parse(text)
    built = mesh.build(mode)
    assert built is not None
    spec = MeshSpec.of(built)
    assert spec.id == f"tp=1:explicit,dp=1:{mode}"
    assert spec.build("auto") == built
    assert spec.untyped.id == "tp1_dp1"
    abstract = mesh.abstract(mode)
    assert abstract is not None
    assert MeshSpec.of(abstract) == spec


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
    assert mesh is not None
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
