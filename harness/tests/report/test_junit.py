"""JUnit XML: read back by an independent reader, of the published shape, and legal whatever a message holds."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser.xunit2 import JUnitXml, TestCase

from samebits.report.continuous_integration import junit_xml, outcomes
from samebits.report.declaration_lines import DeclarationLines
from samebits.schema.finding import Finding
from samebits.schema.result import Problem
from tests.support.documents import different, document, result

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
