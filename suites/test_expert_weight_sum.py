"""The weighted sum of a token's expert outputs: an einsum, against elementwise sums in float32 or the rows' dtype.

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
    Exemption,
    MeshSpec,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

TOKENS = ("data", "fsdp", "expert")
MIXED = "fsdp4_tensor2"
FINITE = Domain(finite=("rows", "weights"))


def _routed(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Weights of softmax, a few of them 0, as those of dropped tokens are."""
    return rng.dirichlet(np.ones(shape[1]), shape[0]) * (rng.random(shape) > 0.1)


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    return {
        "rows": Arg(shape=("rows", "width"), spec=(TOKENS, "tensor")),
        "weights": Arg(shape=("tokens", "choices"), dtype="float32", spec=(TOKENS,), values=_routed),
    }


def _case(name: str, choices: int, mesh: str, *, uneven: int = 0, refuses: tuple[Refusal, ...] = ()) -> Case:
    sizes = {"tokens": 16, "choices": choices, "rows": 16 * choices + uneven, "width": 16}
    symbols = {} if uneven else {"rows": "tokens*choices"}
    return Case(id=name, sizes=sizes, symbols=symbols, meshes=(mesh,), refuses=refuses)


def _rounds(reason: str, *, error_ratio: float | None = None, **where: str) -> Contract:
    return Contract(lowest="rounding", error_ratio=error_ratio, reason=reason, domain=FINITE, **where)


_CONTRACTS = (
    _rounds(
        "sums of products over the choices, which a processor may contract and add in an order of its own. The einsum "
        "and multiply_sum have one here: no bit of 40960 elements differs, nor of 204800 of the gradient of the rows, "
        "on any mesh",
    ),
    _rounds(
        "the gradient of a weight is a sum over the width: in parts where tensor splits it (the reference "
        "moves in 24 of 32 elements itself), and of products instead of a matrix product (103 of 128)",
        direction="gradient",
        leaf="weights",
    ),
    _rounds(
        "as above, with rows of bfloat16, whose products are exact: 13 of 128 elements differ",
        direction="gradient",
        leaf="weights",
        dtype="bfloat16",
    ),
    _rounds(
        "a sum of products can be fused to multiply-adds: 93 of 256 elements differ",
        variant="unrolled",
        direction="forward",
    ),
    _rounds(
        "as above, of which rounding to bfloat16 leaves 8 of 256 elements",
        variant="unrolled",
        direction="forward",
        dtype="bfloat16",
    ),
    _rounds(
        "FINDING: where a weight is 0 the gradient of its row is -0.0 or 0.0; the transpose of the slices "
        "adds zeros, and 215 of 2048 elements are 0.0 for -0.0, no other bit differs",
        variant="unrolled",
        direction="gradient",
        leaf="rows",
    ),
    _rounds(
        "FINDING: weights, products and sum are rounded to bfloat16: 120 of 256 elements differ, and sums that are "
        "small beside their terms have 5.6 times the error of the einsum's with eight choices",
        error_ratio=8,
        variant="native_dtype",
        direction="forward",
        dtype="bfloat16",
    ),
    _rounds(
        "FINDING: the gradient of a row is its weight rounded to bfloat16 first: 590 of 2048 elements differ",
        variant="native_dtype",
        direction="gradient",
        leaf="rows",
        dtype="bfloat16",
    ),
)

