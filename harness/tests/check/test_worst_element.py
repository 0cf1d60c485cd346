"""The choice of the witness: an element that violates the bound, among many that only round."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from samebits.check.error_groups import LeafSample, error_ratios, errors_in
from samebits.check.outcome import ProgramOutputs, compare_outputs
from samebits.check.rounding import gather_evidence
from samebits.numerics.bits import Leaf, compare
from samebits.programs.host_trees import HostTree
from samebits.schema.difference import Difference, extent

RNG = np.random.default_rng(7)
F32 = np.float32
EPS = float(np.finfo(F32).eps)


def one_ulp_off(values: np.ndarray) -> np.ndarray:
    """The next float32 of each number."""
    found: np.ndarray = np.nextafter(values, np.float32(np.inf))
    return found


def sample(variant: np.ndarray, true: np.ndarray, own: np.ndarray | None = None, units: float = 2.0) -> LeafSample:
    """A reference that rounds once, with bounds of some units in the last place for each side."""
    bound = units * EPS * np.abs(true)
    return LeafSample(true.astype(F32), variant, true, true if own is None else own, bound, bound)


def test_one_element_beyond_its_bound_is_the_witness() -> None:
    true = RNG.uniform(1, 2, 5000)
    variant = one_ulp_off(true.astype(F32))
    variant[3210] += F32(1e-3)
    found = gather_evidence({"x": sample(variant, true)}, limit=1e9, log2_error=-60.0)
    assert found.is_outside and found.place == ("x", (3210,))


def test_each_element_is_compared_with_its_own_bound() -> None:
    """Large numbers round by more than what is wrong beside small ones."""
    true = np.where(np.arange(4000) % 2, 1e6, 1.0) * RNG.uniform(1, 2, 4000)
    variant = one_ulp_off(true.astype(F32))
    variant[2000] += F32(1e-3)
    found = gather_evidence({"x": sample(variant, true)}, limit=1e9, log2_error=-60.0)
    assert np.abs(variant.astype(float) - true)[2001] > 1e-3
    assert found.is_outside and found.place == ("x", (2000,))


@pytest.mark.parametrize("known", [{"refuted": "out[40] is 1.0, 2.0 here"}, {}], ids=["fields", "float64"])
def test_the_witness_is_where_the_formulas_differ_most(known: dict[str, Any]) -> None:
    """The executed values differ everywhere, by rounding; in float64 two rows of other size."""
    true = RNG.uniform(1, 2, 3000)
    own = true.copy()
    own[40] *= 1 + 1e-4
    own[41] *= 1 + 1e-6
    found = gather_evidence({"x": sample(one_ulp_off(own.astype(F32)), true, own)}, limit=1e9, **known)
    assert found.mathematics is not None and found.place == ("x", (40,))


def test_the_input_that_violates_is_named_and_not_the_first() -> None:
    true = RNG.uniform(1, 2, 100)
    wrong = one_ulp_off(true.astype(F32))
    wrong[17] = 3
    inputs = {"ordinary": sample(one_ulp_off(true.astype(F32)), true), "special": sample(wrong, true)}
    assert gather_evidence(inputs, limit=1e9, log2_error=-60.0).place == ("special", (17,))


def test_an_infinity_for_a_number_is_shown_beside_rounding() -> None:
    true = RNG.uniform(1, 2, 100)
    wrong = one_ulp_off(true.astype(F32))
    wrong[5] = np.inf
    found = gather_evidence({"x": sample(wrong, true)}, limit=2.0)
    assert not found.is_rounding and found.place == ("x", (5,))


def test_a_uniform_fault_is_shown_at_its_first_element() -> None:
    true = RNG.uniform(1, 2, 100)
    own = true * (1 + 1e-3)
    assert gather_evidence({"x": sample(own.astype(F32), true, own)}, limit=2.0).place == ("x", (0,))


def truncated_small_rows(draw: int) -> LeafSample:
    """Rows 1000 times smaller than others lose all but eight digits; no error is as large as the large rows'."""
    rng = np.random.default_rng([5, draw])
    true = rng.standard_normal((32, 24)) * np.where(np.arange(32) < 16, 1, 1e-5)[:, None]
    variant = one_ulp_off(true.astype(F32))
    variant[16:] = (true[16:].astype(F32).view(np.uint32) >> 16 << 16).view(F32)
    return LeafSample(true.astype(F32), variant, true, true)


def test_truncated_small_rows_are_shown_by_one_of_their_elements() -> None:
    def more(draw: int, labels: Any) -> Any:
        return {"x": error_ratios(*truncated_small_rows(draw)[:3])}

    first = truncated_small_rows(0)
    found = gather_evidence({"x": first}, limit=2.0, more=more, log2_error=-60.0)
    assert found.accuracy.lossy and found.place is not None
    index = found.place[1]
    assert index[0] >= 16
    off = abs(float(first.variant[index]) - first.oracle[index]) / abs(first.oracle[index])
    assert off > 2.0**-9, "rounding noise of a small row is no witness either"


