"""The bar of a running sweep: a point is an item, and those of one side cost alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console

from samebits.report.progress import ProgressBar
from samebits.schema.finding import Finding, Place


class CheckProgress:
    """The bar, as a context.

    Args:
        to: where it is drawn.
        totals: how many points each (pair, variant) has.
    """

    def __init__(self, to: Console, totals: Mapping[tuple[str, str], int]) -> None:
        self._bar = ProgressBar(to, "check", {"/".join(key): count for key, count in totals.items()})
        self._points: set[Place] = set()

    def __enter__(self) -> CheckProgress:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def add(self, result: Finding) -> None:
        """Count a result: the first of a point is the point, since all have its time."""
        r = result
        point = r.place.whole
        if point in self._points:
            return
        self._points.add(point)
        side = r.place.side()
        seconds = None if r.run.remembered is not None else r.seconds
        self._bar.add(side, seconds, words=f"{side}, {r.place.case}, {r.place.mesh}", failed=r.failed)
