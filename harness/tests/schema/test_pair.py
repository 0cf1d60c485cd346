"""Declarations as data: frozen, keyword-only, without jax; scopes, contracts, expected errors, origin of a pair."""

import dataclasses
import pickle
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.schema import pair as pair_module
from samebits.schema.case import Arg, AxisSize, Case, Refusal
from samebits.schema.contract import COMPUTES, Contract, Exemption, Scope
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize
from samebits.schema.values import Integers, Normal
from tests.schema.test_pair_messages import HONEST, declare

RECORDS = [
    AxisSize(axis="context"),
    Arg(shape=(4,)),
    Refusal(error="ValueError", match="odd"),
    Case(id="small"),
    Scope(),
    Contract(),
    Exemption(reason="measured: 3 of 8 differ"),
    declare(),
    MeshSpec.parse("context4"),
    Normal(),
    Integers(high=4),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_are_frozen_and_keyword_only(record: Any) -> None:
    fields = dataclasses.fields(record)
    assert all(field.kw_only for field in fields)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, fields[0].name, None)
    with pytest.raises(TypeError, match="positional"):
        type(record)(getattr(record, fields[0].name))
    with pytest.raises((TypeError, AttributeError)):
        record.added = 1
    assert dataclasses.replace(record) == record


@pytest.mark.parametrize(
    "record", [r for r in RECORDS if not isinstance(r, Case | Pair)], ids=lambda r: type(r).__name__
)
def test_records_pickle(record: Any) -> None:
    assert pickle.loads(pickle.dumps(record)) == record


def test_a_case_keeps_its_own_copy_of_what_it_was_given() -> None:
    sizes, statics = {"rows": 8}, {"epsilon": 1e-5}
    case = Case(id="small", sizes=sizes, statics=statics)
    sizes["rows"], statics["epsilon"] = 1, 0.0
    assert case.sizes == {"rows": 8} and case.statics == {"epsilon": 1e-5}
    with pytest.raises(TypeError):
        case.sizes["rows"] = 1  # type: ignore[index]


# --- scopes and contracts --------------------------------------------------------------------------------------------

PLACE: dict[str, Any] = {
    "variant": "fused",
    "case": "small_odd",
    "dtype": "bfloat16",
    "mesh": "expert4_fsdp2",
    "mode": "explicit",
    "direction": "gradient",
    "leaf": "scale",
}


@pytest.mark.parametrize(
    ("field", "pattern", "covers"),
    [
        ("variant", "fused", True),
        ("variant", "fuse", False),
        ("variant", "FUSED", False),
        ("case", "*_odd", True),
        ("case", "*_even", False),
        ("dtype", "bf*", True),
        ("dtype", "float*", False),
        ("mesh", "expert?_*", True),
        ("mesh", "expert4", False),
        ("mode", "[ae]*", True),
        ("mode", "auto", False),
        ("direction", "gradient", True),
        ("direction", "forward", False),
        ("leaf", "scale", True),
        ("leaf", "x", False),
    ],
)
def test_a_scope_is_a_shell_pattern_per_field(field: str, pattern: str, covers: bool) -> None:
    scope = Scope(**{field: pattern})
    assert scope.covers(**PLACE) is covers
    assert str(scope) == f"{field}={pattern}"


def test_a_leaf_is_named_as_it_is_printed() -> None:
    """Brackets are a class of characters in a shell pattern."""
    at = {"variant": "v", "case": "c", "dtype": "d", "mesh": "m", "mode": "auto", "direction": "forward"}
    assert Contract(leaf="out['a']").covers(**at, leaf="out['a']")
    assert Contract(leaf="out[1]").covers(**at, leaf="out[1]")
    assert not Contract(leaf="out[1]").covers(**at, leaf="out[2]")


def test_every_field_of_a_scope_must_match() -> None:
    assert Scope(variant="fused", leaf="scale", dtype="bf*").covers(**PLACE)
    assert not Scope(variant="fused", leaf="scale", dtype="float32").covers(**PLACE)
    assert {field.name for field in dataclasses.fields(Scope)} == {*PLACE, "platform"}


def test_before_the_leaves_are_known_a_scope_of_a_leaf_may_cover() -> None:
    unknown: dict[str, Any] = {**PLACE, "leaf": None}
    assert Scope(leaf="x").covers(**unknown)
    assert not Scope(leaf="x", dtype="float32").covers(**unknown)


def test_the_widest_scope_says_so() -> None:
    assert str(Scope()) == "every result"
    assert str(Contract(leaf="scale", mode="auto")) == "mode=auto, leaf=scale"
    assert str(Exemption(reason="measured", variant="fused")) == "variant=fused"


def test_the_last_contract_that_matches_counts() -> None:
    loose = Contract(lowest="rounding", reason="1 of 8 differ", direction="gradient")
    strict = Contract(lowest="proved", leaf="scale")
    where = PLACE
    assert declare(contracts=(loose, strict)).contract(**where) is strict
    assert declare(contracts=(strict, loose)).contract(**where) is loose
    assert declare(contracts=(loose, strict)).contract(**{**where, "leaf": "x"}) is loose
    assert declare(contracts=(loose, strict)).contract(**{**where, "leaf": "x", "direction": "forward"}) is COMPUTES


