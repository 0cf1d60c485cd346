"""Faults are planted in pairs and checked: each is one group, and its likely cause is what was planted."""

from typing import Any

import pytest

from samebits.host import environment
from samebits.report.causes import causes
from samebits.report.page import Failing, next_command
from samebits.schema.line_difference import LineDifference
from tests.support.documents import different, result
from tests.support.planted_results import planted_results

environment.prepare()

REFERENCES = {"norm": "einsum"}
AUTO: dict[str, Any] = {"modes": ("auto",)}


def planted(pair: str, fault: str, **request: tuple[str, ...]) -> list[Failing]:
    return causes(planted_results(pair, fault, **AUTO, **request))


@pytest.mark.slow
@pytest.mark.cpu_only
def test_one_fault_in_a_reorder_is_one_group() -> None:
    (cause,) = planted(
        "sequence_reorder",
        "late half not reversed",
        variants=("structured",),
        cases=("bshd", "bshd_undo"),
        meshes=("context1", "context2"),
    )
    assert {result.place.dtype for result in cause.findings} == {"bfloat16", "float32", "int32"}
    assert {result.place.direction for result in cause.findings} == {"forward", "gradient"}
    assert cause.likely.startswith("the right elements in the wrong order, a permutation: optimized_impls/")
    assert cause.only == ("only on meshes of several devices", "only in case bshd")
    assert cause.smallest is not None
    assert (cause.smallest.place.mesh, cause.smallest.place.direction) == ("context2", "forward")
    assert cause.next_command == cause.smallest.replay != ""


@pytest.mark.sampled(3)
@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("pair", "fault", "request_of", "likely", "restriction"),
    [
        (
            "rms_norm",
            "epsilon 1e-5 for 1e-6, float32",
            {
                "variants": ("multiply",),
                "cases": ("default",),
                "dtypes": ("float32",),
                "meshes": ("data8",),
                "directions": ("forward",),
            },
            "a constant: 1e-06 in the reference, 1e-05 in the variant (optimized_impls/rms_norm.py:",
            None,
        ),
        (
            "rms_norm",
            "output widened to float32",
            {"variants": ("multiply",), "cases": ("default",), "meshes": ("data8",), "directions": ("forward",)},
            "the dtype of an output: an astype is missing or too much (dtype: reference=bfloat16, variant=float32, ",
            "only with bfloat16",
        ),
        (
            "rms_norm",
            "bits that change from run to run",
            {"variants": ("multiply",), "cases": ("default",), "dtypes": ("float32",), "meshes": ("data1", "data8")},
            "'multiply' gave other bits when run again on the same input: memory that is read before it is written",
            "only in the forward pass",
        ),
        (
            "sequence_reorder",
            "gradient dropped to zeros",
            {"variants": ("permute",), "cases": ("bshd",), "dtypes": ("float32",), "meshes": ("context4",)},
            "another derivative: optimized_impls/sequence_reorder.py:",
            "only in the gradients",
        ),
        (
            "sequence_reorder",
            "way back right for even cp only",
            {
                "variants": ("structured",),
                "cases": ("bshd_undo",),
                "dtypes": ("float32",),
                "directions": ("forward",),
            },
            "the right elements in the wrong order",
            "only on context3",
        ),
        (
            "sequence_reorder",
            "sign of zero lost",
            {
                "variants": ("structured",),
                "cases": ("bshd",),
                "dtypes": ("float32",),
                "meshes": ("context2",),
                "directions": ("forward",),
            },
            "only special values differ, all others are equal: -0.0 for 0.0",
            None,
        ),
        (
            "sequence_reorder",
            "error forgotten where cp is not the mesh's",
            {
                "variants": ("permute",),
                "cases": ("bshd", "cp_off_mesh"),
                "dtypes": ("float32",),
                "meshes": ("context4",),
            },
            "a check of the arguments is missing: 'permute' gave a result; expected ValueError",
            "only in case cp_off_mesh",
        ),
        (
            "sequence_reorder",
            "sequence axis counted without sign",
            {
                "variants": ("structured",),
                "cases": ("bshd_undo", "layers"),
                "dtypes": ("float32",),
                "meshes": ("context4",),
            },
            "the same error in all of them: TypeError: cannot reshape array",
            None,
        ),
        (
            "embedding",
            "NaN instead of zero for an id out of range",
            {"variants": ("gather",), "cases": ("out_of_range", "at_limit"), "dtypes": ("float32",)},
            "only infinities and NaNs differ, other numbers are equal: a mask, an overflow",
            "only in the forward pass",
        ),
    ],
)
def test_a_planted_fault_is_named(
    pair: str, fault: str, request_of: dict[str, tuple[str, ...]], likely: str, restriction: str | None
) -> None:
    (cause,) = planted(pair, fault, **request_of)
    assert cause.likely.startswith(likely)
    assert restriction in cause.only if restriction is not None else not cause.only


