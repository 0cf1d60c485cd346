"""The evidence from float64: rounding noise stays below each bound, the smallest fault exceeds it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.error_groups import WHOLE, ErrorRatio, LeafSample
from samebits.check.rounding import IDENTITY, RoundingEvidence, gather_evidence
from samebits.interpret.equation import Step, Type
from samebits.interpret.rounding_error.step_bounds import NO_SUM, NarrowSum
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from tests.support.toys import alone, run, toy

RNG = np.random.default_rng(0)


def sums(terms: np.ndarray, dtype: type) -> np.ndarray:
    """Row sums accumulated in a dtype, left to right."""
    return np.cumsum(terms.astype(dtype), axis=1, dtype=dtype)[:, -1]


def measure(variant: np.ndarray, wide: np.ndarray, terms: np.ndarray) -> RoundingEvidence:
    """Evidence of a float32 variant against left-to-right float32 sums."""
    return gather_evidence(
        {"x": LeafSample(sums(terms, np.float32), variant, sums(terms, np.float64), wide)}, limit=2.0
    )


def test_noise_of_an_honest_rewrite_lies_below_both_bounds() -> None:
    """Sums of 1000 terms in reverse order, ten times: at most a hundredth of IDENTITY, ratio below 2."""
    for _ in range(10):
        terms = RNG.standard_normal((64, 1000)).astype(np.float32)
        back = terms[:, ::-1]
        found = measure(sums(back, np.float32), sums(back, np.float64), terms)
        assert found.identity < IDENTITY / 100
        assert found.is_rounding


def test_the_nearest_fault_lies_above_the_identity_bound() -> None:
    """One term in a thousand changed by 1e-8 of itself, far below a float32 ulp of the sum."""
    terms = RNG.standard_normal((64, 1000)).astype(np.float32)
    wrong = terms.astype(np.float64)
    wrong[:, 0] *= 1 + 1e-8
    found = measure(sums(terms, np.float32), sums(wrong, np.float64), terms)
    assert found.identity > 3 * IDENTITY
    assert not found.is_rounding
    assert found.sentence().startswith("not rounding: in float64 the sides still differ by")


def test_a_less_accurate_variant_is_over_the_ratio() -> None:
    """The same sums accumulated in float16."""
    terms = RNG.standard_normal((64, 1000)).astype(np.float32)
    poor = sums(terms, np.float16).astype(np.float32)
    found = measure(poor, sums(terms, np.float64), terms)
    assert found.identity == 0
    assert found.error_ratio > 100
    assert found.sentence().startswith("loses accuracy")


def test_a_more_accurate_variant_passes() -> None:
    """The ratio is one-sided: better than the reference is welcome."""
    terms = RNG.standard_normal((64, 1000)).astype(np.float32)
    good = sums(terms, np.float64).astype(np.float32)
    assert measure(good, sums(terms, np.float64), terms).error_ratio < 1


def test_half_an_ulp_is_never_held_against_a_variant() -> None:
    """An exact reference has no error at all; a neighbour of it is one rounding away."""
    exact = np.array([1.0, 3.0], np.float32)
    near = np.nextafter(exact, np.float32(9))
    found = gather_evidence(
        {"x": LeafSample(exact, near, exact.astype(np.float64), exact.astype(np.float64))}, limit=2.0
    )
    assert found.is_rounding


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_float64_run_that_is_not_finite_is_no_identity(bad: float) -> None:
    """Evidence must not be lost in a NaN."""
    a = np.array([1.0, 2.0], np.float32)
    wide = np.array([1.0, bad])
    assert gather_evidence({"x": LeafSample(a, a, a.astype(np.float64), wide)}, limit=2.0).identity == float("inf")


def test_the_worst_input_counts() -> None:
    """An honest input must not dilute a faulty one."""
    a = np.array([1.0, 2.0], np.float32)
    good = LeafSample(a, a, a.astype(np.float64), a.astype(np.float64))
    bad = LeafSample(a, a * 2, a.astype(np.float64), a.astype(np.float64) * 2)
    assert gather_evidence({"good": good, "bad": bad}, limit=2.0).identity == 1.0
    assert gather_evidence({"bad": bad}, limit=2.0).identity == 1.0


@pytest.mark.parametrize("other", [-np.inf, 3.4e38])
def test_an_infinity_against_something_else_is_no_rounding(other: float) -> None:
    """Setting non-finite elements aside must not set the fault aside."""
    a, b = np.array([1.0, np.inf], np.float32), np.array([1.0, other], np.float32)
    assert not gather_evidence(
        {"x": LeafSample(a, b, a.astype(np.float64), a.astype(np.float64))}, limit=2.0
    ).is_rounding


def test_a_variant_is_held_against_its_own_constants() -> None:
    """A factor that is off by half a unit is a bias that no operation has; a unit that is lost still counts."""
    x = RNG.uniform(1, 1.9, 512).astype(np.float32).astype(np.float64)
    true, wide = 0.7 * x, 0.7 * (1 + 2.0**-24) * x
    reference, honest = true.astype(np.float32), wide.astype(np.float32)
    cut = np.nextafter(honest, np.float32(0))
    noise = np.abs(wide - true)
    found = {
        (name, own): gather_evidence(
            {"x": LeafSample(reference, variant, true, wide, noise=lambda: noise)}, limit=2.0, own=own
        )
        for name, variant in (("honest", honest), ("lost", cut))
        for own in (False, True)
    }
    ratios = {key: evidence.accuracy.ratio for key, evidence in found.items()}
    assert ratios["honest", True] < 1.5 < ratios["honest", False]
    assert ratios["lost", True] > 2


LONG_SUM = NarrowSum(31, Step("reduce_sum", {}, (), (Type((), np.dtype(jnp.bfloat16)),)))


def over_draws(*ratios: float, limit: float | None, dependent: bool = False, grows: bool = False) -> RoundingEvidence:
    """Evidence where the ratio of the errors is 5 in the first draw, and then one of the numbers after the other."""
    exact = RNG.uniform(1, 1.9, 64).astype(np.float32)
    true = exact.astype(np.float64) + 2.0**-26
    variant = (true + 5 * 2.0**-24 / np.sqrt(3)).astype(np.float32)
    sums = (NO_SUM, LONG_SUM if grows else NO_SUM)
    return gather_evidence(
        {"x": LeafSample(exact, variant, true, true, narrow_sums=sums)},
        limit=limit,
        more=lambda number, labels: {"x": {WHOLE: ErrorRatio(ratios[(number - 1) % len(ratios)], 64)}},
        dependent=dependent,
    )


@pytest.mark.parametrize(
    ("ratios", "rounding", "undecided"),
    [
        ((100.0,), False, None),
        ((100.0, 100.0, 100.0, 100.0, 10.0), False, None),
        ((100.0, 10.0), True, "more than 32x, which is not rounding, comes out in 52% of the draws"),
        ((100.0, 10.0, 10.0, 10.0, 10.0), True, None),
        ((10.0,), True, None),
    ],
)
def test_a_gross_loss_fails_and_half_of_one_is_undecided(
    ratios: tuple[float, ...], rounding: bool, undecided: str | None
) -> None:
    found = over_draws(*ratios, limit=None)
    assert (found.is_rounding, found.undecided) == (rounding, undecided), found.sentence()
    assert ("more than 32x fails where no limit is set" in found.sentence()) != rounding


def test_a_loss_that_grows_with_a_sum_fails_early() -> None:
    assert over_draws(1.8, limit=None).is_rounding
    grown = over_draws(1.8, limit=None, grows=True)
    assert not grown.is_rounding and "31 additions in a row in bfloat16, up to reduce_sum" in grown.sentence()
    assert over_draws(1.2, limit=None, grows=True).is_rounding


def test_draws_of_one_array_that_straddle_a_limit_decide_nothing() -> None:
    straddling = 3.0, 3.0, 1.0
    assert over_draws(*straddling, limit=2.0).undecided is None
    found = over_draws(*straddling, limit=2.0, dependent=True)
    assert found.is_rounding and found.undecided == "the numbers given do not decide whether the limit is kept"
    assert over_draws(1.0, limit=2.0, dependent=True).undecided is None


# Literals that jax rounds to bfloat16 when it traces a program, judged by execution: rounding, and what is none.
ROUNDING = (Contract(lowest="rounding", reason="literals of two dtypes"),)


def scaled(by: float) -> Callable[..., Any]:
    """A product in the dtype of the input."""

    def function(x: Any, *, factor: float = 2.0) -> Any:
        return x * by

    return function


def softmax(by: float) -> Callable[..., Any]:
    """Weights of scaled scores; equal scores in bfloat16 keep the fields from telling the largest."""

    def function(x: Any, *, factor: float = 2.0) -> Any:
        return jax.nn.softmax(jnp.round(x * 4) / 4 * by, -1)

    return function


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same computed in float32, where a literal has more digits."""

    def wide(x: Any, *, factor: float = 2.0) -> Any:
        return function(x.astype(jnp.float32)).astype(x.dtype)

    return wide


