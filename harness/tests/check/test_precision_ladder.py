"""Programs that cannot be interpreted: a Pallas kernel compared with its reference at three precisions."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from samebits.check.error_groups import LeafSample
from samebits.check.evidence import LAST, SLOPE, PrecisionLadder, measure_ladder
from samebits.check.outcome import ProgramOutputs
from samebits.check.rounding import gather_evidence
from samebits.interpret import control_flow
from samebits.interpret.problem import Input, Question
from samebits.interpret.rounding_error.estimate import estimate_errors
from samebits.numerics.bits import Leaf
from samebits.programs.host_trees import HostTree
from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from tests.support.toys import alone, run, toy

ROUNDING = (Contract(lowest="rounding", reason="a kernel of its own"),)


@pytest.fixture(autouse=True)
def no_kernel_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels stand for what cannot be interpreted: those that copy between devices, for one."""
    monkeypatch.delitem(control_flow.CONTROL, "pallas_call")


def plain(x: Any, *, factor: float = 2.0) -> Any:
    """RMSNorm, without a scale."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    normed = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return normed.astype(x.dtype)


def kernel(epsilon: float) -> Callable[..., Any]:
    """The same in Pallas, interpreted, so that it runs on a CPU; it scales by three on the way."""

    def body(rows: Any, out: Any) -> None:
        wide = rows[...].astype(jnp.promote_types(rows.dtype, jnp.float32))
        width = wide.shape[-1]
        squares = sum(wide[:, column : column + 1] ** 2 for column in range(width))
        out[...] = (3 * wide * (1 / jnp.sqrt(9 * (squares / width + epsilon)))).astype(out.dtype)

    def variant(x: Any, *, factor: float = 2.0) -> Any:
        from jax.experimental import pallas

        return pallas.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)

    return variant


@functools.cache
def results(epsilon: float) -> list[Finding]:
    pair = toy(plain, kernel=kernel(epsilon))
    args = {"x": Arg(shape=("rows", "columns"), spec=("data",))}
    return run(pair, alone("kernel"), args=args, contracts=ROUNDING, meshes=("data1",))


@pytest.mark.slow
def test_a_kernel_is_executed_at_three_precisions() -> None:
    (found,) = results(1e-6)
    assert found.ruling.verdict == "rounding", found
    assert found.proof.log2_error is None
    assert found.ruling.evidence is not None and "not proved: pallas_call(" in found.ruling.evidence
    assert "test_precision_ladder.py:" in found.ruling.evidence


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [1e-5, 3e-6])
def test_an_epsilon_in_a_kernel_is_found_in_float32(epsilon: float) -> None:
    (found,) = results(epsilon)
    assert found.ruling.verdict == "different"
    assert found.ruling.evidence is not None and found.ruling.evidence.startswith(
        "not rounding: in float64 the sides still differ"
    )


def seen(array: np.ndarray) -> ProgramOutputs:
    return ProgramOutputs(
        trees={"ordinary": HostTree(structure="*", leaves={"out": Leaf.of(array)})},
        repeats=True,
        layout={},
        replicas=[],
    )


def test_rounding_shrinks_and_a_fault_does_not() -> None:
    """Noise: sums of 300 terms in two orders. Nearest fault: the same with a term that is one in a million off."""
    terms = np.random.default_rng(1).standard_normal((64, 300))

    def measured(off: float) -> PrecisionLadder:
        both = {}
        for dtype in (ml_dtypes.bfloat16, np.float32, np.float64):
            narrow = terms.astype(dtype)
            wrong = narrow.copy()
            wrong[:, 7] = (wrong[:, 7].astype(np.float64) * (1 + off)).astype(dtype)
            forth = np.cumsum(narrow, 1, dtype=dtype)[:, -1]
            back = np.cumsum(wrong[:, ::-1], 1, dtype=dtype)[:, -1]
            both[np.dtype(dtype).name] = (seen(forth), seen(back))
        return measure_ladder(both, "out")

    honest, fault = measured(0.0), measured(1e-6)
    assert honest.objection is None and honest.slope > SLOPE and honest.float64 < LAST / 100, honest
    assert fault.objection is not None and fault.float64 > 3 * LAST, fault


def test_what_is_not_finite_is_not_measured_and_the_rest_is() -> None:
    """Without a warning: infinities of both sides have no difference, and the largest numbers overflow into one."""
    largest = float(np.finfo(np.float64).max)
    for other, apart in ((2.0, 0.0), (3.0, 0.5)):
        both = (seen(np.array([np.inf, -np.inf, np.nan, 2.0])), seen(np.array([np.inf, np.inf, 1.0, other])))
        assert measure_ladder({"float64": both}, "out").float64 == apart
    far = (seen(np.array([largest, 1.0])), seen(np.array([-largest, 1.0])))
    assert measure_ladder({"float64": far}, "out").float64 == np.inf


def test_a_slope_that_is_too_flat_is_no_rounding() -> None:
    """The numbers of RMSNorm with another epsilon: hidden in bfloat16, flat from float32 on."""
    assert PrecisionLadder(2.8e-3, 0.0, 0.0).objection is None
    flat = PrecisionLadder(2.8e-3, 4.6e-6, 0.0)
    assert flat.slope == pytest.approx(0.608, abs=1e-3)
    assert flat.objection is not None and "with a slope of 0.61" in flat.objection


def test_equal_numbers_in_bfloat16_are_no_measurement_of_a_slope() -> None:
    """A transform by FFT in fixed float32, ten units off: it is rounding, as float64 shows; what stays there is not."""
    honest = PrecisionLadder(0.0, 6.1e-7, 4e-16)
    assert honest.slope > 0.99 and honest.objection is None
    assert PrecisionLadder(1e-4, 6.1e-7, 4e-16).objection is not None, "measured, and too flat"
    for left in (2e-12, 6.1e-7):
        assert PrecisionLadder(0.0, 6.1e-7, left).objection is not None
    assert PrecisionLadder(0.0, 6.1e-7, 9e-13).objection is not None, "flat from bfloat16 to float64"


def test_float32_inside_bfloat16_leaves_it_to_float64() -> None:
    """The gradient of tokamax's chunked attention: its 23 roundings of float32 hide behind one of bfloat16."""
    hidden = PrecisionLadder(4.8e-3, 1.4e-6, 5e-16)
    assert hidden.objection is not None and "slope of 0.73" in hidden.objection, "of a side that follows its inputs"
    assert PrecisionLadder(4.8e-3, 1.4e-6, 5e-16, wider=True).objection is None
    for left, words in ((1.4e-6, "in float64 the sides still differ"), (9e-13, "from float32 to float64")):
        fault = PrecisionLadder(4.8e-3, 1.4e-6, left, wider=True)
        assert fault.objection is not None and words in fault.objection, "what does not shrink is no rounding"


