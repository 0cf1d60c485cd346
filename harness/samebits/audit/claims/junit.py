"""Which tests passed, from the file that pytest writes."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import ParseError

from junitparser import JUnitXml, JUnitXmlError

from samebits.errors import CouldNotRun


def passed_tests(file: Path) -> dict[str, bool]:
    """Test functions by name: whether every case of each ran and passed; one that was skipped did not.

    Args:
        file: as `pytest --junit-xml` writes it.

    Raises:
        CouldNotRun: the file cannot be read.
    """
    try:
        suites = JUnitXml.fromfile(str(file))
    except (OSError, ParseError, JUnitXmlError) as error:
        raise CouldNotRun(f"what pytest wrote cannot be read: {error}") from None
    passed: dict[str, bool] = {}
    for suite in suites:
        for case in suite:
            function = str(case.name).partition("[")[0]
            passed[function] = passed.get(function, True) and case.is_passed
    return passed
