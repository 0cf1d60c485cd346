"""Records that show themselves in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """A record with a view of its own: a notebook calls `_repr_html_` on what a cell ends with."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # By name and on demand: the templates stand above the records, and no command needs both.
        views: Any = import_module("samebits.report.html.notebook_records")
        return str(views.record_html(self))
