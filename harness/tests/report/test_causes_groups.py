"""Which failing results are one group, what restricts it, and what it most likely is."""

from typing import Any

import pytest

from samebits.report.causes import (
    Group,
    error_text,
    group_failures,
    kinds_of,
    likely,
    only,
    place_words,
    without_numbers,
)
from samebits.schema.difference import Difference
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference
from samebits.schema.picture import HeatMap, Picture
from tests.support.documents import different, result
from tests.support.findings import changed

LINE = LineDifference(change="other", variant="norm.py:8", reference="plain.py:3", primitive="add")
MOVED = LineDifference(change="moved", variant="norm.py:8", reference="plain.py:3", primitive="reverse")


def error(reason: str, **more: Any) -> Finding:
    return result(verdict="error", ok=False, leaf="*", reason=reason, **more)


OTHER = LineDifference(change="other", variant="norm.py:9", reference="plain.py:3")
SHORT = result(verdict="bitwise", ok=False, required="proved", leaf="sizes")
ZERO = different(kind="sign of zero", mesh="data4")
AT = "norm: 'multiply', case 'small', bfloat16, forward, mesh 'data2' (auto): raised ValueError: "
SHAPE = error(f"{AT}shape (4, 8) of 32")
OTHER_SHAPE = error(f"{AT.replace('small', 'large').replace('data2', 'data8')}shape (16, 8, 2) of 256", case="large")
SEGV, OTHER_SEGV = (
    error(f"its process ended while compiling '{name}': SIGSEGV; it was at a.py:3") for name in ("a", "b")
)
KILLED = error("its process ended while running 'a': SIGKILL")
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED: out of memory"
OWN = different(variant="einsum")
ROUNDS = {"verdict": "rounding", "required": "bitwise"}
REFUTED = different(evidence="not the same mathematics: out[] is 2 in the reference, 3 here, in float64")


def located(**more: Any) -> Finding:
    return different(lines=(LINE,), **more)


@pytest.mark.parametrize(
    ("results", "grouped"),
    [
        ([located(), located(variant="slice", direction="gradient")], [2]),
        ([located(), different(lines=(OTHER,))], [1, 1]),
        ([located(), located(pair="moe")], [2]),
        # Results without a line join the one that explains them.
        ([located(), different(mesh="data4")], [2]),
        ([located(), different(variant="slice")], [1, 1]),
        # Of two lines of one side none is the cause of a third case; of a case that both have not either.
        ([located(), different(lines=(OTHER,), case="b"), different(case="c")], [1, 1, 1]),
        ([located(), different(lines=(OTHER,), case="b"), different(case="b")], [1, 2]),
        # A leaf without its proof joins the leaves of its point, special values a line that moves elements.
        ([located(), SHORT], [2]),
        ([located(mesh="data8"), SHORT], [1, 1]),
        ([located(), ZERO], [1, 1]),
        ([different(lines=(MOVED,)), ZERO], [2]),
        # Errors by their text without numbers, lost processes by their signal.
        ([SHAPE, OTHER_SHAPE], [2]),
        ([SHAPE, error(f"{AT}no kernel")], [1, 1]),
        ([SHAPE, error(OUT_OF_MEMORY), error(OUT_OF_MEMORY, pair="b")], [1, 2]),
        ([SEGV, OTHER_SEGV, KILLED], [1, 2]),
        # The mesh is a group of reference and variants, but not where the reference holds, nor of what is worse.
        ([OWN, different()], [2]),
        ([OWN, different(mesh="data4")], [1, 1]),
        ([different(variant="einsum", **ROUNDS), different(**ROUNDS)], [2]),
        ([different(variant="einsum", **ROUNDS), different()], [1, 1]),
        ([different(variant="einsum", **ROUNDS), located(**ROUNDS)], [1, 1]),
        ([OWN, REFUTED], [1, 1]),
    ],
)
def test_groups(results: list[Finding], grouped: list[int]) -> None:
    assert sorted(len(group) for group in group_failures(results, {"norm": "einsum"}).values()) == grouped


def test_an_error_without_its_place() -> None:
    assert error_text(SHAPE) == "ValueError: shape (4, 8) of 32"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("shape (2, 16, 2, 3) is 0x7f", "shape (#) is #"),
        ("float32 at norm.py:48", "float32 at norm.py:#"),
        ("off by -1.5e-07", "off by #"),
        ("partial(<f at 0x7fd333a81580>, 4, False)", "partial(<f at #>, #)"),
    ],
)
def test_numbers_are_removed(text: str, shown: str) -> None:
    assert without_numbers(text) == shown


