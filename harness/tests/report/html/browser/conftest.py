"""One headless Chromium for all tests of this folder, which run one after another in one process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.report.html.browser.opened import Opened

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Programs of Linux distributions that are Chromium, or built from it."""

HERE = Path(__file__).parent
Opener = Callable[..., "Opened"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """The tests of this folder share a browser, so that one worker of xdist runs all of them."""
    if item.path.is_relative_to(HERE):
        item.add_marker(pytest.mark.xdist_group("report/html/browser/test_looks"))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's browser. It is closed before the tests of another folder: Playwright's event loop is in the way."""
    executable = next((path for name in NAMES if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on the PATH; Debian has it as the package chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it is in samebits[test]")
    pytest.importorskip(
        "axe_playwright_python", reason="axe-playwright-python is not installed; it is in samebits[test]"
    )
    with api.sync_playwright() as playwright:
        # Chromium's sandbox does not start for root, as in most containers.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser: Browser = playwright.chromium.launch(executable_path=executable, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def _windows() -> list[Opened]:
    """Windows that are open, each in a context of its own, for the reports that a test has open at the same time."""
    return []


@pytest.fixture
def opened(chromium: Browser, _windows: list[Opened], tmp_path: Path) -> Iterator[Opener]:
    """Opens a report; at the end of the test none may have asked the network or had an error.

    The fixture's value takes `html`, the text of a file, and by name `width` and `height` of the window in pixels,
    `scheme` (`light` or `dark`, as the system has it) and `address`, the part of it after `#`. Tests take the same
    windows one after the other, without what a page has stored: Chromium needs 0.2 s of processor time for a new one.
    """
    from tests.report.html.browser.opened import new_window

    pages: list[Opened] = []

    def open_report(
        html: str, *, width: int = 1280, height: int = 800, scheme: str = "light", address: str = ""
    ) -> Opened:
        path = tmp_path / f"report-{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        window = _windows.pop() if _windows else new_window(chromium)
        pages.append(window)
        window.as_new(width, height, scheme)
        window.page.goto(path.as_uri() + (f"#{address}" if address else ""))
        return window

    yield open_report
    problems = [problem for each in pages for problem in each.problems]
    for each in pages:
        if problems:  # a failing test may leave anything behind
            each.page.context.close()
        else:
            each.leave()
            _windows.append(each)
    assert problems == []
