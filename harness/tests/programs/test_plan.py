"""The selection: combinations of values, filters by name, meshes that do not fit."""

import dataclasses
import itertools
import re
from dataclasses import replace
from pathlib import Path

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import samebits
from samebits.errors import DeclarationError, MeshError, RequestError
from samebits.programs.asked import Asked, record, record_all, record_outside, recorded
from samebits.programs.catalogue import Locator, load
from samebits.programs.other_sizes import at_sizes, read_sizes, sizes_text
from samebits.programs.plan import PointSetting, Request, covering, plan
from samebits.programs.replay import replay
from samebits.schema.case import Arg, Case
from samebits.schema.meshes import MODES, MeshSpec, Mode
from samebits.schema.pair import Pair
from tests.support.invoke import samebits as command
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
        (Request(meshes=("stage2",)), MeshError, "mesh 'stage2': pair 'toy' has no axis 'stage'; it has data"),
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


# --- cases at other sizes than the declared ones: read, applied to the cases that have them, and rejected in one line -


def plain(x: jax.Array, *, by: int) -> jax.Array:
    return x * by


def wrong_from_nine(x: jax.Array, *, by: int) -> jax.Array:
    return x * by if x.shape[0] < 9 else x


PAIR = Pair(
    name="scaled",
    reference=plain,
    variants={"wrong_from_nine": wrong_from_nine},
    args=lambda case, mesh: {"x": Arg(shape=(*case.sizes,))},
    cases=(
        Case(id="small", sizes={"rows": 4, "width": 3}, statics={"by": 2}),
        Case(id="even", sizes={"rows": 4, "width": 3}, statics={"by": 2}, symbols={"rows": "2*n"}),
        Case(id="flat", sizes={"all": 12}, statics={"by": 2}),
    ),
    dtypes=("float32",),
    gradients=False,
)


def test_sizes_are_read_as_they_are_written() -> None:
    assert read_sizes(("rows=9, width=3", "by=4")) == {"rows": 9, "width": 3, "by": 4}
    assert sizes_text({"rows": 9, "by": 4}) == "rows=9,by=4"


@pytest.mark.parametrize("text", ["rows", "rows=", "rows=-1", "rows=a", "=3", "rows=4,rows=5", "rows=4;width=3"])
def test_what_is_no_size_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="--sizes"):
        read_sizes((text,))


def test_cases_that_have_them_get_them() -> None:
    small, even, flat = at_sizes(PAIR, {"rows": 10, "by": 7}).cases
    assert (dict(small.sizes), dict(small.statics)) == ({"rows": 10, "width": 3}, {"by": 7})
    assert even.sizes["rows"] == 10
    assert flat == PAIR.case("flat")


def test_cases_that_lack_them_do_not_run() -> None:
    request = Request(sizes=("rows=10",))
    points = plan(at_sizes(PAIR, {"rows": 10}), request, devices=1).points
    assert {point.case for point in points} == {"small", "even"}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"row": 3}, "pair 'scaled' has no size 'row'; its sizes are by, rows, width, all"),
        ({"rows": 3, "all": 9}, "pair 'scaled' has no case with all of the sizes rows, all"),
    ],
)
def test_sizes_of_no_case_are_rejected(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        at_sizes(PAIR, sizes)


def test_sizes_have_to_fit_the_symbols_of_a_case() -> None:
    small, even, _ = at_sizes(PAIR, {"rows": 9}).cases
    assert (small.sizes["rows"], even.sizes["rows"]) == (9, 4)
    alone = replace(PAIR, cases=(PAIR.case("even"),))
    with pytest.raises(DeclarationError, match=r"case 'even': 'rows' is '2\*n', which is never 9"):
        at_sizes(alone, {"rows": 9})


def test_a_locator_carries_sizes_to_every_process() -> None:
    locator = Locator(name=f"{__name__}:PAIR", sizes="rows=10")
    assert load(locator).case("small").sizes["rows"] == 10
    (point, *_) = plan(load(locator), Request(sizes=("rows=10",)), devices=1).points
    assert replay(locator, point).endswith("--sizes rows=10")


def test_a_pair_is_checked_at_the_sizes_of_a_request() -> None:
    assert samebits.check(PAIR, Request(cases=("small",))).ok
    assert samebits.check(PAIR, Request(cases=("small",), sizes=("rows=9",))).verdict == "different"


DECLARED = """
from samebits import Arg, Case, Pair

def plain(x, *, by):
    return x * by

def wrong_from_nine(x, *, by):
    return x * by if x.shape[0] < 9 else x

PAIR = Pair(
    name="scaled",
    reference=plain,
    variants={"wrong_from_nine": wrong_from_nine},
    args={"x": Arg(shape=("rows", "width"))},
    cases=(Case(id="small", sizes={"rows": 4, "width": 3}, statics={"by": 2}),),
    dtypes=("float32",),
    gradients=False,
)
"""


def test_the_command_runs_at_other_sizes(tmp_path: Path) -> None:
    """Of a file of its own: what this one imports would be read for its key."""
    (tmp_path / "scaled.py").write_text(DECLARED, encoding="utf-8")
    words = ("check", f"{tmp_path / 'scaled.py'}:PAIR", "--case", "small")
    assert command(*words).code == 0
    assert command(*words, "--sizes", "rows=8").code == 0
    failed = command(*words, "--sizes", "rows=9", "--json", tmp_path / "c.json")
    assert failed.code == 1
    assert "--sizes rows=9" in failed.out
    wrong = command(*words, "--sizes", "row=9")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


# --- what a judgement asks is recorded where it is asked, and once more where an earlier conclusion is used again ----


def test_questions_are_of_the_innermost_record() -> None:
    outer, inner = Asked(), Asked()
    record(("nobody",), 0)
    with recorded(outer):
        record(("a",), 1)
        with recorded(inner):
            record(("b",), 2)
        record(("c",), 3)
    assert (outer.answers, inner.answers) == ({("a",): (1,), ("c",): (3,)}, {("b",): (2,)})


def test_what_is_used_again_is_asked_again() -> None:
    first, second = Asked(), Asked()
    with recorded(first):
        record(("a",), 1)
        record_outside("on another mesh")
    with recorded(second):
        record_all(first)
    assert second.answers == first.answers and second.outside == "on another mesh"


def test_a_record_ends_with_an_exception() -> None:
    ended = Asked()
    try:
        with recorded(ended):
            raise ValueError
    except ValueError:
        record(("later",), 1)
    assert not ended.answers
