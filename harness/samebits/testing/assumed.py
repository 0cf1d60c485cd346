"""What passed under assumptions that other values could break, of all workers, as a section at the end of pytest.

Each test sends what it compared with its report, so that the counts of the workers of pytest-xdist add up.
"""

from __future__ import annotations

from typing import Any

import pytest

from samebits.functions.passed import REJECT_OPTION, REPORTING
from samebits.schema.assumption import passing_words

SHOW = "--samebits-assumptions"

ATTRIBUTE = "samebits_compared"
"""The attribute of a test's report that has its comparisons: the name, and each assumption by kind and as text."""


def add_options(group: pytest.OptionGroup) -> None:
    """The options about assumptions."""
    group.addoption(SHOW, action="store_true", help="list the assumptions under which comparisons passed, by test")
    group.addoption(
        REJECT_OPTION, action="store_true", help="accept no proof that assumes anything beyond shapes and rounding"
    )


def configure(config: pytest.Config) -> None:
    """Have the comparisons of this process noted down."""
    REPORTING.wanted, REPORTING.assuming = True, not config.getoption(REJECT_OPTION)


def unconfigure() -> None:
    """Leave the process as it was."""
    REPORTING.wanted, REPORTING.assuming = False, True
    REPORTING.take()


def attach(report: Any) -> None:
    """Send what was compared since the last report with this one."""
    compared = REPORTING.take()
    if compared:
        texts = [[name, [[each.word, str(each)] for each in assumptions]] for name, assumptions in compared]
        setattr(report, ATTRIBUTE, texts)


def summary(reporter: Any) -> None:
    """Write one line where comparisons passed under assumptions, and list these by test where that is asked for."""
    reports = [report for reports in reporter.stats.values() for report in reports]
    compared = [(report.nodeid, *each) for report in reports for each in getattr(report, ATTRIBUTE, ())]
    kinds = [[word for word, _ in assumptions] for _, _, assumptions in compared]
    text = passing_words(kinds, "comparisons passed")
    if text is None:
        return
    if not reporter.config.getoption(SHOW):
        reporter.write_line(f"samebits: {text}: `pytest {SHOW}` lists them")
        return
    reporter.section("samebits: assumptions")
    for test, name, assumptions in compared:
        if assumptions:
            reporter.write_line(f"{test}: {name}")
        for _, assumption in assumptions:
            reporter.write_line(f"  assumes {assumption}")
    reporter.write_line(f"{text}; `pytest {REJECT_OPTION}` accepts none")
