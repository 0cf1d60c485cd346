"""Tokens sorted by their experts: argsort and gather with autodiff's gradient, against the inverse order as a gather.

The numbers below were measured on CPU (jax 0.10.2, 8 devices) over 40 seeds at the shapes of the cases.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import (
    Arg,
    Case,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Pair,
    RealSize,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

_EXPERTS = "experts in [0, num_experts)"
_FINITE = Domain(finite=("cotangents",), no_negative_zero=("cotangents",), no_subnormal=("cotangents",), also=_EXPERTS)
GROUPS = ("data", "fsdp", "expert")


def _uneven(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Six experts: 0 and 3 are chosen by nobody, and some tokens choose one twice."""
    return rng.choice([1, 2, 4, 5], shape)


def _one(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.full(shape, 4)


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    return {
        "rows": Arg(
            shape=("groups", "tokens", "width"),
            spec=(GROUPS, None, "tensor"),
            special=("-0.0", "nan", "inf", "-inf", "subnormal", "largest"),
        ),
        "experts": Arg(
            shape=("groups", "tokens", "choices"),
            dtype="int32",
            spec=(GROUPS,),
            values=_one if case.id == "one_expert" else _uneven,
            below="num_experts",
        ),
    }


def _case(name: str, choices: int, dtypes: tuple[str, ...], meshes: tuple[str, ...]) -> Case:
    sizes = {"groups": 8, "tokens": 5, "width": 4, "choices": choices}
    return Case(
        id=name,
        sizes=sizes,
        statics={"num_experts": 6},
        # A token with one choice has no sum.
        symbols={"num_experts": "num_experts", **({"choices": "1"} if choices == 1 else {})},
        dtypes=dtypes,
        meshes=meshes,
    )


PAIR = Pair(
    name="token_sort",
    reference="argsort_take",
    variants=("inverse_gather",),
    args=_args,
    cases=(
        _case("top1", 1, ("float32", "int32"), ("fsdp4_tensor2",)),
        _case("one_expert", 2, ("bfloat16",), ("data1",)),
        _case("top2", 2, ("float32",), ("fsdp4_tensor2",)),
        _case("top8", 8, ("bfloat16", "float32"), ("expert8",)),
    ),
    dtypes=("bfloat16", "float32", "int32"),
    meshes=("data1", "expert8", "fsdp4_tensor2"),
    modes=("auto", "explicit"),
    out_spec={"out['rows']": (GROUPS, None, "tensor"), "out['sizes']": (GROUPS,)},
    compiled=(
        RealSize(
            case=Case(
                id="tokens_16k",
                sizes={"groups": 8, "tokens": 2048, "choices": 2, "width": 4096},
                statics={"num_experts": 64},
            ),
            layout="fsdp*",
            dtype="bfloat16",
            targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
        ),
    ),
    documented=(
        Documented(
            id="4170.sort",
            document="MaxText #4170 and layers/moe.py",
            says="the custom gradient of the sort, a gather by the inverse order, is the gradient of the gather",
            variants=("inverse_gather",),
        ),
    ),
    contracts=(
        Contract(lowest="proved", domain=Domain(also=_EXPERTS)),
        Contract(
            direction="gradient",
            lowest="proved",
            domain=_FINITE,
        ),
        # Two copies have one sum, and no mesh cuts a group. Three are added up by expert here and by choice there: of
        # one token with experts (2, 1, 0), cotangents (1, 1e8, -1e8) of the sorted rows add up to 0 in the reference
        # and to 1 in the variant. So a proof for every number of choices is one of the formulas alone.
        *(Contract(case=case, direction="gradient", domain=_FINITE) for case in ("one_expert", "top2")),
        Contract(
            case="top8",
            direction="gradient",
            lowest="rounding",
            reason="a processor may add up eight copies in an order of its own; the reference has the same bits on "
            "every mesh here, as no mesh cuts a group",
            domain=_FINITE,
        ),
        *(
            Contract(
                case="top8",
                dtype=dtype,
                variant="inverse_gather",
                direction="gradient",
                lowest="rounding",
                reason=reason,
                domain=_FINITE,
            )
            for dtype, reason in (
                (
                    "float32",
                    "eight copies are added up in another order: 100 of 160 elements differ",
                ),
                (
                    "bfloat16",
                    "FINDING: autodiff's scatter-add rounds to bfloat16 at every copy, the sum over copies once: 99 of "
                    "160 elements differ, nearer to float64",
                ),
            )
        ),
    ),
    accuracy=2,
)

test_token_sort = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
SMALL_RUNS = settings(max_examples=8, deadline=None, derandomize=True, database=None)


@functools.cache
def _compiled(side: str, num_experts: int) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), num_experts=num_experts))


@functools.cache
def _pull(side: str, num_experts: int) -> Any:
    import jax

    def pull(experts: Any, cotangent: Any) -> Any:
        sort = functools.partial(implementation(PAIR, side), num_experts=num_experts)
        rows = jax.numpy.zeros((*experts.shape[:2], cotangent.shape[-1]), cotangent.dtype)
        return jax.vjp(lambda rows: sort(rows, experts)["rows"], rows)[1](cotangent)[0]

    return jax.jit(pull)


SHAPES = st.sampled_from([(1, 1, 1, 1), (7, 2, 4, 3), (3, 1, 4, 2), (5, 2, 3, 1)])
"""Numbers of experts, groups, tokens and choices: few, as each is compiled, and at the ends as well as between."""


