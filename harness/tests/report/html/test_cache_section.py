"""The section of the caches."""

from __future__ import annotations

from samebits.host.caches import CacheRow
from samebits.report.cache import CacheDocument
from samebits.report.html.table_sections import cache_section
from tests.support.hostile import require_escaped

SMALL = CacheRow(cache="compiled", holds="programs", path="/c/compiled", entries=1, bytes=10)
LARGE = CacheRow(
    cache="verdicts", holds="results", path="/c/verdicts", entries=85, bytes=2_000_000, oldest="2026-01-01"
)


def cached(*rows: CacheRow) -> CacheDocument:
    return CacheDocument(folder="/c", limit="512MB", limit_from="the default", results=rows)


def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(cached(SMALL, LARGE))


def test_the_largest_cache_is_named() -> None:
    section = cache_section(cached(SMALL, LARGE))
    assert (section.state, section.next_command) == ("passed", None)
    assert section.headline == "86 entries, 2.0 MB in /c; the largest is verdicts, 2.0 MB"
    assert section.body.index("verdicts") < section.body.index("compiled")


def test_what_was_removed_is_counted() -> None:
    gone = CacheRow(cache="compiled", holds="programs", path="/c/compiled", entries=0, bytes=0, removed=7)
    assert cache_section(cached(gone)).headline == "7 entries of the caches in /c were removed"
    assert cache_section(cached()).headline == "0 entries, 0 bytes in /c"