def test_the_default_contract_is_bitwise_for_data_movement_only() -> None:
    assert declare().contract(**PLACE, moves=True).lowest == "bitwise"
    assert declare().contract(**PLACE).lowest == "rounding"


def test_an_exemption_is_found_by_its_scope() -> None:
    known = Exemption(variant="fused", reason="the sign of zero is lost in 3 of 8")
    assert declare(exemptions=(known,)).exemption(**PLACE) is known
    assert declare(exemptions=(known,)).exemption(**{**PLACE, "variant": "split"}) is None


# --- sides, cases, arguments -----------------------------------------------------------------------------------------


def wide(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("reference", "name"),
    [("plain", "plain"), ("their.module:plain", "plain"), (wide, "wide"), (pickle.Pickler, "Pickler")],
)
def test_the_reference_is_called_as_its_function(reference: Any, name: str) -> None:
    assert declare(reference=reference).sides == (name, "fused")


def test_variants_may_be_a_mapping_to_somebody_else_s_code() -> None:
    pair = declare(variants={"fused": "their.module:kernel", "split": wide})
    assert pair.variant_names == ("fused", "split")


def test_the_axes_of_a_pair_are_those_of_its_meshes() -> None:
    pair = declare(meshes=("stage2", "context4_data2"), wide_meshes=("expert16",))
    assert pair.axes == ("data", "context", "expert", "stage")


def test_a_static_argument_can_be_the_size_of_an_axis() -> None:
    statics = {"cp": AxisSize(axis="context"), "ep": AxisSize(axis="expert"), "epsilon": 1e-5}
    pair = declare(cases=(Case(id="small", sizes={"rows": 8}, statics=statics),), wide_meshes=("context4_expert4",))
    assert pair.statics(pair.cases[0], MeshSpec.parse("context4")) == {"cp": 4, "ep": 1, "epsilon": 1e-5}


def test_any_argument_of_any_case_and_mesh_may_be_renamed() -> None:
    cases = (Case(id="first", sizes={}, statics={"axis": 0}), Case(id="second", sizes={}))
    made = declare(
        args=lambda case, mesh: dict.fromkeys(
            ["x" if case.id == "first" else "y", *["bias"] * (mesh.devices == 4)], Arg(shape=(8,))
        ),
        cases=cases,
        rename={"x": "rows", "y": "columns", "axis": "dim", "bias": "b"},
    )
    made.check_argument_names()
    with pytest.raises(DeclarationError, match=r"rename refers to 'z', which .* expected some of x, axis, y$"):
        replace(made, rename={"z": "rows"}).check_argument_names()


def test_arguments_and_output_specs_may_depend_on_case_and_mesh() -> None:
    def args(case: Case, mesh: MeshSpec) -> dict[str, Arg]:
        return {case.id: Arg(shape=(mesh.devices,))}

    pair = declare(args=args, out_spec=lambda case, mesh: {"out": (mesh.names,)})
    case, mesh = pair.case("small"), MeshSpec.parse("context4")
    assert pair.arguments(case, mesh) == {"small": Arg(shape=(4,))}
    assert pair.output_spec(case, mesh) == {"out": (("context",),)}
    fixed = declare(out_spec={"out": ("context",)})
    assert fixed.arguments(case, mesh) == HONEST["args"]
    assert fixed.output_spec(case, mesh) == {"out": ("context",)}


def test_a_refusal_names_its_sides_or_means_all() -> None:
    every = Refusal(error="ValueError", match="odd")
    one = Refusal(error="TypeError", match="int", variants=("fused",))
    case = Case(id="odd", refuses=(one, every))
    assert case.refusal("fused") is one
    assert case.refusal("plain") is every
    assert Case(id="odd", refuses=(one,)).refusal("plain") is None


# --- where a pair was written ----------------------------------------------------------------------------------------

SUITE = """
from samebits.schema.case import Arg, Case
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize

def make(name):
    return Pair(name=name, reference="plain", variants=("fused",), args={"x": Arg(shape=(4,))},
                cases=(Case(id="small"),), dtypes=("float32",), meshes=("context2",))

PAIR = make("rope")
"""


def test_the_origin_is_the_declaring_file(tmp_path: Path) -> None:
    path = tmp_path / "test_rope.py"
    path.write_text(SUITE, encoding="utf-8")
    names = runpy.run_path(str(path))
    assert names["PAIR"].origin == str(path)
    assert dataclasses.replace(names["PAIR"], name="other").origin == str(path)
    assert names["make"]("again").origin == str(path), "also when the function is called from another file"


def test_the_origin_of_a_pair_of_this_file_is_this_file() -> None:
    assert Pair(**HONEST).origin == __file__
    assert pair_module.__file__ not in (declare().origin, __file__)


# --- its meshes -------------------------------------------------------------------------------------------------------


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
