"""The live table of a running sweep; nothing is printed where stdout is not a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from samebits.report.tally import SideTally
from samebits.schema.result import Result

PAUSE = 0.25
"""Seconds between two drawings; drawing more often costs more than it shows."""


class Progress:
    """The growing table, as a context.

    Args:
        to: where it is drawn.
        totals: how many points each (pair, variant) has, in the order of the rows.
    """

    def __init__(self, to: Console, totals: Mapping[tuple[str, str], int]) -> None:
        self._totals = totals
        self._rows = {key: SideTally(pair=key[0], variant=key[1]) for key in totals}
        self._points: dict[tuple[str, str], set[tuple[str, ...]]] = {key: set() for key in totals}
        self._drawn = 0.0
        self._live = Live(console=to, auto_refresh=False, transient=True) if to.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
            self._live.update(self._table(), refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, result: Result) -> None:
        """Count a result, and draw when it is time."""
        if self._live is None:
            return
        key = (result.pair, result.variant)
        self._rows[key].add(result)
        self._points[key].add((result.case, result.dtype, result.mesh, result.mode, result.direction))
        if time.monotonic() - self._drawn > PAUSE:
            self._drawn = time.monotonic()
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in ("pair", "variant", "done", "forward", "gradient", "failed"):
            table.add_column(name, justify="right" if name in ("done", "failed") else "left")
        for key, row in self._rows.items():
            done, total = len(self._points[key]), self._totals[key]
            style = "bold red" if row.failed else "green" if done == total else "dim" if not done else ""
            table.add_row(
                row.pair,
                row.variant,
                f"{done}/{total}",
                row.counts("forward"),
                row.counts("gradient"),
                str(row.failed or ""),
                style=style,
            )
        return table
