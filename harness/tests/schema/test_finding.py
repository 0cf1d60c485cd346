"""The records of what a tool found: verdicts, exit codes, counts, lines, what survives JSON, older rows."""

import json
from dataclasses import fields, is_dataclass
from html import escape
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from samebits.report.any_document import read_any_document
from samebits.report.check import CaseInputs, Document, PairHead, SideSource
from samebits.report.document import to_json
from samebits.schema.assumption import Assumption, words_of
from samebits.schema.finding import Finding, at, exit_code, point_of, shake_of, standing, summarise
from samebits.schema.json_text import unknown_key
from samebits.schema.line_difference import LineDifference, NamedLines
from samebits.schema.older_rows import group_of, nested, upgraded
from samebits.schema.picture import HeatMap, Picture, Window
from samebits.schema.point import USUAL, Effort, Point
from samebits.schema.program_facts import ProgramRegion, RegionLine
from samebits.schema.result import VERDICTS, Outcome, Problem, ShakenLeaf
from samebits.schema.shown import Shown
from tests.support.documents import different, document, result
from tests.support.findings import finding, flat_rows


def proof_result(**changes: Any) -> Finding:
    usual: dict[str, Any] = {
        "variant": "fast",
        "case": "small",
        "dtype": "float32",
        "mesh": "data1",
        "mode": "auto",
        "direction": "forward",
        "leaf": "out",
        "verdict": "proved",
        "required": "bitwise",
        "ok": True,
    }
    return finding("prove", **{**usual, **changes})


PROVED = proof_result()
REFUTED = proof_result(verdict="different", ok=False)
UNDECIDED = proof_result(verdict="error", ok=False)


@pytest.mark.parametrize(
    ("found", "failed", "refutes"),
    [
        (PROVED, False, False),
        (REFUTED, True, True),
        (UNDECIDED, True, False),
        (proof_result(verdict="rounding", ok=False), True, False),
        (proof_result(exempt=True, ok=False), True, True),
        (proof_result(exempt=True, ok=False, unkept=("finite=x",)), True, False),
    ],
    ids=["held", "different", "undecided", "below its contract", "exempt and equal", "exempt and equal on a domain"],
)
def test_what_fails_and_what_refutes(found: Finding, failed: bool, refutes: bool) -> None:
    assert (found.failed, found.refutes) == (failed, refutes)


HELD = result()
SKIPPED = result(verdict="skipped", ok=False)
ERROR = result(verdict="error", ok=False)
WRONG = Problem(pair="norm", message="no suite")
FAILED_TO_RUN = Problem(pair="norm", message="no compiler", exit_code=3)


@pytest.mark.parametrize(
    ("results", "problems", "code"),
    [
        ([HELD], [], 0),
        ([HELD, SKIPPED], [], 0),
        ([HELD, different()], [], 1),
        ([ERROR, different()], [WRONG], 1),
        ([HELD], [WRONG], 2),
        ([HELD, ERROR], [], 3),
        ([HELD], [FAILED_TO_RUN], 3),
        ([SKIPPED], [], 3),
        ([], [], 3),
        ([PROVED], [], 0),
        ([PROVED, REFUTED], [], 1),
        ([UNDECIDED, REFUTED], [WRONG], 1),
        ([PROVED, UNDECIDED], [], 3),
    ],
)
def test_exit_codes(results: list[Finding], problems: list[Problem], code: int) -> None:
    assert exit_code(results, problems) == code
    assert exit_code(results, problems, interrupted=True) == (code or 3)
    assert exit_code(results, problems, no_skips=True) == (3 if SKIPPED in results else code)


def test_groups_are_changed_in_a_copy() -> None:
    changed = PROVED.with_ruling(required="rounding").with_proof(method="fields")
    assert (changed.ruling.required, changed.proof.method) == ("rounding", "fields")
    assert changed.place == PROVED.place and (PROVED.ruling.required, PROVED.proof.method) == ("bitwise", None)


def test_a_point_is_the_point_of_its_place() -> None:
    point = Point(variant="fast", case="small", dtype="float32", mesh="data1", mode="explicit", direction="gradient")
    assert point_of(at("norm", point, "x")) == point
    assert at("norm", point, "x").what() == "gradient of x"


def test_every_result_is_counted_once() -> None:
    exempt = result(verdict="different", exempt=True)
    summary = summarise([HELD, SKIPPED, different(), exempt], selected=2, product=8, seconds=1.23456)
    assert (summary.cases, summary.ok, summary.failed, summary.skipped, summary.exempt) == (4, 2, 1, 1, 1)
    assert summary.verdicts == {"bitwise": 1, "different": 2, "skipped": 1}
    assert (summary.selected, summary.product, summary.seconds) == (2, 8, 1.235)
    assert list(summary.verdicts) == [verdict for verdict in VERDICTS if verdict in summary.verdicts]


