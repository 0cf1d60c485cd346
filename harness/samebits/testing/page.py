"""`pytest --report-html FILE`: the results of all pair tests, of all workers, as the page that `samebits check` writes.

Each test sends its results with its report, as JSON, so that those of a worker that crashes later are not lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from samebits.errors import RequestError
from samebits.testing.distributed import GROUP

if TYPE_CHECKING:
    from samebits.schema.finding import Finding
    from samebits.schema.pair import Pair
    from samebits.schema.point import Point
    from samebits.schema.result import Verdict

OPTION = "--report-html"

ATTRIBUTE = "samebits_results"
"""The attribute of a test's report that has its results; xdist sends it to the process that reports."""

_OWN = pytest.StashKey[str]()
"""Of a test: its results as JSON."""

_GATHERED = pytest.StashKey[list[str]]()
"""Of the process that reports: the results of every test."""

_BEGIN = pytest.StashKey[float]()
_LINE = pytest.StashKey[str]()


def add_option(group: pytest.OptionGroup) -> None:
    """The option of the page."""
    group.addoption(
        OPTION, type=Path, metavar="FILE", help="write the results of all pair tests as one HTML file for a browser"
    )


def configure(config: pytest.Config) -> None:
    """Make ready to gather results, where a page was asked for.

    Raises:
        pytest.UsageError: the page cannot be written.
    """
    file = config.getoption(OPTION)
    if file is None:
        return
    from samebits.host.output_files import require_writable

    try:
        require_writable(OPTION, file)
    except RequestError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_GATHERED] = []
    config.stash[_BEGIN] = time.perf_counter()


def gather(item: pytest.Item, pair: Pair, results: Sequence[Finding]) -> None:
    """Retain the results of a test for the page, where there is to be one.

    Args:
        item: the test.
        pair: what it checks.
        results: what came out.
    """
    if _GATHERED not in item.config.stash:
        return
    from samebits.host.environment import asked_devices
    from samebits.testing.page_document import tested_text

    devices = item.config.getoption("--samebits-devices") or asked_devices()
    item.stash[_OWN] = tested_text(pair, results, devices=devices, full=item.config.getoption("--samebits-full"))


def gather_end(item: pytest.Item, pair: Pair, point: Point, ended: BaseException, replay: str) -> None:
    """Retain that a test ended without results: skipped, or with an error.

    Args:
        item: the test.
        pair: what it checks.
        point: where.
        ended: pytest's exception that skips or fails the test.
        replay: what shows it again.
    """
    if _OWN in item.stash or _GATHERED not in item.config.stash:
        return
    from samebits.check.verdict import without_leaves

    verdict: Verdict = "skipped" if isinstance(ended, pytest.skip.Exception) else "error"
    gather(item, pair, [without_leaves(pair.name, point, verdict, str(ended).partition("\n")[0], replay)])


def attach(item: pytest.Item, report: Any) -> None:
    """Send the results of a test with its report."""
    if report.when == "call" and _OWN in item.stash:
        setattr(report, ATTRIBUTE, item.stash[_OWN])


def receive(config: pytest.Config, report: Any) -> None:
    """Take the results of a test from its report, in the process that reports."""
    text = getattr(report, ATTRIBUTE, None)
    if text is not None and _GATHERED in config.stash:
        config.stash[_GATHERED].append(text)


def write(config: pytest.Config) -> None:
    """Write the page, in the process that reports."""
    group = config.stash.get(GROUP, None)
    if _GATHERED not in config.stash or hasattr(config, "workerinput") or (group is not None and group.number):
        return
    file = config.getoption(OPTION)
    texts = config.stash[_GATHERED]
    if not texts:
        config.stash[_LINE] = f"{OPTION} {file}: no pair test ran; nothing was written"
        return
    from samebits.host.output_files import write_text
    from samebits.testing.page_document import tested_page

    try:
        write_text(file, tested_page(texts, time.perf_counter() - config.stash[_BEGIN]))
    except (OSError, RequestError) as error:
        config.stash[_LINE] = f"{OPTION} {file}: could not be written: {getattr(error, 'strerror', None) or error}"
        return
    config.stash[_LINE] = f"{OPTION}: wrote {file}"


def line(config: pytest.Config) -> str | None:
    """What the terminal says of the page; None where none was asked for."""
    return config.stash.get(_LINE, None)
