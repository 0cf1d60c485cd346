"""A record without the reports is its text: IPython takes None for no HTML."""

from __future__ import annotations

import sys

import pytest

from samebits.schema.shown import Shown


def test_without_the_reports_there_is_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "samebits.report.html.notebook", raising=False)
    assert Shown()._repr_html_() is None


def test_it_takes_no_place_in_a_record() -> None:
    assert Shown.__slots__ == () and not hasattr(Shown(), "__dict__")
