"""What a group most likely is: each rule with a group that it is for, and one to which it must not speak."""

from typing import Any

import pytest

from samebits.report.causes import Group, group_failures, likely
from samebits.schema.difference import Difference
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference
from tests.support.documents import different, result
from tests.support.findings import changed

LINE = LineDifference(change="other", variant="norm.py:8", reference="plain.py:3", primitive="add")
MOVED = LineDifference(change="moved", variant="norm.py:8", reference="plain.py:3", primitive="reverse")
LITERAL = "the reference has the literal 1e-06 (float32) at a.py:4 where this has 1e-05 (float32) at b.py:9"


def cause(*results: Finding, only: tuple[str, ...] = ()) -> str:
    ((key, group),) = group_failures(results, {"norm": "einsum"}).items()
    return likely(Group(key, group, only))


def error(reason: str) -> Finding:
    return result(verdict="error", ok=False, leaf="*", reason=reason)


def of_kinds(*kinds: str, **more: Any) -> Finding:
    return different(differences=tuple(Difference(kind=kind, elements=1) for kind in kinds), **more)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("its process ended while compiling 'x': SIGSEGV; Check failed", "while compiling 'x': native code crashed"),
        ("its process ended while running 'x': SIGKILL", "the system ended it, as it does when memory runs out"),
        ("its process ended while running 'x': more than 600 s", "a deadlock or a very slow program while running 'x'"),
        ("its process ended while running 'x': 3 GiB of memory, more than the 2 GiB", "too much memory while running"),
        (
            "its process ended while running 'x': device cuda:0 failed: INTERNAL: CUDA error",
            "while running 'x', device cuda:0 failed: INTERNAL: CUDA error; a kernel that reads or writes",
        ),
        ("its process ended while starting: exit code 3", "the process ended (exit code 3) while starting"),
        ("norm: 'multiply', case 'small', x: raised ValueError: no", "an error: ValueError: no"),
        ("could not tell whether this is rounding: y", "could not tell whether this is rounding: y"),
    ],
)
def test_errors(reason: str, words: str) -> None:
    assert words in cause(error(reason))


def test_the_mesh_and_not_the_variant() -> None:
    own = different(variant="einsum")
    assert cause(own, different()).startswith("the mesh or the compiler, not the variant: on data2 the reference")
    assert "mesh or the compiler" not in cause(different())  # the reference holds there, or did not run


def test_a_reference_of_equal_bits_on_the_mesh_does_not_differ() -> None:
    own = {"kind": None, "mismatches": 0, "differences": (), "witness": None}
    refuted = different(variant="einsum", evidence="not the same mathematics: x", **own)
    assert "itself is different, although its bits are those of one device: not the same" in cause(refuted)
    unproved = result(variant="einsum", verdict="bitwise", required="proved", ok=False)
    moved = different()
    assert {key[0] for key in group_failures([unproved, moved], {"norm": "einsum"})} == {"unproved", "values"}
    undecided = error("could not tell")
    keys = group_failures([changed(undecided, variant="einsum"), different(leaf="*")], {"norm": "einsum"})
    assert "mesh" not in {key[0] for key in keys}


def test_accuracy_that_is_lost_is_no_permutation() -> None:
    text = cause(different(lines=(MOVED,), evidence="loses accuracy: error 9x the reference's", error_ratio=9.0))
    assert text.startswith("precision is lost (up to 9 times the reference's)") and "permutation" not in text
    narrow = LineDifference(change="narrower", variant="norm.py:8", variant_code="x.astype(bf16)")
    text = cause(different(lines=(narrow,), evidence="loses accuracy: error 9x the reference's", error_ratio=9.0))
    assert "norm.py:8 has `x.astype(bf16)`: floats are narrower from there" in text


def test_a_dtype_is_placed() -> None:
    line = LineDifference(change="dtype", variant="norm.py:8", variant_code="x.astype(bf16)")
    text = cause(of_kinds("dtype", lines=(line,), evidence="dtype: reference=float32, variant=bfloat16"))
    assert text.endswith("(dtype: reference=float32, variant=bfloat16, norm.py:8)")


