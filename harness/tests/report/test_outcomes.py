"""Rows for continuous integration: never all green where the exit code is not 0; annotations by GitHub's rules."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from junitparser.xunit2 import JUnitXml, TestCase

from samebits.audit.faults.fault import FaultRow
from samebits.report.compile import CompileDocument, CompileSummary
from samebits.report.continuous_integration import (
    MOST,
    OutcomeRow,
    Outcomes,
    junit_xml,
    outcomes,
    workflow_command,
    workflow_commands,
)
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.faults import FaultTable
from samebits.report.findings import judged
from samebits.report.prove import ProofDocument
from samebits.schema.finding import Finding, Place, exit_code
from samebits.schema.program_facts import ClaimResult, SideBySide
from samebits.schema.result import Problem
from tests.support.blank import blank
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import finding

NOWHERE = DeclarationLines(())
WRONG = Problem(pair="rope", message="pair 'rope' lacks a twin")
BROKEN = Problem(pair="rope", message="samebits itself raised", exit_code=3)


def statuses(made: Outcomes) -> list[str]:
    return [row.status for row in made.rows]


def test_each_result_is_a_row() -> None:
    error = result(verdict="error", ok=False, leaf="*", reason="raised ValueError: no")
    skipped = result(verdict="skipped", ok=False, mesh="data16")
    made = outcomes(document(result(), different(), error, skipped), NOWHERE)
    assert statuses(made) == ["passed", "failed", "error", "skipped"]
    assert made.rows[0].name == "small-bfloat16-data2-auto-forward-out"
    failed = made.rows[1]
    assert failed.message == (
        "out['rows']: different, required bitwise; out['rows'][1, 2]: "
        "reference=6.4375 (0x40ce), multiply=6.375 (0x40cc)"
    )
    assert failed.details[-1] == "  replay    samebits check norm --variant multiply"
    assert failed.properties["replay"] == "samebits check norm --variant multiply"
    assert made.rows[2].message == "error, required bitwise; raised ValueError: no"


def test_seconds_of_a_point_count_once() -> None:
    two = outcomes(document(result(seconds=2.0), result(seconds=2.0, leaf="b"), result(mesh="data4")), NOWHERE)
    assert [row.seconds for row in two.rows] == [2.0, 0.0, 0.0]


def test_problems_are_rows() -> None:
    made = outcomes(document(result(), problems=(WRONG, WRONG, BROKEN)), NOWHERE)
    assert [(row.name, row.status) for row in made.rows[1:]] == [
        ("declaration", "error"),
        ("declaration 2", "error"),
        ("run", "error"),
    ]


@pytest.mark.parametrize(
    ("results", "problems", "more"),
    [
        ((), (), {}),
        ((result(verdict="skipped", ok=False),), (), {}),
        ((result(), result(verdict="skipped", ok=False)), (), {"no_skips": True}),
        ((result(),), (), {"interrupted": True}),
        ((result(),), (WRONG,), {}),
        ((different(),), (), {}),
        ((result(),), (), {}),
        ((result(), result(verdict="skipped", ok=False)), (), {}),
    ],
    ids=["nothing", "all skipped", "no skips", "interrupted", "problem", "failed", "held", "skipped"],
)
def test_rows_fail_exactly_where_the_exit_code_does(results: Any, problems: Any, more: Any) -> None:
    code = exit_code(results, problems, **more)
    found = replace(document(*results, problems=problems), no_skips=more.get("no_skips", False))
    made = outcomes(found, NOWHERE).ended_with(code)
    assert all(row.holds for row in made.rows) == (code == 0)


def test_a_skip_that_fails_the_run_is_an_error() -> None:
    found = replace(document(result(), result(verdict="skipped", ok=False, reason="too few devices")), no_skips=True)
    held, skipped = outcomes(found, NOWHERE).ended_with(3).rows
    assert (held.status, skipped.status) == ("passed", "error")
    assert skipped.message.endswith("too few devices; a skipped result fails the run (--no-skips)")


def test_proofs() -> None:
    where = {"pair": "norm", "variant": "v", "case": "small", "dtype": "float32", "mesh": "data1", "mode": "auto"}
    point: Any = {**where, "direction": "forward", "leaf": "out", "required": "bitwise"}
    proofs = (
        finding("prove", **point, verdict="proved", ok=True),
        finding(
            "prove",
            **point,
            verdict="different",
            ok=False,
            witness="out[3]: element 4 of x, not 5",
            replay="samebits prove n",
        ),
        finding("prove", **point, verdict="error", ok=False, reason="a Pallas kernel"),
    )
    found = ProofDocument(environment=ENVIRONMENT, results=proofs, problems=(WRONG,))
    made = outcomes(found, NOWHERE)
    assert statuses(made) == ["passed", "failed", "error", "error"]
    assert [row.verdict for row in made.rows] == ["proved", "refuted", "not proved", "not checked"]
    assert made.rows[1].message == "out: different, required bitwise; out[3]: element 4 of x, not 5"
    assert made.rows[1].details[0] == "norm/v, case small, float32, mesh data1 (auto), forward"
    assert made.rows[1].details[-1] == "  replay    samebits prove n"


def claim(holds: bool | None, ok: bool) -> ClaimResult:
    return ClaimResult(shows="VARIANT.temp_bytes <= 1", source="design.md", finding=None, holds=holds, ok=ok, got="2.0")


def test_claims_about_programs() -> None:
    side = SideBySide(
        pair="norm", variant="v", reference="r", case="real", dtype="bfloat16", mesh="data1", direction="forward",
        target="cpu", same_program=False, same_order=False, verdict=None, reason="another program", temp_ratio=2.0,
        peak_ratio=None, bytes_ratio=None, wire_ratio=None, operations={},
        expectations=(claim(True, True), claim(False, False), claim(None, False)),
    )  # fmt: skip
    summary = CompileSummary(
        programs=1, cached=0, comparisons=1, same_program=0, claims=3, failed=1, findings=0, unknown=1, seconds=1.0
    )
    compiled = CompileDocument(
        environment=ENVIRONMENT, results=(), comparisons=(side,), options=(), problems=(), notes=(), summary=summary
    )
    made = outcomes(compiled, NOWHERE)
    assert statuses(made) == ["passed", "passed", "failed", "error"], "the comparison, and each claim"
    assert made.rows[2].message == "VARIANT.temp_bytes <= 1: does not hold, required holds; got 2.0; design.md"


def test_rows_without_a_file_have_no_line(tmp_path: Path) -> None:
    assert DeclarationLines((), tmp_path).of("norm") is None


def test_a_command_with_words_of_its_own_is_read_too() -> None:
    """A fault that is not caught fails, one without an answer is an error; a problem that fails the run is no error."""
    fault = {"pair": "norm", "side": "fast", "fault": "off by one", "expected": "different"}
    rows = (
        blank(FaultRow, **fault, caught=True, honest=True, by="snapshot"),
        blank(FaultRow, **fault, caught=False, honest=True, said="all contracts hold"),
        blank(FaultRow, **fault, caught=False, error="its process ended"),
    )
    problems = (replace(WRONG, exit_code=1),)
    made = outcomes(blank(FaultTable, results=rows, problems=problems), NOWHERE)
    assert statuses(made) == ["passed", "failed", "error", "failed"]
    assert [row.verdict for row in made.rows] == [
        "caught by its snapshot",
        "not caught",
        "no answer",
        "not as declared",
    ]
    assert made.rows[1].message == "not caught, required different; all contracts hold"
    assert made.rows[1].details[0] == "norm/fast/off by one"


# --- JUnit -----------------------------------------------------------------------------------------------------------


SHAPE: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": ({"name"}, {"time", "tests", "failures", "errors", "skipped"}, ["testsuite"]),
    "testsuite": ({"name", "tests"}, {"failures", "errors", "skipped", "time"}, ["testcase"]),
    "testcase": ({"name", "classname"}, {"time"}, ["properties", "failure", "error", "skipped"]),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "failure": (set(), {"message", "type"}, []),
    "error": (set(), {"message", "type"}, []),
    "skipped": (set(), {"message", "type"}, []),
}
"""By element: the attributes that it must have, those that it may have, and its children, as in `junit-10.xsd`."""


def written(*results: Finding, problems: tuple[Problem, ...] = (), code: int = 0, suites: Path | None = None) -> str:
    made = outcomes(document(*results, problems=problems), DeclarationLines((), suites))
    return junit_xml(made.ended_with(code))


def require_shape(element: ElementTree.Element) -> None:
    must, may, children = SHAPE[element.tag]
    assert must <= set(element.attrib) <= must | may, element.attrib
    for child in element:
        assert child.tag in children, f"{child.tag} in {element.tag}"
        require_shape(child)


def test_it_is_of_the_published_shape_and_counts_right() -> None:
    error = result(verdict="error", ok=False, leaf="*", reason="raised", pair="rope")
    text = written(result(seconds=0.5), different(), error, result(verdict="skipped", ok=False), code=1)
    root = ElementTree.fromstring(text)
    require_shape(root)
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
    }
    norm, rope = root
    assert (norm.get("name"), norm.get("tests"), norm.get("skipped"), norm.get("time")) == ("norm", "3", "1", "0.5")
    assert (rope.get("name"), rope.get("errors")) == ("rope", "1")


def test_junitparser_reads_the_witness_and_the_replay(tmp_path: Path) -> None:
    (tmp_path / "test_norm.py").write_text('PAIR = Pair(name="norm")\n')
    file = tmp_path / "samebits.xml"
    file.write_text(written(result(), different(), code=1, suites=tmp_path), encoding="utf-8")
    (suite,) = JUnitXml.fromfile(str(file))
    good, bad = suite
    assert good.is_passed and not bad.is_passed
    (failure,) = bad.result
    assert failure.type == "different"
    assert "reference=6.4375 (0x40ce), multiply=6.375 (0x40cc)" in failure.message
    assert failure.text.splitlines()[-1] == "  replay    samebits check norm --variant multiply"
    properties = {item.name: item.value for item in TestCase.fromelem(bad).properties()}
    assert properties["verdict"] == "different" and properties["required"] == "bitwise"
    assert (properties["file"], properties["line"]) == (str(tmp_path / "test_norm.py"), "1")


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\ufffe", "\ud800", "<", "&", '"', "]]>", "\U0001f600"])
def test_any_character_is_legal_in_xml(sign: str) -> None:
    text = written(different(reason=f"a{sign}b", leaf=f"out['{sign}']"), code=1)
    root = ElementTree.fromstring(text.encode("utf-8"))
    failure = next(root.iter("failure"))
    escaped = sign if re.fullmatch(r"[<&\"\]>\U0001f600]+", sign) else sign.encode("unicode_escape").decode()
    assert f"a{escaped}b" in (failure.text or "")


def test_nothing_compared_is_an_error() -> None:
    root = ElementTree.fromstring(written(code=3))
    assert root.get("errors") == "1"
    error = next(root.iter("error"))
    assert error.get("message") == "samebits check ended with exit code 3: nothing was compared"


def test_a_wrong_declaration_is_an_error() -> None:
    root = ElementTree.fromstring(written(problems=(Problem(pair="rope", message="lacks a twin"),), code=2))
    (suite,) = root
    assert (suite.get("name"), suite.get("errors")) == ("rope", "1")


HERE = Path("/repository")


def read_back(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it (`ActionCommand.TryParseV2` of actions/runner)."""
    match = re.fullmatch(r"::(?P<level>\w+)(?: (?P<properties>.*?))?::(?P<message>.*)", line)
    assert match is not None, line
    pairs = [part.split("=", 1) for part in (match["properties"] or "").split(",") if part]
    return match["level"], {name: unescaped(value) for name, value in pairs}, unescaped(match["message"])


