"""JUnit XML, as continuous integration reads it: a suite per pair, a test case per result.

The format is that of Jenkins' `junit-10.xsd` with properties of test cases, which pytest's `xunit2` writes too. A file
and a line are properties, because that schema has no such attributes.
"""

from __future__ import annotations

from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite

from samebits.report.declaration_lines import DeclarationLines
from samebits.report.outcomes import OutcomeRow, Outcomes

_HEAD = '<?xml version="1.0" encoding="utf-8"?>'


def junit_xml(outcomes: Outcomes) -> str:
    """The rows as JUnit XML.

    Args:
        outcomes: of a command, its exit code included.
    """
    suites: dict[str, TestSuite] = {}
    for row in outcomes.rows:
        pair = row.finding.place.pair or row.finding.place.item
        suites.setdefault(pair, TestSuite(_legal(pair))).add_testcase(_case(row, outcomes.lines))
    document = JUnitXml(f"samebits {outcomes.command}")
    for suite in suites.values():
        document.add_testsuite(suite)
    document.update_statistics()
    return f"{_HEAD}\n{document.tostring().decode('utf-8')}\n"


def _case(row: OutcomeRow, lines: DeclarationLines) -> TestCase:
    place = row.finding.place
    classname = ".".join(filter(None, (place.pair or place.item, place.variant)))
    case = TestCase(_legal(row.name), classname=_legal(classname), time=row.seconds)
    kind = {"failed": Failure, "error": Error, "skipped": Skipped}.get(row.status)
    if kind is not None:
        outcome = kind(_legal(row.message), _legal(row.verdict))
        outcome.text = _legal("\n".join(row.details))
        case.result = [outcome]
    line = lines.of(place.pair, place.case)
    where = {} if line is None else {"file": str(line.file), "line": str(line.line)}
    for name, value in {**row.properties, **where}.items():
        case.add_property(name, _legal(value))
    return case


def _legal(text: str) -> str:
    """A text with the characters that XML 1.0 cannot hold written as Python escapes them."""
    return "".join(
        sign
        if sign in "\t\n\r" or " " <= sign <= "\ud7ff" or "\ue000" <= sign <= "\ufffd" or sign >= "\U00010000"
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