def test_a_bias_is_shown_by_an_error_of_its_sign() -> None:
    def draws(draw: int) -> LeafSample:
        true = np.random.default_rng([6, draw]).standard_normal(4096)
        exact = true.astype(F32)
        cut = (exact.view(np.uint32) >> 16 << 16).view(F32).astype(ml_dtypes.bfloat16)
        cut[9] = np.nextafter(cut[9], ml_dtypes.bfloat16(np.copysign(9, float(cut[9]))))
        return LeafSample(exact.astype(ml_dtypes.bfloat16), cut, exact.astype(float), exact.astype(float))

    found = gather_evidence(
        {"x": draws(0)}, limit=2.0, more=lambda draw, _: {"x": error_ratios(*draws(draw)[:3])}, log2_error=-60.0
    )
    assert found.accuracy.lossy and found.place is not None
    (index,) = found.place[1]
    one = draws(0)
    assert index != 9 and abs(float(one.variant[index])) < abs(one.oracle[index])


def test_every_group_of_a_leaf_has_the_elements_that_it_measured() -> None:
    true = RNG.standard_normal((24, 40)) * np.where(np.arange(24) < 12, 1, 1e-5)[:, None]
    ref = true.astype(F32)
    for name, ratio in error_ratios(ref, one_ulp_off(ref), true).items():
        if name != "the largest error":
            weighed = errors_in(name, 1.0, ref, one_ulp_off(ref), true)
            assert int(np.sum(weighed > -np.inf)) == ratio.elements, name


def test_values_that_are_the_same_show_nothing() -> None:
    true = RNG.uniform(1, 2, 10).astype(F32).astype(float)
    assert gather_evidence({"x": sample(true.astype(F32), true)}, limit=2.0).place is None


def seen(**arrays: np.ndarray) -> ProgramOutputs:
    trees = {label: HostTree(structure="*", leaves={"out": Leaf.of(array)}) for label, array in arrays.items()}
    return ProgramOutputs(trees=trees, repeats=True, layout={}, replicas=[])


def test_a_nan_on_the_second_input_is_the_witness() -> None:
    ones = np.ones(8192, F32)
    rounded, wrong = ones.copy(), ones.copy()
    rounded[:4999] = one_ulp_off(rounded[:4999])
    wrong[5000] = np.nan
    ((comparison, where),) = compare_outputs(
        reference=seen(ordinary=ones, special=ones, more=ones),
        optimized=seen(ordinary=rounded, special=wrong, more=rounded),
    ).values()
    assert comparison.witness is not None
    assert (where, comparison.witness.index, comparison.witness.kind) == ("special", (5000,), "NaN vs number")
    assert comparison.farthest == {"rounding": 1}


def test_the_extent_names_the_largest_class_first() -> None:
    ones = np.ones(8192, F32)
    wrong = ones.copy()
    wrong[:4999] = one_ulp_off(one_ulp_off(ones[:4999]))
    wrong[5000] = np.nan
    (found,) = compare(reference=ones, optimized=wrong)
    assert extent(found.differences, found.elements) == (
        "4999 of 8192 elements differ by rounding (up to 2 ulps) and 1 is NaN for a number"
    )


@pytest.mark.parametrize(
    ("differences", "text"),
    [
        ([("rounding", 1, 1)], "1 of 40 elements differs by rounding (up to 1 ulp)"),
        ([("sign of zero", 1, 0)], "1 of 40 elements is a zero of the other sign"),
        (
            [("rounding", 3, 2), ("NaN payload", 2, None), ("other", 1, 9)],
            "3 of 40 elements differ by rounding (up to 2 ulps), 2 are NaN with other bits and 1 differs by more than "
            "the last digits (up to 9 ulps)",
        ),
        ([("dtype", 40, None)], "40 of 40 elements differ in dtype"),
        ([("other", 2, 9_999)], "2 of 40 elements differ by more than the last digits (up to 9999 ulps)"),
        ([("other", 2, 48_674)], "2 of 40 elements differ by more than the last digits (up to 4.9e4 ulps)"),
    ],
)
def test_classes_in_words(differences: list[tuple[str, int, int | None]], text: str) -> None:
    made = [Difference(kind=kind, elements=count, max_ulp=ulps) for kind, count, ulps in differences]
    assert extent(made, 40) == text


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ([1.0, 2.0], [0.0, 2.0], "at the farthest one side is 0"),
        ([-1.0, 2.0], [1.0, 2.0], "at the farthest the values have opposite signs"),
        ([1.0, 0.0], [1.5, 1e-40], "up to 4.2e6 ulps"),  # what is farthest counts, and a zero elsewhere does not
    ],
)
def test_no_distance_is_counted_over_zero(left: list[float], right: list[float], words: str) -> None:
    """From 0 to 1.0 a billion numbers can be represented: as a distance that says nothing."""
    (comparison,) = compare(reference=np.array(left, F32), optimized=np.array(right, F32))
    assert f"1 of 2 elements differs by more than the last digits ({words})" in extent(
        [difference for difference in comparison.differences if difference.kind == "other"], 2
    )


def test_over_several_inputs_the_farthest_one_counts() -> None:
    right, near, far = (np.array([value, 3.0], F32) for value in (1.0, 1.5, 0.0))
    for first, second in ((near, far), (far, near)):
        ((comparison, _),) = compare_outputs(
            reference=seen(first=right, second=right), optimized=seen(first=first, second=second)
        ).values()
        assert [difference.farthest for difference in comparison.differences] == ["one side is 0"]