def test_an_expected_error() -> None:
    missing = different(required="refused", leaf="*", reason="'multiply' gave a result; expected ValueError")
    assert cause(missing).startswith("a check of the arguments is missing: 'multiply' gave a result")
    other = different(required="refused", leaf="*", reason="'multiply' raised KeyError; expected ValueError")
    assert cause(other).startswith("another error than the documented one")


def test_a_permutation() -> None:
    assert cause(different(lines=(MOVED,), kind="other")).startswith("the right elements in the wrong order")
    assert cause(different(lines=(LINE,), kind="other")).startswith("another computation: norm.py:8")


def test_special_values() -> None:
    assert "-0.0 for 0.0" in cause(of_kinds("sign of zero"))
    assert "NaNs with other bits" in cause(of_kinds("NaN payload"))
    assert "only special values" not in cause(of_kinds("sign of zero", "other"))


def test_infinities_and_nans() -> None:
    assert cause(of_kinds("NaN vs number", "overflow to infinity")).startswith("only infinities and NaNs differ")
    assert "infinities" not in cause(of_kinds("NaN vs number", "other"))


@pytest.mark.parametrize("kind", ["dtype", "shape", "structure", "weak type"])
def test_the_form_of_an_output(kind: str) -> None:
    assert cause(of_kinds(kind, evidence=f"{kind}: reference=a, variant=b")).startswith("the ")
    assert f"({kind}: reference=a, variant=b)" in cause(of_kinds(kind, evidence=f"{kind}: reference=a, variant=b"))


def test_a_constant() -> None:
    assert cause(different(evidence=LITERAL, lines=(LINE,))) == (
        "a constant: 1e-06 in the reference, 1e-05 in the variant (norm.py:8)"
    )
    others = [different(lines=(LINE,), mesh=f"data{size}") for size in (4, 8)]
    assert cause(different(evidence=LITERAL, lines=(LINE,)), *others).startswith("another computation")
    same = LITERAL.replace("1e-05", "1e-06")
    assert cause(different(evidence=same, lines=(LINE,))).startswith("another computation")


def test_accuracy() -> None:
    lost = different(evidence="loses accuracy: error 9x the reference's", error_ratio=9.0, kind="other")
    assert cause(lost).startswith("precision is lost (up to 9 times the reference's)")
    assert "one way" not in cause(lost)
    biased = different(evidence="loses accuracy: biased", error_ratio=2.0, bias=0.5, kind="other")
    assert cause(biased).endswith("the errors point one way, as truncation makes them")
    wild = different(evidence="loses accuracy: error 8e+06x the reference's", error_ratio=8e6, kind="other")
    assert "narrower dtype" not in cause(wild)  # no dtype costs that much


def test_rounding_that_is_not_accepted() -> None:
    rounding = result(verdict="rounding", ok=False, mismatches=1, kind="rounding (1 ulps)")
    assert cause(rounding) == "only rounding, which the contract does not accept (it requires bitwise)"
    fell = result(verdict="rounding", ok=False, reason="these bits were equal here before: bitwise, now rounding; x")
    assert cause(fell).startswith("a change since the verdicts were accepted")


def test_equal_bits_without_the_proof() -> None:
    short = result(verdict="bitwise", ok=False, required="proved", evidence="would be proved for: finite x")
    assert cause(short).startswith("the bits are equal on every input tried, but the contract requires a proof: would")


def test_a_derivative() -> None:
    gradient = different(direction="gradient", kind="other")
    assert cause(gradient, only=("only in the gradients",)).startswith("the derivative alone")
    assert "derivative" not in cause(gradient)  # no forward pass was compared


def test_without_a_rule_the_evidence_stands() -> None:
    assert cause(different(kind="other")) == "not rounding: in float64 the sides still differ"
