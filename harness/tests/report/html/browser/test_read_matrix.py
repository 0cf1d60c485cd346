"""A click on a cell of a matrix of what is read shows its equation, and a click on another one shows that instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from samebits.report.html import read_matrix
from samebits.schema.picture import ReadMatrix

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MATRIX = ReadMatrix(cells="o1x1\no2", place="add at model.py:7")
"""Output group 0 reads what it must not; group 1 reads what it may."""


def shown(chromium: Browser, cell: int) -> list[str]:
    """The sentences that are seen after a click on one cell and then on another one."""
    page = chromium.new_page()
    try:
        page.set_content(read_matrix.matrix_svg(MATRIX, "what is read"))
        for number in (0, cell):
            page.locator(".reads-matrix g rect").nth(number).click()
        return [text.text_content() or "" for text in page.locator("g text").all() if text.is_visible()]
    finally:
        page.close()


def test_a_click_names_the_equation(chromium: Browser) -> None:
    must_not = "output group 0 reads input group 1, which it must not, by add at model.py:7"
    assert shown(chromium, 1) == [must_not]
    assert shown(chromium, 2) == ["output group 1 reads input groups 0 to 1"]


def test_without_its_style_a_click_shows_nothing(chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_matrix, "STYLE", read_matrix.STYLE.replace("g:focus text", "g:hover u"))
    assert shown(chromium, 1) == []
