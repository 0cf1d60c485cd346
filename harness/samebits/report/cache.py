"""The report of `samebits cache`: a line for each cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

from samebits.host.caches import CacheRow
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.words import plural

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheDocument:
    """What `samebits cache` shows.

    Args:
        folder: of all caches.
        limit: how large the remembered results may become, as it was written.
        limit_from: where it was written.
        results: one row for each cache.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["cache"] = "cache"
    folder: str
    limit: str
    limit_from: str
    results: tuple[CacheRow, ...]
    written: Written | None = None


def show_caches(to: Console, document: CacheDocument) -> None:
    """Where they are, and a line for each."""
    to.print(f"caches in {document.folder}", soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("cache", "entries", "size", "from", "to", "holds"):
        table.add_column(name, justify="right" if name in ("entries", "size") else "left", no_wrap=name != "holds")
    for row in document.results:
        table.add_row(
            row.cache, str(row.entries), size_text(row.bytes), row.oldest or "-", row.newest or "-", row.holds
        )
    to.print(table)
    to.print(f"limit of the verdicts: {document.limit} ({document.limit_from})", soft_wrap=True)


def show_removed(to: Console, document: CacheDocument) -> None:
    """What was removed."""
    for row in document.results:
        to.print(f"{row.cache}: {plural(row.removed, 'entry')} removed", soft_wrap=True)


def size_text(count: int) -> str:
    """A number of bytes for people: `1.3 MB`."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