def unescaped(text: str) -> str:
    for code, sign in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def commands(*results: Finding, problems: tuple[Problem, ...] = (), suites: Path | None = None) -> list[str]:
    return workflow_commands(outcomes(document(*results, problems=problems), DeclarationLines((), suites)), HERE)


def test_every_special_character_survives() -> None:
    message = "100% of x[1, 2]: a::b\r\nsecond %0A line ::error::x"
    title = "50%: a, b\n::c"
    line = workflow_command("error", message, {"file": "a,b:c%.py", "line": 3, "title": title})
    assert "\n" not in line and "\r" not in line
    assert line.startswith("::error file=a%2Cb%3Ac%25.py,line=3,title=50%25%3A a%2C b%0A%3A%3Ac::100%25 of")
    assert read_back(line) == ("error", {"file": "a,b:c%.py", "line": "3", "title": title}, message)


def test_failures_of_one_cause_are_one_annotation(tmp_path: Path) -> None:
    """At the declaration of the smallest example; another cause has another one."""
    (tmp_path / "test_norm.py").write_text('\nPAIR = Pair(name="norm", cases=(\nCase(id="small"),))\n')
    one_cause = (
        different(case="large", devices=8),
        different(),
        different(leaf="b", devices=8),
        different(mesh="data4"),
    )
    error = result(verdict="error", ok=False, leaf="*", case="large", reason="raised RuntimeError: no kernel")
    results = (*one_cause, error, result())
    lines = workflow_commands(outcomes(document(*results), DeclarationLines((), tmp_path)), tmp_path)
    first, second = map(read_back, lines)
    assert first[:2] == (
        "error",
        {"file": "test_norm.py", "line": "3", "title": "samebits: norm/multiply, case small: different"},
    )
    text = first[2].splitlines()
    assert text[0] == "norm/multiply, case small, bfloat16, mesh data2 (auto), forward"
    assert text[1] == "  likely    not rounding: in float64 the sides still differ"
    assert "  witness   out['rows'][1, 2]: reference=6.4375 (0x40ce)" in text
    assert text[-2:] == [
        "  replay    samebits check norm --variant multiply",
        "and 3 more results of this cause: large, small; bfloat16; data2/4; forward",
    ]
    assert (second[1]["line"], second[1]["title"]) == ("2", "samebits: norm/multiply, case large: error")


