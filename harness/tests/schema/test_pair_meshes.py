"""The meshes of a declared pair: canonical names, and one line for an axis that no mesh has."""

from collections.abc import Callable

import pytest

from samebits.errors import DeclarationError, MeshError
from samebits.schema import pair_meshes
from samebits.schema.case import Arg, AxisSize, Case, ContextMesh
from samebits.schema.meshes import SPELLING, MeshSpec
from samebits.schema.real_size import RealSize
from tests.schema import raising
from tests.schema.test_pair_messages import Wrong, declare, with_case

WRONG: Wrong = {
    "misspelt axis in a spec": (
        lambda: declare(args={"x": Arg(shape=(4, 4), spec=(None, ("fsdp", "contxt")))}),
        "pair 'rope', argument 'x': axis 'contxt' of spec is in no mesh of the pair; "
        "expected some of context; did you mean 'context'?",
    ),
    "size of a misspelt axis": (
        lambda: with_case(statics={"cp": AxisSize(axis="contxt")}),
        "pair 'rope', case 'small': cp is the size of axis 'contxt', which no mesh of the pair has; "
        "expected some of context; did you mean 'context'?",
    ),
    "size of an axis without meshes": (
        lambda: declare(
            cases=(Case(id="small", sizes={"rows": 8}, statics={"cp": AxisSize(axis="cp")}),), meshes=("none",)
        ),
        "pair 'rope', case 'small': cp is the size of axis 'cp', which no mesh of the pair has; "
        "its meshes have no axes",
    ),
    "mesh of a pair without any": (
        lambda: declare(
            cases=(Case(id="small", sizes={"rows": 8}, statics={"mesh": ContextMesh()}),), meshes=("none",)
        ),
        "pair 'rope', case 'small': mesh is the mesh, and the pair has none; "
        "declare meshes with axes, as in meshes=('dp2_tp4',)",
    ),
    "malformed mesh": (
        lambda: declare(meshes=("fsdp_t4",)),
        f"pair 'rope': mesh 'fsdp_t4' is malformed; {SPELLING}",
    ),
    "malformed wide mesh": (
        lambda: declare(wide_meshes=("context",)),
        f"pair 'rope': mesh 'context' is malformed; {SPELLING}",
    ),
    "wide mesh among the ordinary ones": (
        lambda: declare(meshes=("context4", "expert4_fsdp4")),
        "pair 'rope': mesh 'expert4_fsdp4' needs 16 devices; above 8 write it in wide_meshes",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_is_told_what_to_write(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(DeclarationError) as caught:
        call()
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


WRONG_MESHES: Wrong = {
    "mesh with an axis that the pair lacks": (
        lambda: pair_meshes.require_axes(declare(), MeshSpec.parse("contxt2")),
        "mesh 'contxt2': pair 'rope' has no axis 'contxt'; it has context; did you mean 'context'?",
    ),
    "mesh of a pair without axes": (
        lambda: pair_meshes.require_axes(declare(meshes=("none",)), MeshSpec.parse("dp2")),
        "mesh 'dp2': pair 'rope' has no axis 'dp'; it has none",
    ),
}


@pytest.mark.parametrize("name", WRONG_MESHES)
def test_a_wrong_mesh_is_told_what_the_pair_knows(name: str) -> None:
    call, message = WRONG_MESHES[name]
    with pytest.raises(MeshError) as caught:
        call()
    assert str(caught.value) == message


def test_every_message_is_in_a_table() -> None:
    calls: list[Callable[[], object]] = [call for wrong in (WRONG, WRONG_MESHES) for call, _ in wrong.values()]
    assert raising.unreached(pair_meshes, calls) == [], "add a row to the tables above"
    assert len(raising.unreached(pair_meshes, [])) == len(raising.raise_statements(pair_meshes)) > 0


def test_meshes_are_known_by_their_canonical_names() -> None:
    case = Case(id="small", sizes={"rows": 8}, meshes=("tp=2",))
    pair = declare(meshes=("dp=2,tp=4", "tp=2"), wide_meshes=("c=4:explicit, d=4",), cases=(case,))
    assert (pair.meshes, pair.wide_meshes) == (("dp2_tp4", "tp2"), ("c=4:explicit,d=4",))
    assert pair.cases[0].meshes == ("tp2",)


def test_own_axes_come_as_declared_after_those_of_the_field() -> None:
    pair = declare(meshes=("tp2_dp2", "context2_dp2", "data2_context2", "none"))
    assert pair.axes == ("data", "context", "tp", "dp")


@pytest.mark.parametrize("axis", ["fsdp", "model", "ctx"])
def test_a_spec_may_name_an_axis_that_no_mesh_has(axis: str) -> None:
    """Only what is nearly an axis of a mesh is an error: other meshes may be asked for."""
    assert declare(args={"x": Arg(shape=("rows",), spec=(axis,))}).axes == ("context",)


def test_numbered_axes_are_not_misspelt() -> None:
    args = {"x": Arg(shape=("rows",), spec=("stage3",))}
    assert declare(meshes=("stage1=2,stage2=2",), args=args).axes == ("stage1", "stage2")


def test_an_axis_of_a_production_layout_counts() -> None:
    case = Case(id="large", statics={"tp": AxisSize(axis="tp")})
    real = RealSize(case=case, layout="tp*", dtype="float32", targets=("cpu",))
    assert declare(compiled=(real,)).compiled == (real,)
