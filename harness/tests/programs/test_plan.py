"""The selection: combinations of values, filters by name, meshes that do not fit."""

import dataclasses
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.errors import DeclarationError, MeshError, RequestError
from samebits.programs.plan import PointSetting, Request, covering, plan
from samebits.schema.case import Arg, Case
from samebits.schema.meshes import MODES, MeshSpec, Mode
from samebits.schema.pair import Pair
from tests.support.toys import toy


def pairs_of(settings_: list[PointSetting]) -> set[frozenset[tuple[str, str]]]:
    """Every two values that occur together."""
    found = set()
    for s in settings_:
        values = [(f.name, getattr(s, f.name)) for f in dataclasses.fields(s)]
        found |= {frozenset(two) for two in itertools.combinations(values, 2)}
    return found


@st.composite
def products(draw: st.DrawFn) -> list[PointSetting]:
    """Products with holes."""
    sizes = [draw(st.integers(1, 4)) for _ in range(3)]
    whole = [
        PointSetting(case=f"c{c}", dtype=f"d{d}", mesh=f"data{m + 1}", mode=mode)
        for c, d, m in itertools.product(*map(range, sizes))
        for mode in MODES
    ]
    return draw(st.lists(st.sampled_from(whole), min_size=1, unique=True))


def triples_of(settings_: list[PointSetting]) -> set[tuple[str, str, str]]:
    """Every dtype, mesh and mode that occur together."""
    return {(s.dtype, s.mesh, s.mode) for s in settings_}


@given(products())
@settings(derandomize=True, max_examples=100, deadline=None)
def test_covering_loses_no_combination_of_the_product(product: list[PointSetting]) -> None:
    """Every two values, every dtype with mesh and mode, holes included; and nothing that the product lacks."""
    chosen = covering(product)
    assert pairs_of(chosen) == pairs_of(product)
    assert triples_of(chosen) == triples_of(product)
    assert set(chosen) <= set(product)


def test_covering_is_much_smaller_and_always_the_same() -> None:
    """8 cases x 6 dtypes x 3 meshes x 2 modes: at least 48, and not many more."""
    product = [
        PointSetting(case=f"c{c}", dtype=f"d{d}", mesh=f"data{m + 1}", mode=mode)
        for c, d, m in itertools.product(range(8), range(6), range(3))
        for mode in MODES
    ]
    chosen = covering(product)
    assert chosen == covering(product)
    assert 48 <= len(chosen) <= 60 < len(product)


def test_a_fault_in_one_dtype_mesh_and_mode_is_always_met() -> None:
    """Three cases, three dtypes, six meshes: pairs alone would leave some of the 36 triples out."""
    product = [
        PointSetting(case=f"c{c}", dtype=f"d{d}", mesh=f"context{m + 1}", mode=mode)
        for c, d, m in itertools.product(range(3), range(3), range(6))
        for mode in MODES
    ]
    assert len(triples_of(covering(product))) == 36
    pairwise = [s for s in product if (int(s.dtype[1]) + int(s.mesh[7:]) + MODES.index(s.mode)) % 2]
    assert pairs_of(pairwise) == pairs_of(product)
    assert triples_of(pairwise) != triples_of(product)


def test_a_covering_without_one_setting_lacks_a_pair() -> None:
    """The check above can fail."""
    product = [PointSetting(case=f"c{c}", dtype=f"d{d}", mesh="data1", mode="auto") for c in range(3) for d in range(3)]
    assert pairs_of(covering(product)[1:]) != pairs_of(product)


def wide() -> Pair:
    """A toy with a mesh that needs 16 devices."""
    return dataclasses.replace(toy(), meshes=("data2", "data4"), wide_meshes=("data16",), modes=MODES)


def test_plan_counts_what_runs_and_what_does_not_fit() -> None:
    """The wide mesh is named; with the devices it is part of the product."""
    few = plan(wide(), Request(), devices=8)
    assert (few.product, few.unfit, few.whole) == (4, ("data16",), True)
    many = plan(wide(), Request(full=True), devices=16)
    assert (many.product, many.unfit) == (6, ())
    assert {p.variant for p in many.points} == {"double", "twice"}