def cancelled(rows: Any, *, reverse: bool, off: float = 0.0) -> Any:
    """A difference of two large sums in float32, whatever the rows are, in one of two orders."""
    wide = rows.astype(jnp.promote_types(rows.dtype, jnp.float32)) + 40 / 3
    first, second = (wide[..., start::2] for start in (0, 1))
    if reverse:
        first, second = first[..., ::-1], second[..., ::-1]
    sums = [jnp.cumsum(terms * (1 / 3), -1)[..., -1:] for terms in (first, second)]
    return (1 + off) * (sums[0] - sums[1] + wide)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("off", "verdict"), [(0.0, "rounding"), (1e-6, "different")])
def test_a_sum_in_fixed_float32_is_judged_from_float32_on(off: float, verdict: str) -> None:
    """Cancelled sums leave many roundings of float32, of which the outputs in bfloat16 show one of their own."""

    def plain(x: Any, *, factor: float = 2.0) -> Any:
        return cancelled(x, reverse=False).astype(x.dtype)

    def variant(x: Any, *, factor: float = 2.0) -> Any:
        from jax.experimental import pallas

        def body(rows: Any, out: Any) -> None:
            out[...] = cancelled(rows[...], reverse=True, off=off).astype(out.dtype)

        return pallas.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)

    contract = Contract(lowest="rounding", reason="sums in another order", error_ratio=64.0)
    args = {"x": Arg(shape=("rows", "columns"), spec=("data",))}
    (result,) = run(
        toy(plain, kernel=variant),
        alone("kernel"),
        args=args,
        contracts=(contract,),
        cases=(Case(id="long", sizes={"rows": 32, "columns": 64}, statics={"factor": 4.0}),),
        meshes=("data1",),
    )
    assert result.ruling.verdict == verdict, (
        result.place.dtype,
        result.ruling.verdict,
        result.ruling.evidence,
        result.ruling.reason,
    )


def test_a_side_far_outside_its_own_bound_is_not_rounding() -> None:
    """A matrix product whose operands are rounded to bfloat16 on the way, as a TPU does by default, unlike a CPU."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
    program = jax.jit(lambda a, b: a @ b).trace(a, b).jaxpr
    asked = Question(program, program, (Input("a", a), Input("b", b)), ("out",))
    judged = estimate_errors(program, asked, "cpu")

    def evidence(product: np.ndarray) -> Any:
        value, bound = judged.values["out"], judged.bounds["out"]
        sample = LeafSample(a @ b, product, value, value, bound, bound)
        return gather_evidence({"ordinary": sample}, limit=1e9, log2_error=-80.0)

    narrow = [one.astype(ml_dtypes.bfloat16).astype(np.float32) for one in (a, b)]
    honest, lossy = evidence((b.T @ a.T).T), evidence(narrow[0] @ narrow[1])
    assert honest.is_rounding and honest.bound_used is not None and honest.bound_used < 1
    assert lossy.bound_used is not None and lossy.bound_used > 3, "the nearest fault is far outside"
    assert not lossy.is_rounding
    assert lossy.sentence().startswith("not rounding: the variant is ")
    assert lossy.sentence().endswith("as rounding explains: the compiled program is wrong, or computes in fewer digits")