def shaken(*outcomes: Outcome, moved: bool | None = None) -> Finding:
    leaves = (
        ShakenLeaf(option=f"o{number}", outcome=outcome, verdict="bitwise", reference_moved=moved)
        for number, outcome in enumerate(outcomes)
    )
    return result(shaken=tuple(leaves))


def test_a_leaf_stands_as_its_gravest_outcome() -> None:
    assert standing(shaken("robust", "fragile", "no effect")) == "fragile"
    assert standing(shaken("error", "broken")) == "broken"
    assert standing(shaken("no effect")) == "not moved"


def test_options_and_leaves_are_counted_apart() -> None:
    summary = shake_of([shaken("robust", "no effect", moved=True), shaken("fragile", "no effect"), result()], {}, {})
    first, second = summary.options
    assert (first.option, first.outcomes, first.reference_moved) == ("o0", {"robust": 1, "fragile": 1}, 1)
    assert first.effect and not second.effect
    assert summary.leaves == {"fragile": 1, "robust": 1}, "a leaf that was not shaken is not counted"


POINT = Point(variant="fast", case="small", dtype="float32", mesh="data2", mode="auto", direction="forward")


def test_a_point_is_written_in_the_order_of_the_command_line() -> None:
    assert str(POINT) == "fast-small-float32-data2-auto-forward"


def test_equal_names_are_one_point() -> None:
    again = Point(variant="fast", case="small", dtype="float32", mesh="data2", mode="auto", direction="forward")
    assert {POINT, again} == {POINT}


def test_every_program_runs_twice_where_nothing_is_asked() -> None:
    assert Effort(repeats=2, shake=False, assuming=True) == USUAL


SHAPES = Assumption("shapes", "only these shapes", "another size takes another branch", inherent=True)
ROOTS = Assumption("roots", "sqrt(x * x) is |x|", "a root is taken of a negative number")


def test_an_assumption_says_where_it_would_be_false() -> None:
    assert str(ROOTS) == "sqrt(x * x) is |x|; false where a root is taken of a negative number"


def test_kinds_leave_out_what_every_proof_rests_on() -> None:
    assert words_of((SHAPES, ROOTS, Assumption("range", "", ""))) == "roots, range"
    assert words_of((SHAPES,)) == ""


HEAD = PairHead(
    pair="norm",
    reference="einsum",
    variants=("multiply",),
    selected=3,
    product=12,
    meshes={"data2": {"data": 2}},
    inputs=(CaseInputs(case="small", meshes=("data2",), arguments={"x": "[8] normal"}),),
    sources=(SideSource(side="einsum", file="reference_impls/norm.py", first=3, last=4, text="def einsum(x):\n    x"),),
)


def test_a_head_is_read_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(HEAD), type=PairHead) == HEAD


def test_a_document_of_an_older_version_opens() -> None:
    old = msgspec.json.decode(msgspec.json.encode(document()))
    for key in ("meshes", "inputs", "sources"):
        del old["pairs"][0][key]
    assert msgspec.convert(old, Document) == document()


PICTURE = Picture(
    heat=HeatMap(edges={"1": "0 16 32 48 64"}, counts="3 0"),
    ulps={"0": 1, "2^4": 1, "none": 1},
    inputs={"ordinary": 3, "special": 0},
    devices={"0, 2": 3, "1, 3": 0},
    window=Window(
        input="ordinary",
        elements="[0, 3:5]",
        reference="1 nan",
        optimized="2 0",
        reference_hex="0x3f80 0x7fc0",
        optimized_hex="0x4000 0x0000",
    ),
)


@pytest.mark.parametrize("picture", [PICTURE, None], ids=["picture", "none"])
def test_a_result_with_its_picture_is_read_back(picture: Picture | None) -> None:
    result = different(picture=picture)
    text = msgspec.json.encode(result)
    assert msgspec.json.decode(text, type=Finding).comparison.picture == picture
    assert unknown_key(msgspec.json.decode(text), msgspec.json.decode(text, type=Finding)) is None


def test_a_result_of_an_older_version_has_no_picture() -> None:
    old = msgspec.json.decode(msgspec.json.encode(different()))
    for group, key in (("comparison", "picture"), ("comparison", "array"), ("run", "device_order")):
        del old[group][key]
    assert msgspec.convert(old, Finding) == different()


def region(*kinds: Any) -> ProgramRegion:
    return ProgramRegion(
        levels=(), lines=tuple(RegionLine(kind=kind, note=str(place)) for place, kind in enumerate(kinds)), more=0
    )


def test_the_first_row_that_differs() -> None:
    for kind in ("changed", "reference", "variant"):
        first = region("same", "moved", kind, "changed").first
        assert first is not None and (first.kind, first.note) == (kind, "2")


def test_rows_of_both_sides_do_not_differ() -> None:
    assert region("same", "moved").first is None


def test_a_record_without_a_view_of_its_own_shows_its_text() -> None:
    record = Shown()
    assert escape(repr(record)) in record._repr_html_()


