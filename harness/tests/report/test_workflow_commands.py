"""Annotations of GitHub: escaped by GitHub's rules, read back as its runner reads them, capped, and never none."""

import re
from collections.abc import Iterator
from pathlib import Path

from samebits.report.continuous_integration import (
    MOST,
    OutcomeRow,
    Outcomes,
    outcomes,
    workflow_command,
    workflow_commands,
)
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.findings import judged
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem
from tests.support.documents import different, document, result

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


def test_nothing_compared_is_an_error() -> None:
    (line,) = workflow_commands(outcomes(document(), DeclarationLines(())).ended_with(3), HERE)
    assert read_back(line)[2] == "samebits check ended with exit code 3: nothing was compared"


def test_no_more_than_github_shows() -> None:
    def errors(count: int) -> Iterator[Finding]:
        return (result(verdict="error", ok=False, leaf="*", reason="no" + "x" * number) for number in range(count))

    lines = commands(*errors(MOST + 5))
    assert len(lines) == MOST
    assert read_back(lines[-1])[2] == "6 more annotations not shown: GitHub shows 10 per step; the report has all"
    assert len(commands(*errors(MOST))) == MOST
