"""Records that show themselves in a notebook."""

from __future__ import annotations

from samebits.rooms import NOTEBOOK, door


class Shown:
    """A record with a view of its own: a notebook calls `_repr_html_` on what a cell ends with."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(door(NOTEBOOK).record_html(self))