def test_it_takes_no_place_in_a_record() -> None:
    assert Shown.__slots__ == () and not hasattr(Shown(), "__dict__")


STORED = Path(__file__).parent.parent / "report" / "html" / "browser" / "documents"
"""As versions before wrote them."""

NAMES = sorted(path.stem for path in STORED.glob("*.json") if path.stem.startswith(("check_", "prove_")))
NOW = {"proof_alone": "alone", "no_lines": "why"}


def contains(new: Any, old: Any) -> bool:
    """Whether all of an older value is in a new one, whose records may have more keys."""
    if isinstance(old, dict):
        return all(contains(new[key], value) for key, value in old.items())
    if isinstance(old, list):
        return len(new) == len(old) and all(contains(*each) for each in zip(new, old, strict=True))
    return bool(new == old)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_an_older_document_is_read(name: str, tmp_path: Path) -> None:
    old = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    assert old["schema"] == "samebits/1"
    file = tmp_path / "again.json"
    file.write_text(to_json(read_any_document(STORED / f"{name}.json")), encoding="utf-8")
    new = json.loads(file.read_text(encoding="utf-8"))
    assert new["schema"] == "samebits/2"
    for before, after in zip(old["results"], flat_rows(new), strict=True):
        for key, value in before.items():
            now = "refutation" if (old["command"], key) == ("prove", "witness") else NOW.get(key, key)
            assert contains(after[now], value), key
    assert read_any_document(file) == read_any_document(STORED / f"{name}.json")


@pytest.mark.parametrize("tool", ["check", "prove"])
def test_each_field_has_one_group(tool: str) -> None:
    known: dict[str, list[str]] = {}
    for group, kind in get_type_hints(Finding).items():
        for part in fields(kind) if is_dataclass(kind) else ():
            known.setdefault(part.name, []).append(group)
    twice = {name: groups for name, groups in known.items() if len(groups) > 1}
    assert twice == {"domain": ["ruling", "proof"]}, "what is read from a name must not depend on chance"
    assert group_of(tool)["domain"] == ("proof" if tool == "prove" else "ruling")


def test_unknown_keys_stay_where_they_are() -> None:
    row: dict[str, Any] = {"pair": "norm", "extra": 1, "witness": "out[0]", "no_lines": "why not"}
    assert nested(row, "prove") == {
        "tool": "prove",
        "place": {"pair": "norm"},
        "extra": 1,
        "proof": {"refutation": "out[0]"},
        "named": {"why": "why not"},
    }
    assert upgraded({"command": "check", "results": 3})["results"] == 3


def test_claims_have_the_words_of_today() -> None:
    row = {"id": "1", "holds": "not told", "values": "not asked", "said": "it was not told", "findings": []}
    document = upgraded({"command": "claims", "results": [row], "summary": {"states": {"not told": 1}}})
    assert document["results"] == [row | {"holds": "undecided", "values": "not tested"}]
    assert document["summary"] == {"states": {"undecided": 1}}


BOTH = {
    "variant": "pkg/fns.py:41",
    "variant_code": "x * s",
    "reference": "pkg/ref.py:17",
    "reference_code": "x * s * 2",
    "primitive": "mul",
}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            LineDifference(change="other", **BOTH),  # type: ignore[arg-type]
            "pkg/fns.py:41 has `x * s`, the reference's twin at pkg/ref.py:17 has `x * s * 2`",
        ),
        (
            LineDifference(change="missing", iterations=(2,), **BOTH),  # type: ignore[arg-type]
            "pkg/fns.py:41 has `x * s`, the reference's twin at pkg/ref.py:17 has `x * s * 2`: the variant has no such "
            "`mul` (iteration 2)",
        ),
        (
            LineDifference(change="added", variant="fns.py:41", variant_code="x * s", primitive="mul"),
            "fns.py:41 has `x * s`; the reference has nothing like it: the reference has no such `mul`",
        ),
        (
            LineDifference(change="missing", reference="ref.py:17", reference_code="x * 2", primitive="mul"),
            "ref.py:17 has `x * 2` in the reference, the variant nothing like it: the variant has no such `mul`",
        ),
        (
            LineDifference(change="moved", variant="fns.py:4", reference="ref.py:5", iterations=(0, 1, 2, 3, 4)),
            "fns.py:4, the reference's twin at ref.py:5: the same elements in another order (iterations 0, 1, 2, 3, …)",
        ),
        (
            LineDifference(change="other", variant="fns.py:4", calls=("fns.py:9", "fns.py:20"), reference="ref.py:5"),
            "fns.py:4 (called at line 9), the reference's twin at ref.py:5",
        ),
    ],
)
def test_a_line_is_one_sentence(line: LineDifference, sentence: str) -> None:
    assert str(line) == sentence


def test_no_line_has_a_reason() -> None:
    assert NamedLines(why="the programs cannot be aligned").lines == ()
