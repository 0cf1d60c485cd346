"""The document of `samebits cache`, and its page: a line for each cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samebits.host.cache_folder import CacheRow
from samebits.report.document import CommandDocument
from samebits.report.page import Page, Table, ValueList
from samebits.report.words import plural

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheDocument(CommandDocument):
    """What `samebits cache` shows.

    Args:
        folder: of all caches.
        limit: how large the remembered results may become, as it was written.
        limit_from: where it was written.
        results: one row for each cache.
    """

    command: Literal["cache"] = "cache"
    folder: str
    limit: str
    limit_from: str
    results: tuple[CacheRow, ...]

    def page(self) -> Page:
        """Return where the caches are, how large they may become, and a row for each, the largest first."""
        removed = any(row.removed for row in self.results)
        rows = [
            [
                row.cache,
                str(row.entries),
                size_text(row.bytes),
                row.oldest or "-",
                row.newest or "-",
                *([str(row.removed)] if removed else []),
                row.holds,
            ]
            for row in sorted(self.results, key=lambda row: -row.bytes)
        ]
        table = Table(
            heads=("cache", "entries", "size", "from", "to", *(["removed"] if removed else []), "holds"),
            rows=rows,
            caption="The caches, the largest first",
            right=("entries", "size", "removed"),
            wide=("holds",),
        )
        limit = f"{self.limit} ({self.limit_from})"
        return Page(
            command="cache",
            state="passed",
            closing=_closing(self),
            blocks=[ValueList(rows=[("caches in", self.folder), ("limit of the verdicts", limit)]), table],
        )


def _closing(document: CacheDocument) -> str:
    removed = sum(row.removed for row in document.results)
    if removed:
        return f"{plural(removed, 'entry')} of the caches in {document.folder} removed"
    size = size_text(sum(row.bytes for row in document.results))
    entries = plural(sum(row.entries for row in document.results), "entry")
    largest = max(document.results, key=lambda row: row.bytes, default=None)
    most = f"; the largest is {largest.cache}, {size_text(largest.bytes)}" if largest and largest.bytes else ""
    return f"{entries}, {size} in {document.folder}{most}"


def size_text(count: int) -> str:
    """Return a number of bytes for people: `1.3 MB`."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
