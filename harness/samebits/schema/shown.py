"""Records that show themselves in a notebook."""

from __future__ import annotations

import sys
from typing import Any


class Shown:
    """A record with a view of its own: a notebook calls `_repr_html_` on what a cell ends with."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        # The templates stand above the records; what gives records to a notebook has loaded them.
        views: Any = sys.modules.get("samebits.report.html.notebook")
        return None if views is None else str(views.record_html(self))
