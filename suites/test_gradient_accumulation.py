"""The gradient of a step: of one batch, and of microbatches added up in float32 or in the dtype of the kernel.

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
    Normal,
    Pair,
    Refusal,
    assert_same_bits,
    implementation,
    pair_test,
)

BATCH = ("data", "fsdp")
MIXED = "fsdp4_tensor2"
FINITE = Domain(finite=("*",))


def _uneven(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Rows 0, 4, 8 and so on, which are one of four microbatches, weigh nothing; row 1 as much as ten others."""
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], shape)
    weights[0::4], weights[1] = 0.0, 10.0
    return weights


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    return {
        "inputs": Arg(shape=("batch", "features"), spec=(BATCH,)),
        "targets": Arg(shape=("batch", "outputs"), spec=(BATCH, "tensor")),
        "weights": Arg(shape=("batch",), dtype="float32", spec=(BATCH,), values=_uneven),
        "kernel": Arg(shape=("features", "outputs"), spec=(None, "tensor"), values=Normal(scale=0.3)),
    }


def _balance(kernel: Any, inputs: Any, targets: Any, weights: Any) -> Any:
    """The same loss with an extra that is not linear in the rows, as that of a router's balance is."""
    import jax

    def step(kernel: Any, inputs: Any, targets: Any, weights: Any) -> Any:
        import jax.numpy as jnp

        wide = jnp.promote_types(kernel.dtype, jnp.float32)
        kernel, inputs, targets = (array.astype(wide) for array in (kernel, inputs, targets))
        outputs = jnp.tanh(jnp.matmul(inputs, kernel, precision=jax.lax.Precision.HIGHEST))
        extra = 3 * jnp.sum(jnp.square(jnp.mean(jnp.square(outputs), axis=0)))
        return jnp.sum(weights.astype(wide) * jnp.sum(jnp.square(outputs - targets), axis=-1)), extra

    return jax.sharding.auto_axes(step, out_sharding=(jax.P(), jax.P()))(kernel, inputs, targets, weights)


def _case(name: str, microbatches: int, mesh: str, refuses: tuple[Refusal, ...] = ()) -> Case:
    sizes = {"batch": 32, "features": 8, "outputs": 6}
    return Case(id=name, sizes=sizes, statics={"microbatches": microbatches}, meshes=(mesh,), refuses=refuses)


def _rounds(reason: str, *, error_ratio: float | None = None, **where: str) -> Contract:
    return Contract(lowest="rounding", error_ratio=error_ratio, reason=reason, domain=FINITE, **where)


_CONTRACTS = (
    _rounds(
        "rows are added up in parts, over devices and microbatches, and the loss is one number, whose error "
        "is compared with half an ulp: the reference itself moves",
        leaf="out?'loss'?",
    ),
    _rounds(
        "as the loss: 43 of 48 elements differ, for the reference itself on a mesh too",
        leaf="out?'gradient'?",
    ),
    _rounds(
        "as above, and rounding to bfloat16 leaves 1 of 48 elements (with four microbatches none of 3840 here)",
        leaf="out?'gradient'?",
        dtype="bfloat16",
    ),
    _rounds(
        "one number, a sum over microbatches of squares of means over devices: 1 ulp for the reference itself "
        "on a mesh",
        leaf="out?'extra'?",
        case="auxiliary",
    ),
    # Without an auxiliary loss it is a count: exact.
    *(Contract(leaf="out?'extra'?", case=case, domain=FINITE) for case in ("four", "eight")),
    *(
        _rounds(
            f"FINDING: every microbatch rounds the sum to bfloat16: {differ} of 48 elements differ with {case}: prefer "
            "scan. Sums that are small beside their terms have 5.8 times the error with eight",
            error_ratio=8.0,
            variant="scan_native",
            dtype="bfloat16",
            leaf="out?'gradient'?",
            case=case,
        )
        for case, differ in (("four", 29), ("eight", 34))
    ),
)

PAIR = Pair(
    name="gradient_accumulation",
    reference="whole_batch",
    variants=("scan", "scan_native"),
    args=_args,
    cases=(
        _case("four", 4, "data8"),
        _case("eight", 8, MIXED),
        Case(
            id="auxiliary",
            sizes={"batch": 32, "features": 8, "outputs": 6},
            statics={"microbatches": 4, "loss": _balance},
            meshes=("data8",),
            dtypes=("float32",),
            variants=("scan",),
        ),
        _case(
            "indivisible",
            5,
            "data1",
            (Refusal(error="ValueError", match="microbatches is 5; expected a divisor of the batch's 32 rows"),),
        ),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", "data8", MIXED),
    modes=("auto", "explicit"),
    out_spec={"out['gradient']": (None, "tensor")},
    # The gradient is what the component computes.
    documented=(
        Documented(
            id="2744.accumulation",
            document="MaxText #2744",
            says="n microbatches give the gradient of the whole batch",
            variants=("scan",),
        ),
    ),
    gradients=False,
    contracts=_CONTRACTS,
    accuracy=2,
)

test_gradient_accumulation = pair_test(PAIR)

SIDES = pytest.mark.parametrize("side", PAIR.sides)
SMALL_RUNS = settings(max_examples=8, deadline=None, derandomize=True, database=None)


@functools.cache
def _step(side: str, microbatches: int) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), microbatches=microbatches))