def test_without_a_cause_a_variant_and_case_are_one_annotation() -> None:
    found = [
        judged("compile", Place(pair="norm", variant="fast", case=case, leaf=leaf), "different", ok=False, evidence="m")
        for case, leaf in (("a", "x"), ("a", "y"), ("b", "x"))
    ]
    rows = [OutcomeRow(finding=each, status=each.status) for each in found]
    lines = workflow_commands(Outcomes(command="compile", rows=tuple(rows), lines=DeclarationLines(())), HERE)
    assert [read_back(line)[2] for line in lines] == ["m\nand 1 more result of this variant and case", "m"]


def test_what_holds_has_no_annotation() -> None:
    assert commands(result(), result(verdict="skipped", ok=False)) == []


def test_a_wrong_declaration_is_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "test_rope.py").write_text("import gone\n")
    (line,) = commands(problems=(Problem(pair="rope", message="does not import"),), suites=tmp_path)
    level, properties, message = read_back(line)
    assert (level, properties["line"], message) == ("error", "1", "does not import")
    assert properties["title"] == "samebits: rope: not checked"


def test_nothing_compared_is_an_annotated_error() -> None:
    (line,) = workflow_commands(outcomes(document(), DeclarationLines(())).ended_with(3), HERE)
    assert read_back(line)[2] == "samebits check ended with exit code 3: nothing was compared"


def test_no_more_than_github_shows() -> None:
    def errors(count: int) -> Iterator[Finding]:
        return (result(verdict="error", ok=False, leaf="*", reason="no" + "x" * number) for number in range(count))

    lines = commands(*errors(MOST + 5))
    assert len(lines) == MOST
    assert read_back(lines[-1])[2] == "6 more annotations not shown: GitHub shows 10 per step; the report has all"
    assert len(commands(*errors(MOST))) == MOST