PAIR = Pair(
    name="expert_weight_sum",
    reference="einsum",
    variants=("multiply_sum", "unrolled", "native_dtype"),
    args=_args,
    cases=(
        _case("top2", 2, MIXED),
        _case("top8", 8, "expert8"),
        _case(
            "uneven",
            2,
            "data1",
            uneven=1,
            refuses=(Refusal(error="ValueError", match=r"rows and weights have shapes \(33, 16\) and \(16, 2\)"),),
        ),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", "expert8", MIXED),
    modes=("auto", "explicit"),
    out_spec={"out": (TOKENS, "tensor")},
    compiled=(
        RealSize(
            case=Case(id="tokens_32k", sizes={"tokens": 32768, "choices": 8, "rows": 262144, "width": 4096}),
            layout="fsdp*",
            dtype="bfloat16",
            targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
        ),
    ),
    documented=(
        Documented(
            id="3922.1",
            document="MaxText #3922, item 1: configs/base.yml",
            says="summing experts in the native dtype saves float32 copies and loses a little precision",
            variants=("native_dtype",),
            saves="temp_bytes",
        ),
    ),
    contracts=_CONTRACTS,
    exemptions=(
        Exemption(
            variant="native_dtype",
            dtype="bfloat16",
            direction="gradient",
            leaf="weights",
            kind="other",
            reason="FINDING: the gradient of a float32 weight is a sum over 16 columns in bfloat16, the reference's is "
            "one in float32: up to 2.2e5 times its error, 0.5 % to 1.4 % of the largest. multiply_sum has at most "
            "1.5 times",
        ),
    ),
    accuracy=2,
)

test_expert_weight_sum = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
SMALL_RUNS = settings(max_examples=8, deadline=None, derandomize=True, database=None)


@functools.cache
def _forward(side: str) -> Any:
    import jax

    return jax.jit(implementation(PAIR, side))


@functools.cache
def _pull(side: str) -> Any:
    import jax

    def pull(rows: Any, weights: Any, cotangent: Any) -> Any:
        out, back = jax.vjp(implementation(PAIR, side), rows, weights)
        return (out, *back(cotangent))

    return jax.jit(pull)


@st.composite
def _whole(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Rows, weights and cotangents of small integers, whose sums are exact in bfloat16."""
    tokens, choices, width = (draw(st.integers(1, high)) for high in (3, 3, 2))

    def array(*shape: int) -> Any:
        count = int(np.prod(shape))
        numbers = draw(st.lists(st.integers(-4, 4), min_size=count, max_size=count))
        return np.array(numbers, np.float32).reshape(shape)

    return array(tokens * choices, width), array(tokens, choices), array(tokens, width)


@pytest.mark.sampled(2)
@SIDES
@pytest.mark.parametrize("dtype", PAIR.dtypes)
@given(numbers=_whole())
@SMALL_RUNS
def test_the_sum_and_its_gradients_replayed_row_by_row(side: str, dtype: str, numbers: tuple[Any, Any, Any]) -> None:
    """Every row counts once, for its own token, with its own weight."""
    rows, weights, cotangent = numbers
    tokens, choices = weights.shape
    out, to_rows, to_weights = np.zeros(cotangent.shape), np.zeros(rows.shape), np.zeros(weights.shape)
    for token in range(tokens):
        for choice in range(choices):
            row = token * choices + choice
            out[token] += weights[token, choice] * rows[row]
            to_rows[row] = weights[token, choice] * cotangent[token]
            to_weights[token, choice] = rows[row] @ cotangent[token]
    # One program for the sum and its gradients; numpy rounds, for which jax would compile another per shape.
    found = _pull(side)(rows.astype(dtype), weights, cotangent.astype(dtype))
    assert [leaf.dtype for leaf in found] == [dtype, dtype, "float32"]
    for got, expected in zip(found, (out, to_rows, to_weights), strict=True):
        # Zeros of both signs become 0.0: the sides give different ones, which the test below holds.
        assert_same_bits(np.asarray(got) + got.dtype.type(0), (expected + 0).astype(got.dtype))


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", PAIR.dtypes)
@pytest.mark.parametrize(
    ("side", "zero"), [("einsum", 0.0), ("multiply_sum", 0.0), ("native_dtype", 0.0), ("unrolled", -0.0)]
)
def test_an_unrolled_sum_of_negative_zeros_is_negative(side: str, dtype: str, zero: float) -> None:
    """FINDING: a reduction of several terms starts at 0.0; of one term, or unrolled, it has no start.

    On an H100 (jax 0.11.2) no reduction of two terms starts at 0.0.
    """
    rows = np.full((2, 1), -1, dtype)
    assert_same_bits(_forward(side)(rows, np.zeros((1, 2), np.float32)), np.full((1, 1), zero, dtype))
    assert_same_bits(_forward(side)(rows[:1], np.zeros((1, 1), np.float32)), np.full((1, 1), -0.0, dtype))


@SIDES
@pytest.mark.parametrize("dtype", PAIR.dtypes)
def test_a_weight_of_one_alone_hands_on_the_row(side: str, dtype: str) -> None:
    rows = np.random.default_rng(0).standard_normal((12, 5)).astype(dtype)
    chosen = np.array([2, 0, 1, 1])
    found = _forward(side)(rows, np.eye(3, dtype=np.float32)[chosen])
    assert_same_bits(np.asarray(found), rows[np.arange(4) * 3 + chosen])


@pytest.mark.parametrize("side", [side for side in PAIR.sides if side != "native_dtype"])
def test_float32_weights_are_not_rounded_to_the_rows_dtype(side: str) -> None:
    """256 times 1/2 + 2^-9 less 256 times 1/2 is 1/2; with weights of bfloat16 it would be 0."""
    rows, weights = np.array([[256.0], [-256.0]], "bfloat16"), np.array([[0.5 + 2.0**-9, 0.5]], np.float32)
    assert np.asarray(_forward(side)(rows, weights)) == 0.5
    assert np.asarray(_forward("native_dtype")(rows, weights)) == 0.0


def test_the_einsum_asks_for_whole_float32_products() -> None:
    """Else a matrix unit rounds the float32 weights to bfloat16."""
    import jax

    program = str(jax.make_jaxpr(_forward("einsum"))(np.ones((4, 3), np.float32), np.ones((2, 2), np.float32)))
    assert "Precision.HIGHEST" in program


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    rows, weights = np.ones((6, 4), np.float32), np.ones((3, 2), np.float32)
    for wrong in ((rows[:5], weights), (rows, weights[:2]), (rows[0], weights), (rows, weights.reshape(6))):
        with pytest.raises(ValueError, match=r"rows and weights have shapes .*; expected \[tokens \* k, width\]"):
            _forward(side)(*wrong)