def _parts(side: str, microbatches: int) -> int:
    """The reference only looks whether they divide the batch: each number of them would be one program once more."""
    return 4 if side == PAIR.reference else microbatches


def _numbers(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = ((12, 4), (12, 3), (12,), (4, 3))
    inputs, targets, weights, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return [inputs, targets, np.abs(weights), 0.5 * kernel]


def _apart(found: Any, expected: Any) -> float:
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())


@pytest.mark.sampled(1)
@SIDES
@given(seed=st.integers(0, 1000), microbatches=st.sampled_from([1, 3, 4, 12]))
@SMALL_RUNS
def test_the_definition_replayed_row_by_row(side: str, seed: int, microbatches: int) -> None:
    """In float64, relative to the largest: noise 6.6e-7, nearest fault 1.5e-2 (mean of the microbatches' means)."""
    arrays = _numbers(seed)
    inputs, targets, weights, kernel = (array.astype(np.float64) for array in arrays)
    loss, gradient = 0.0, np.zeros(kernel.shape)
    for row, target, weight in zip(inputs, targets, weights, strict=True):
        output = np.tanh(row @ kernel)
        loss += weight * np.sum((output - target) ** 2) / weights.sum()
        gradient += weight * np.outer(row, 2 * (output - target) * (1 - output**2)) / weights.sum()
    found = _step(side, _parts(side, microbatches))(*arrays)
    assert _apart(found["loss"], loss) < 5e-6 and _apart(found["gradient"], gradient) < 5e-6


@SIDES
@given(seed=st.integers(0, 1000), power=st.integers(-3, 3))
@SMALL_RUNS
def test_a_factor_on_all_weights_changes_no_bit(side: str, seed: int, power: int) -> None:
    inputs, targets, weights, kernel = _numbers(seed)
    once = _step(side, 4)(inputs, targets, weights, kernel)
    scaled = _step(side, 4)(inputs, targets, np.float32(2.0**power) * weights, kernel)
    for leaf in ("loss", "gradient"):
        assert_same_bits(once[leaf], scaled[leaf])


@SIDES
@pytest.mark.parametrize("microbatches", [1, 3, 4])
def test_rows_of_weight_zero_do_not_count(side: str, microbatches: int) -> None:
    """Whatever they hold, and a whole microbatch of them too; without any weight the step is 0, not 0 / 0."""
    inputs, targets, weights, kernel = _numbers()
    weights[0::4] = 0
    other = np.where(weights[:, None] == 0, 7, inputs).astype(np.float32)
    step = _step(side, _parts(side, microbatches))
    first, second = (step(x, targets, weights, kernel) for x in (inputs, other))
    nothing = step(inputs, targets, 0 * weights, kernel)
    for leaf in ("loss", "gradient"):
        assert_same_bits(first[leaf], second[leaf])
        assert np.any(first[leaf]) and not np.any(nothing[leaf])


@pytest.mark.cpu_only
def test_many_microbatches_in_bfloat16_stop_gaining() -> None:
    """The gradient is -2 * input * target: one row of -2 and 64 of -1/256 are -2.25, over a weight of 65."""
    import ml_dtypes

    rows = np.full((65, 1), 2.0**-8, ml_dtypes.bfloat16)
    rows[0] = 2
    arrays = (rows, np.full((65, 1), 0.5, rows.dtype), np.ones(65, np.float32), np.zeros((1, 1), rows.dtype))
    found = {side: float(_step(side, 65)(*arrays)["gradient"][0, 0]) for side in PAIR.sides}
    exact, short = (float(ml_dtypes.bfloat16(np.float32(total) / np.float32(65))) for total in (-2.25, -2.0))
    assert found == {"whole_batch": exact, "scan": exact, "scan_native": short}


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    inputs, targets, weights, kernel = _numbers()
    for microbatches in (0, 5, 24):
        with pytest.raises(ValueError, match=f"microbatches is {microbatches}; expected a divisor of the batch's 12"):
            _step(side, microbatches)(inputs, targets, weights, kernel)
    for wrong in ((inputs[:6], targets, weights), (inputs, targets[:, :2], weights), (inputs, targets, weights[:1])):
        with pytest.raises(
            ValueError, match=r"inputs, targets and weights have shapes .*; expected \[batch, features\]"
        ):
            _step(side, 1)(*wrong, kernel)