def test_the_kinds_of_a_document_without_classes() -> None:
    assert kinds_of(different()) == {"rounding"}
    assert kinds_of(different(differences=(Difference(kind="other", elements=1),))) == {"other"}
    assert kinds_of(error("x")) == frozenset()


# --- what a group most likely is -------------------------------------------------------------------------------------


LITERAL = "the reference has the literal 1e-06 (float32) at a.py:4 where this has 1e-05 (float32) at b.py:9"


def cause(*results: Finding, only: tuple[str, ...] = ()) -> str:
    ((key, group),) = group_failures(results, {"norm": "einsum"}).items()
    return likely(Group(key, group, only))


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


PLACED = LineDifference(change="dtype", variant="norm.py:8", variant_code="x.astype(bf16)")
NARROW = LineDifference(change="narrower", variant="norm.py:8", variant_code="x.astype(bf16)")
DTYPES = "dtype: reference=float32, variant=bfloat16"
CONSTANT = different(evidence=LITERAL, lines=(LINE,))
LOST: dict[str, Any] = {"evidence": "loses accuracy: error 9x the reference's", "error_ratio": 9.0}
BIASED = different(evidence="loses accuracy: biased", error_ratio=2.0, bias=0.5, kind="other")
WILD = different(evidence="loses accuracy: error 8e+06x the reference's", error_ratio=8e6, kind="other")
REFUSED: dict[str, Any] = {"required": "refused", "leaf": "*"}
FELL = "these bits were equal here before: bitwise, now rounding; x"


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([different(lines=(NARROW,), **LOST)], "norm.py:8 has `x.astype(bf16)`: floats are narrower from there"),
        ([of_kinds("dtype", lines=(PLACED,), evidence=DTYPES)], f"({DTYPES}, norm.py:8)"),
        (
            [different(**REFUSED, reason="'multiply' gave a result; expected ValueError")],
            "^a check of the arguments is missing: 'multiply' gave a result",
        ),
        (
            [different(**REFUSED, reason="'multiply' raised KeyError; expected ValueError")],
            "^another error than the documented one",
        ),
        ([different(lines=(MOVED,), kind="other")], "^the right elements in the wrong order"),
        ([different(lines=(LINE,), kind="other")], "^another computation: norm.py:8"),
        ([of_kinds("sign of zero")], "-0.0 for 0.0"),
        ([of_kinds("NaN payload")], "NaNs with other bits"),
        ([of_kinds("NaN vs number", "overflow to infinity")], "^only infinities and NaNs differ"),
        ([CONSTANT], "^a constant: 1e-06 in the reference, 1e-05 in the variant (norm.py:8)"),
        ([CONSTANT, *(different(lines=(LINE,), mesh=f"data{size}") for size in (4, 8))], "^another computation"),
        ([changed(CONSTANT, evidence=LITERAL.replace("1e-05", "1e-06"))], "^another computation"),
        ([different(kind="other", **LOST)], "^precision is lost (up to 9 times the reference's)"),
        ([BIASED], "the errors point one way, as truncation makes them"),
        (
            [result(verdict="rounding", ok=False, mismatches=1, kind="rounding (1 ulps)")],
            "^only rounding, which the contract does not accept (it requires bitwise)",
        ),
        ([result(verdict="rounding", ok=False, reason=FELL)], "^a change since the verdicts were accepted"),
        (
            [result(verdict="bitwise", ok=False, required="proved", evidence="would be proved for: finite x")],
            "^the bits are equal on every input tried, but the contract requires a proof: would",
        ),
        ([different(kind="other")], "^not rounding: in float64 the sides still differ"),  # without a rule the evidence
    ],
)
def test_a_cause(results: list[Finding], words: str) -> None:
    """A text that begins so after `^`, or has the words."""
    text = cause(*results)
    assert text.startswith(words[1:]) if words.startswith("^") else words in text


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (of_kinds("sign of zero", "other"), "only special values"),
        (of_kinds("NaN vs number", "other"), "infinities"),
        (different(lines=(MOVED,), **LOST), "permutation"),
        (different(kind="other", **LOST), "one way"),
        (WILD, "narrower dtype"),  # no dtype costs that much
    ],
)
def test_a_cause_is_not_given_without_its_evidence(found: Finding, words: str) -> None:
    assert words not in cause(found)