@st.composite
def _choices(draw: st.DrawFn) -> tuple[Any, int]:
    """Experts `[groups, tokens, k]` and how many there are; a few of them take most of the choices."""
    experts, groups, tokens, choices = draw(SHAPES)
    some = st.sampled_from(sorted({draw(st.integers(0, experts - 1)) for _ in range(3)}))
    count = groups * tokens * choices
    drawn = draw(st.lists(some | st.integers(0, experts - 1), min_size=count, max_size=count))
    return np.array(drawn, np.int32).reshape(groups, tokens, choices), experts


@pytest.mark.sampled(1)
@SIDES
@given(chosen=_choices())
@SMALL_RUNS
def test_every_choice_has_its_row_grouped_by_expert(side: str, chosen: tuple[Any, int]) -> None:
    """Replayed with a list: the rows name their tokens, in the order of the tokens within an expert."""
    experts, count = chosen
    groups, tokens, choices = experts.shape
    rows = np.arange(groups * tokens, dtype=np.int32).reshape(groups, tokens, 1)
    found = {name: np.asarray(leaf) for name, leaf in _compiled(side, count)(rows, experts).items()}
    for group, mine in enumerate(experts):
        flat = mine.reshape(-1).tolist()
        order = sorted(range(len(flat)), key=lambda i: (flat[i], i))
        assert found["rows"][group, :, 0].tolist() == [group * tokens + i // choices for i in order]
        assert found["sizes"][group].tolist() == [flat.count(expert) for expert in range(count)]


@pytest.mark.sampled(1)
@SIDES
@given(chosen=_choices())
@SMALL_RUNS
def test_the_gradient_of_a_token_is_the_sum_over_its_copies(side: str, chosen: tuple[Any, int]) -> None:
    """Whole numbers, whose sums are exact; each place among the sorted rows pulls back once."""
    experts, count = chosen
    groups, tokens, choices = experts.shape
    cotangent = 2.0 ** np.arange(groups * tokens * choices, dtype=np.float32).reshape(groups, -1, 1)
    found = np.asarray(_pull(side, count)(experts, cotangent))
    for group, mine in enumerate(experts):
        flat = mine.reshape(-1).tolist()
        expected = np.zeros(tokens, np.float32)
        for place, i in enumerate(sorted(range(len(flat)), key=lambda i: (flat[i], i))):
            expected[i // choices] += cotangent[group, place, 0]
        assert_same_bits(found[group, :, 0], expected)


def test_a_table_by_hand() -> None:
    """Token 0 chooses expert 2 twice, token 1 experts 0 and 2, token 2 expert 0 twice; nobody chooses 1 and 3."""
    experts = np.array([[[2, 2], [0, 2], [0, 0]]], np.int32)
    for side in PAIR.sides:
        found = _compiled(side, 4)(np.array([[[10], [20], [30]]], np.int32), experts)
        assert np.asarray(found["rows"])[0, :, 0].tolist() == [20, 30, 30, 10, 10, 20]
        assert found["sizes"].tolist() == [[3, 0, 3, 0]]
        pulled = _pull(side, 4)(experts, np.array([1, 10, 100, 1e3, 1e4, 1e5], np.float32).reshape(1, 6, 1))
        assert np.asarray(pulled)[0, :, 0].tolist() == [11000, 100001, 110]


def test_the_inverse_order_keeps_every_bit_of_the_cotangent() -> None:
    """With one choice nothing is added: -0.0, subnormals and NaN payloads come back; the scatter-add loses -0.0."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 6, 3), dtype=np.uint32)
    bits[:, 1] = (0x80000000, 0x00000001, 0xFFC00001)
    experts = np.array([[3, 0, 3, 1, 0, 3], [2, 2, 2, 2, 2, 2]], np.int32)
    order = np.argsort(experts, axis=1, kind="stable")
    cotangent = np.take_along_axis(bits, order[..., None], 1).view(np.float32)
    pulled = _pull("inverse_gather", 4)(experts[..., None], cotangent)
    assert np.asarray(pulled).tobytes() == bits.tobytes()
    assert np.asarray(_pull("argsort_take", 4)(experts[..., None], cotangent)).tobytes() != bits.tobytes()


@pytest.mark.cpu_only
def test_a_scatter_add_in_bfloat16_stops_gaining() -> None:
    """A FINDING about the reference: 1 and 64 times 1/256 is 1.25; added one by one in bfloat16 it stays 1."""
    import ml_dtypes

    cotangent = np.full((1, 65, 1), 2.0**-8, ml_dtypes.bfloat16)
    cotangent[0, 0] = 1
    experts = np.zeros((1, 1, 65), np.int32)
    found = {side: float(_pull(side, 1)(experts, cotangent)[0, 0, 0]) for side in PAIR.sides}
    assert found == {"argsort_take": 1.0, "inverse_gather": 1.25}


@pytest.mark.parametrize(("side", "scatters"), [("argsort_take", True), ("inverse_gather", False)])
def test_the_gradient_of_the_rows_is_a_gather(side: str, scatters: bool) -> None:
    import jax

    program = str(jax.make_jaxpr(_pull(side, 4))(np.zeros((2, 3, 2), np.int32), np.ones((2, 6, 5), np.float32)))
    assert ("f32[2,3,5] = scatter-add" in program) == scatters


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    rows, experts = np.ones((2, 3, 4), np.float32), np.zeros((2, 3, 1), np.int32)
    with pytest.raises(ValueError, match="experts have dtype float32; expected an integer dtype"):
        _compiled(side, 4)(rows, rows)
    with pytest.raises(ValueError, match="num_experts is 0; expected at least 1"):
        _compiled(side, 0)(rows, experts)
    for wrong in (experts[..., 0], experts[:, :2], experts[:1]):
        with pytest.raises(ValueError, match=r"rows and experts have shapes .*; expected \[groups, tokens, width\]"):
            _compiled(side, 4)(rows, wrong)