def judged(reference: Callable[..., Any], variant: Callable[..., Any]) -> Finding:
    changes: dict[str, Any] = {"contracts": ROUNDING, "dtypes": ("bfloat16",), "meshes": ("data1",)}
    (result,) = run(toy(reference, other=variant), alone("other"), **changes)
    return result


@pytest.mark.parametrize("turned", [False, True])
def test_a_literal_rounded_by_jax_is_no_loss_of_accuracy(turned: bool) -> None:
    sides = (widened(scaled(0.3)), scaled(0.3))
    found = judged(*(sides[::-1] if turned else sides))
    assert found.ruling.verdict == "rounding", found.ruling.evidence
    assert found.ruling.evidence is not None and "0.30078125 (bfloat16)" in found.ruling.evidence
    assert "the exact result moves by at most 0.6" in found.ruling.evidence


def test_rounded_literals_are_exchanged_where_fields_cannot_tell() -> None:
    found = judged(widened(softmax(0.3)), softmax(0.3))
    assert found.ruling.verdict in ("rounding", "bitwise"), found.ruling.evidence
    assert found.ruling.evidence is not None and "not the same" not in found.ruling.evidence


@pytest.mark.parametrize("form", [scaled, softmax])
def test_another_literal_is_another_formula(form: Callable[[float], Callable[..., Any]]) -> None:
    found = judged(widened(form(0.3)), form(0.29))
    assert found.ruling.verdict == "different", found.ruling.evidence


def test_a_rounded_literal_in_a_float32_output_is_a_loss() -> None:
    """What bfloat16 makes of 0.3 is within a unit of bfloat16, and 2^15 units of float32."""
    found = judged(
        lambda x, *, factor=2.0: x.astype(jnp.float32) * 0.3, lambda x, *, factor=2.0: (x * 0.3).astype(jnp.float32)
    )
    assert found.ruling.verdict == "different"
    assert found.ruling.evidence is not None and found.ruling.evidence.startswith("loses accuracy: "), (
        found.ruling.evidence
    )
