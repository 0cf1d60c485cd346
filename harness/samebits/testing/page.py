"""`pytest --report-html FILE`: the results of all pair tests, of all workers, as the page that `samebits check` writes.

Each test sends its results with its report, as JSON, so that those of a worker that crashes later are not lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.errors import RequestError
from samebits.host import environment
from samebits.host.environment import Environment
from samebits.programs.catalogue import Locator
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.report.any_document import join_heads
from samebits.report.check import Document, PairHead
from samebits.report.html.sections import page_of, section_of
from samebits.report.pair_heads import pair_head
from samebits.schema.finding import Finding, summarise
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.result import Verdict
from samebits.testing.distributed import GROUP


# The results of pair tests as text that travels with their reports, and as the document of one check.
@dataclass(frozen=True, kw_only=True)
class PointOfTest:
    """What one test contributes to the page."""

    head: PairHead
    environment: Environment | None
    results: tuple[Finding, ...]


def tested_text(pair: Pair, results: Sequence[Finding], *, devices: int, full: bool) -> str:
    """Write the results of a test as JSON."""
    ran = plan(pair, Request(full=full), devices)
    point = PointOfTest(
        head=pair_head(LoadedPair(locator=Locator(name=pair.name), pair=pair, plan=ran), results),
        environment=environment.capture() if environment.backend_started() else None,
        results=tuple(results),
    )
    return msgspec.json.encode(point).decode()


def tested_page(texts: Sequence[str], seconds: float) -> str:
    """Write the page of the results of all tests, that took so many seconds.

    Raises:
        RequestError: no test started jax, and it does not start here either.
    """
    points = [msgspec.json.decode(text, type=PointOfTest) for text in texts]
    heads = join_heads(point.head for point in points)
    results = [result for point in points for result in point.results]
    here = next((point.environment for point in points if point.environment is not None), None)
    document = Document(
        environment=here or environment.capture(),
        pairs=tuple(heads),
        results=tuple(results),
        problems=(),
        summary=summarise(
            results,
            selected=sum(head.selected for head in heads),
            product=sum(head.product for head in heads),
            seconds=seconds,
        ),
    )
    return page_of([section_of(document, "pytest")])


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
    """Add the option of the page."""
    group.addoption(
        OPTION, type=Path, metavar="FILE", help="write the results of all pair tests as one HTML file for a browser"
    )


def configure(config: pytest.Config) -> None:
    """Make ready to gather results, where a page was asked for."""
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
    """Retain the results of a test for the page, where there is to be one."""
    if _GATHERED not in item.config.stash:
        return
    from samebits.host.environment import asked_devices

    devices = item.config.getoption("--samebits-devices") or asked_devices()
    item.stash[_OWN] = tested_text(pair, results, devices=devices, full=item.config.getoption("--samebits-full"))


def gather_end(item: pytest.Item, pair: Pair, point: Point, ended: BaseException, replay: str) -> None:
    """Retain that a test ended without results: skipped, or with an error."""
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

    try:
        write_text(file, tested_page(texts, time.perf_counter() - config.stash[_BEGIN]))
    except (OSError, RequestError) as error:
        config.stash[_LINE] = f"{OPTION} {file}: could not be written: {getattr(error, 'strerror', None) or error}"
        return
    config.stash[_LINE] = f"{OPTION}: wrote {file}"


def line(config: pytest.Config) -> str | None:
    """Return what the terminal says of the page; None where none was asked for."""
    return config.stash.get(_LINE, None)