@pytest.mark.parametrize("kind", ["dtype", "shape", "structure", "weak type"])
def test_the_form_of_an_output(kind: str) -> None:
    text = cause(of_kinds(kind, evidence=f"{kind}: reference=a, variant=b"))
    assert text.startswith("the ") and f"({kind}: reference=a, variant=b)" in text


def test_a_derivative() -> None:
    gradient = different(direction="gradient", kind="other")
    assert cause(gradient, only=("only in the gradients",)).startswith("the derivative alone")
    assert "derivative" not in cause(gradient)  # no forward pass was compared


# --- where a group ends ----------------------------------------------------------------------------------------------


def on(*meshes: str) -> list[Finding]:
    return [different(mesh=mesh) for mesh in meshes]


def holding(*meshes: str) -> list[Finding]:
    return [result(mesh=mesh) for mesh in meshes]


@pytest.mark.parametrize(
    ("failing", "beside", "words"),
    [
        ([different()], [result(dtype="float32")], ["only with bfloat16"]),
        ([different(direction="gradient")], [result()], ["only in the gradients"]),
        ([different(mode="explicit")], [result()], ["only in mode explicit"]),
        ([different()], [result(case="other")], ["only in case small"]),
        (on("data4", "data8"), holding("data1", "data2"), ["only on meshes of 4 devices and more"]),
        (on("data2", "data8"), holding("data1"), ["only on meshes of several devices"]),
        (on("data1"), holding("data2", "data4"), ["only on one device"]),
        (on("data3", "data5"), holding("data2", "data4"), ["only where the number of devices is odd"]),
        (on("data2_fsdp2", "fsdp4"), holding("data4", "data8"), ["only where the mesh has the axis 'fsdp'"]),
        (on("data4"), holding("data2", "data8"), ["only on data4"]),
    ],
)
def test_a_restriction(failing: list[Finding], beside: list[Finding], words: list[str]) -> None:
    assert only(failing, [*failing, *beside]) == words


@pytest.mark.parametrize(
    ("failing", "beside"),
    [
        ([different()], []),  # nothing beside it ran
        ([different()], [result(dtype="float32", verdict="skipped", ok=False)]),
        ([different()], [different(dtype="float32")]),  # the other fails too, in a group of its own
        ([different(direction="gradient")], [result(direction="forward", dtype="float32")]),  # of another dtype
        (on("data2", "data8"), holding("data4")),
        (on("data2"), [result(mesh="data4", variant="slice")]),
    ],
)
def test_no_restriction_without_its_evidence(failing: list[Finding], beside: list[Finding]) -> None:
    assert [words for words in only(failing, [*failing, *beside]) if "device" in words or "with" in words] == []


def parts(**more: int) -> dict[str, Any]:
    """A picture with so many differing elements in the parts of the devices `d0`, `d1` ..."""
    devices = {name.removeprefix("d").replace("_", ", "): count for name, count in more.items()}
    return {"picture": Picture(heat=HeatMap(edges={}, counts="1"), ulps={}, devices=devices)}


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        ([parts(d0=0, d1=8, d2=0)], ["only in the part of device 1"]),
        ([parts(d0_1=0, d2_3=8)] * 2, ["only in the part of devices 2, 3"]),
        ([parts(d0=0, d1=8, d2=8)], ["only in the parts of devices 1 and 2"]),
        ([parts(d0=1, d1=8)], []),  # every device has some
        ([parts(d0=0, d1=8), parts(d0=8, d1=0)], []),  # not the same one in all results
        ([parts(d0=0, d1=8), {}], []),  # of one of them it is not known
        ([parts(d0=8)], []),  # one device has all
    ],
)
def test_the_parts_of_devices(pictures: list[dict[str, Any]], words: list[str]) -> None:
    assert only([different(case=f"c{number}", **more) for number, more in enumerate(pictures)], []) == words


def test_an_unreadable_mesh_restricts_nothing() -> None:
    assert only(on("?!"), [*on("?!"), *holding("data2")]) == []


def test_places_in_few_words() -> None:
    assert place_words(on("data2", "data4")) == "small; bfloat16; data2/4; forward"
    many = [different(case=f"c{number}", mesh=f"data{number}") for number in range(1, 10)]
    assert place_words(many) == "9 cases; bfloat16; 9 meshes; forward"
