"""`pytest --report-html FILE`: the results of all pair tests, of all workers, as the page that `samebits check` writes.

Each test sends its results with its report, as JSON, so that those of a worker that crashes later are not lost.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.check.verdict import without_leaves
from samebits.errors import RequestError
from samebits.host import environment
from samebits.host.environment import Environment
from samebits.host.output_files import require_writable, write_text
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
from samebits.testing.properties import PAGE_OPTION


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
    """Write the page of the results of all tests, that took so many seconds."""
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


_OWN = pytest.StashKey[str]()
"""Of a test: its results as JSON."""


class TestedPage:
    """The page of a run of pytest in which one is asked for; a plugin of its own."""

    ATTRIBUTE = "samebits_results"
    """The attribute of a test's report that has its results; xdist sends it to the process that reports."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._texts: list[str] = []
        self._begin = time.perf_counter()
        self._line = ""

    @classmethod
    def asked_for(cls, file: Path) -> TestedPage:
        """Make ready to gather results; a page that cannot be written ends the run."""
        try:
            require_writable(PAGE_OPTION, file)
        except RequestError as error:
            raise pytest.UsageError(str(error)) from None
        return cls(file)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Send the results of a test with its report."""
        report = yield
        if report.when == "call" and _OWN in item.stash:
            setattr(report, self.ATTRIBUTE, item.stash[_OWN])
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take the results of a test from its report, in the process that reports."""
        text = getattr(report, self.ATTRIBUTE, None)
        if text is not None:
            self._texts.append(text)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the page, in the process that reports."""
        config = session.config
        group = config.stash.get(GROUP, None)
        if hasattr(config, "workerinput") or (group is not None and group.number):
            return
        if not self._texts:
            self._line = f"{PAGE_OPTION} {self._file}: no pair test ran; nothing was written"
            return
        try:
            write_text(self._file, tested_page(self._texts, time.perf_counter() - self._begin))
            self._line = f"{PAGE_OPTION}: wrote {self._file}"
        except (OSError, RequestError) as error:
            reason = getattr(error, "strerror", None) or error
            self._line = f"{PAGE_OPTION} {self._file}: could not be written: {reason}"

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the page is."""
        if self._line:
            terminalreporter.write_line(f"samebits: {self._line}")


def gather(item: pytest.Item, pair: Pair, results: Sequence[Finding]) -> None:
    """Retain the results of a test for the page, where there is to be one."""
    if item.config.getoption(PAGE_OPTION) is None:
        return
    devices = item.config.getoption("--samebits-devices") or environment.asked_devices()
    item.stash[_OWN] = tested_text(pair, results, devices=devices, full=item.config.getoption("--samebits-full"))


def gather_end(item: pytest.Item, pair: Pair, point: Point, ended: BaseException, replay: str) -> None:
    """Retain that a test ended without results: skipped, or with an error."""
    if _OWN in item.stash:
        return
    verdict: Verdict = "skipped" if isinstance(ended, pytest.skip.Exception) else "error"
    gather(item, pair, [without_leaves(pair.name, point, verdict, str(ended).partition("\n")[0], replay)])
