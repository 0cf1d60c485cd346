"""What passed under assumptions that other values could break, of all workers, as a section at the end of pytest.

Each test sends what it compared with its report, so that the counts of the workers of pytest-xdist add up.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from samebits.functions.passed import REJECT_OPTION, REPORTING

SHOW = "--samebits-assumptions"

ATTRIBUTE = "samebits_compared"
"""The attribute of a test's report that has its comparisons: the name, and each assumption by kind and as text."""

_GATHERED = pytest.StashKey[list[tuple[str, str, list[list[str]]]]]()
"""Of the process that reports: test, comparison, assumptions."""


def add_options(group: pytest.OptionGroup) -> None:
    """The options about assumptions."""
    group.addoption(SHOW, action="store_true", help="list the assumptions under which comparisons passed, by test")
    group.addoption(
        REJECT_OPTION, action="store_true", help="accept no proof that assumes anything beyond shapes and rounding"
    )


def configure(config: pytest.Config) -> None:
    """Have the comparisons of this process noted down."""
    REPORTING.wanted, REPORTING.assuming = True, not config.getoption(REJECT_OPTION)
    config.stash[_GATHERED] = []


def unconfigure() -> None:
    """Leave the process as it was."""
    REPORTING.wanted, REPORTING.assuming = False, True
    REPORTING.take()


def attach(report: Any) -> None:
    """Send what was compared since the last report with this one."""
    compared = REPORTING.take()
    if compared:
        texts = [[each.name, [[taken.word, str(taken)] for taken in each.assumptions]] for each in compared]
        setattr(report, ATTRIBUTE, texts)


def receive(config: pytest.Config, report: Any) -> None:
    """Take the comparisons of a test from its report, in the process that reports."""
    config.stash[_GATHERED] += [(report.nodeid, *each) for each in getattr(report, ATTRIBUTE, ())]


def summary(reporter: Any) -> None:
    """One line where comparisons passed under assumptions, and each of these by its test where that is asked for."""
    compared = reporter.config.stash.get(_GATHERED, [])
    assumed = [each for each in compared if each[2]]
    if not assumed:
        return
    kinds = Counter(word for _, _, taken in assumed for word in {word for word, _ in taken})
    listed = ", ".join(f"{word} {count}" for word, count in kinds.most_common())
    text = f"{len(assumed)} of {len(compared)} comparisons passed under assumptions that other values could break"
    if not reporter.config.getoption(SHOW):
        reporter.write_line(f"samebits: {text} ({listed}): `pytest {SHOW}` lists them")
        return
    reporter.section("samebits: assumptions")
    for test, name, taken in assumed:
        reporter.write_line(f"{test}: {name}")
        for _, assumption in taken:
            reporter.write_line(f"  assumes {assumption}")
    reporter.write_line(f"{text} ({listed}); `pytest {REJECT_OPTION}` accepts none")
