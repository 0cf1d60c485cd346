"""The caches on a page: how large each is, and what is in it."""

from __future__ import annotations

from samebits.report.cache import CacheDocument, size_text
from samebits.report.html.render import render
from samebits.report.html.section import Section

HEADS = ["cache", "entries", "size", "from", "to", "removed", "holds", "folder"]


def cache_section(document: CacheDocument) -> Section:
    """The section of the caches.

    Args:
        document: of `samebits cache`.
    """
    rows = [
        [
            row.cache,
            row.entries,
            size_text(row.bytes),
            row.oldest or "–",  # noqa: RUF001  an en dash stands for nothing
            row.newest or "–",  # noqa: RUF001
            row.removed or "",
            row.holds,
            row.path,
        ]
        for row in sorted(document.results, key=lambda row: -row.bytes)
    ]
    return Section(
        command="cache",
        state="passed",
        headline=_headline(document),
        next_command=None,
        body=render("cache.html.j2", document=document, heads=HEADS, rows=rows),
    )


def _headline(document: CacheDocument) -> str:
    """What was removed, or what is there."""
    removed = sum(row.removed for row in document.results)
    if removed:
        return f"{removed} entries of the caches in {document.folder} were removed"
    size = size_text(sum(row.bytes for row in document.results))
    entries = sum(row.entries for row in document.results)
    largest = max(document.results, key=lambda row: row.bytes, default=None)
    most = f"; the largest is {largest.cache}, {size_text(largest.bytes)}" if largest and largest.bytes else ""
    return f"{entries} entries, {size} in {document.folder}{most}"