def test_filters_pin_one_point() -> None:
    """What a replay line asks for."""
    request = Request(
        variants=("twice",),
        cases=("small",),
        dtypes=("float32",),
        meshes=("data2",),
        modes=("explicit",),
        directions=("gradient",),
    )
    found = plan(wide(), request, devices=8)
    assert [str(p) for p in found.points] == ["twice-small-float32-data2-explicit-gradient"]
    assert not found.whole


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (Request(cases=("smal",)), RequestError, "pair 'toy' has no case 'smal'; did you mean small?"),
        (
            Request(variants=("quick",)),
            RequestError,
            "pair 'toy' has no variant 'quick'; expected one of double, twice",
        ),
        (Request(dtypes=("float8",)), RequestError, "pair 'toy' has no dtype 'float8'; did you mean float32?"),
        (
            Request(meshes=("data32",)),
            MeshError,
            "mesh 'data32' needs 32 devices and 8 are there; on CPU ask for them: --devices 32, "
            "or JAX_NUM_CPU_DEVICES=32 where the command has no --devices",
        ),
        (
            Request(meshes=("stage2",)),
            MeshError,
            "mesh 'stage2': pair 'toy' has no axis 'stage'; it has data",
        ),
        (
            Request(meshes=("dat2",)),
            MeshError,
            "mesh 'dat2': pair 'toy' has no axis 'dat'; it has data; did you mean 'data'?",
        ),
        (Request(meshes=("data",)), MeshError, "mesh 'data' is malformed; expected names of letters each followed by"),
    ],
)
def test_wrong_requests_say_what_was_expected(request_: Request, error: type[Exception], message: str) -> None:
    """One line each."""
    with pytest.raises(error) as caught:
        plan(wide(), request_, devices=8)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mesh_that_is_not_declared_runs_when_asked_for() -> None:
    """Any size of an axis that the pair knows."""
    assert {p.mesh for p in plan(wide(), Request(meshes=("data8",)), devices=8).points} == {"data8"}


def test_a_case_of_one_shard_mode_runs_in_that_mode_only() -> None:
    """Its neighbour without the field runs in both."""
    sizes = {"rows": 8, "columns": 16}
    cases = (Case(id="narrow", sizes=sizes, modes=("auto",)), Case(id="free", sizes=sizes))
    points = plan(dataclasses.replace(toy(), modes=MODES, cases=cases), Request(full=True), devices=8).points
    seen = {(point.case, point.mode) for point in points}
    assert seen == {("narrow", "auto"), ("free", "auto"), ("free", "explicit")}


@pytest.mark.parametrize(
    ("meshes", "modes", "seen"),
    [
        (("none",), MODES, {("none", "auto")}),
        (("none",), ("explicit",), {("none", "auto")}),
        (("data=2:explicit",), ("auto",), {("data=2:explicit", "explicit")}),
        (
            ("data=2:explicit,tensor=2",),
            MODES,
            {("data=2:explicit,tensor=2", "auto"), ("data=2:explicit,tensor=2", "explicit")},
        ),
        (("data=2:auto,tensor=2:explicit",), ("auto",), {("data=2:auto,tensor=2:explicit", "explicit")}),
        (("data=2", "tensor=2,data=2"), ("auto",), {("data2", "auto"), ("tensor2_data2", "auto")}),
    ],
)
def test_a_mesh_whose_types_are_fixed_runs_in_one_mode(
    meshes: tuple[str, ...], modes: tuple[Mode, ...], seen: set[tuple[str, str]]
) -> None:
    pair = dataclasses.replace(toy(), meshes=meshes, modes=modes)
    points = plan(pair, Request(full=True), devices=8).points
    assert {(point.mesh, point.mode) for point in points} == seen
    for mesh, mode in seen:
        again = plan(pair, Request(meshes=(mesh,), modes=(mode,)), devices=8).points
        assert {(point.mesh, point.mode) for point in again} == {(mesh, mode)}


def test_a_case_is_restricted_to_a_mesh_in_either_spelling() -> None:
    case = Case(id="small", sizes={"rows": 8, "columns": 16}, meshes=("data=2",))
    pair = dataclasses.replace(toy(), meshes=("data2", "data4"), cases=(case,))
    assert {point.mesh for point in plan(pair, Request(full=True), devices=8).points} == {"data2"}


def test_a_misspelt_axis_from_a_function_is_told_apart() -> None:
    """`dta` is nearly `data`; `fsdp` is an axis that these meshes lack."""

    def args(case: Case, mesh: MeshSpec, axis: str = "fsdp") -> dict[str, Arg]:
        return {"x": Arg(shape=(8, 16), spec=("data", axis))}

    assert plan(dataclasses.replace(toy(), args=args), Request(), devices=8).points
    wrong = dataclasses.replace(toy(), args=lambda case, mesh: args(case, mesh, "dta"))
    message = "pair 'toy', argument 'x': axis 'dta' of spec is in no mesh of the pair; expected some of data; did you"
    with pytest.raises(DeclarationError, match=re.escape(message)):
        plan(wrong, Request(), devices=8)


def test_a_declaration_that_yields_no_case_is_an_error() -> None:
    """Its only case excludes its only dtype by a variant list that leaves nothing."""
    pair = dataclasses.replace(toy(), cases=(Case(id="small", sizes={"rows": 8, "columns": 16}, dtypes=("float32",)),))
    object.__setattr__(pair, "dtypes", ("int32",))
    with pytest.raises(DeclarationError, match="pair 'toy': its declaration yields no case"):
        plan(pair, Request(), devices=8)


def test_integers_have_no_gradient() -> None:
    """Forward only."""
    pair = dataclasses.replace(toy(), dtypes=("int32",))
    assert {p.direction for p in plan(pair, Request(), devices=8).points} == {"forward"}