@pytest.mark.cpu_only
def test_several_faults_of_one_run_are_several_groups() -> None:
    at: dict[str, Any] = {**AUTO, "dtypes": ("float32",), "meshes": ("context4",), "directions": ("forward",)}
    rows = planted_results(
        "sequence_reorder", "late half not reversed", cases=("bshd",), variants=("structured",), **at
    )
    rows += planted_results("sequence_reorder", "two receivers exchanged", cases=("bshd",), variants=("permute",), **at)
    first, second = causes(rows)
    assert {result.place.variant for result in first.findings} != {result.place.variant for result in second.findings}
    assert {each.smallest and each.smallest.place.variant for each in (first, second)} == {"structured", "permute"}


def test_results_that_hold_have_no_cause() -> None:
    assert causes([result(), result(verdict="skipped", ok=False, mesh="data16")]) == []
    assert next_command([]) is None


def test_what_holds_at_its_own_sizes_is_of_the_cause_at_others() -> None:
    """A contract that requires all sizes fails on every mesh; the cause is where elements differ."""
    why = "it is shown for the sizes of the case alone, and the contract requires all sizes: at context=3: other"
    here = {"verdict": "proved", "required": "proved", "ok": False, "reason": why}
    others = [result(mesh=f"data{size}", devices=size, **here) for size in (2, 4, 8)]
    line = LineDifference(change="moved", variant="norm.py:8", reference="plain.py:3", primitive="rev")
    wrong = different(mesh="data3", devices=3, leaf="out", lines=(line,))
    (cause,) = causes([*others, wrong])
    assert len(cause.findings) == 4 and cause.smallest is wrong
    assert cause.only == ("only where the number of devices is odd",)
    in_one_case = different(mesh="data2", case="b", leaf="out", lines=(line,))
    assert causes([*others, in_one_case])[0].only == ("only in case b",)
    (alone,) = causes(others)
    assert alone.likely == "it holds at the sizes of the case, and the contract requires all sizes: at context=3: other"
    # One that would not do at its own sizes either is another matter.
    bits = result(verdict="bitwise", required="proved", ok=False, reason="no proof", variant="other")
    assert [each.kind for each in causes([*others, bits])] == ["sizes", "unproved"]


def test_the_title_counts_and_the_order_is_by_gravity_then_size() -> None:
    error = result(case="b", verdict="error", ok=False, leaf="*", reason="raised RuntimeError: no kernel")
    few, many = different(variant="slice"), [different(mesh=f"data{size}") for size in (2, 4, 8)]
    listed = causes([error, few, *many, result(mesh="data1")])
    assert [cause.title for cause in listed] == [
        "norm/multiply: 3 of 5 results: different",
        "norm/slice: 1 of 1 result: different",
        "norm/multiply: 1 of 5 results: error",
    ]
    assert next_command(listed) == many[0].replay


def test_the_example_has_the_fewest_devices_then_elements() -> None:
    large, small = different(devices=2, elements=4096), different(devices=2, elements=40, case="b")
    wide = different(devices=8, elements=8, case="c")
    (cause,) = causes([wide, large, small])
    assert cause.smallest is small
