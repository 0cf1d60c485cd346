"""`samebits cache`: where the caches are, how large, and how to empty or limit them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from samebits.cli import options
from samebits.cli.declared import argument, option
from samebits.errors import RequestError
from samebits.host.cache_folder import CACHES

if TYPE_CHECKING:
    from samebits.cli.pipeline import CommandRun
    from samebits.report.cache import CacheDocument


@dataclass(frozen=True, kw_only=True)
class CacheOptions(options.JsonOption):
    """The options of `samebits cache`."""

    action: Annotated[Literal["show", "where", "clear", "limit"], argument()] = "show"
    size: Annotated[str | None, argument()] = None
    only: Annotated[tuple[str, ...], option("Only this cache; can be repeated.", choices=tuple(CACHES))] = ()
    older_than: Annotated[
        float | None, option("With clear: only entries unused for this many days.", "DAYS", least=0)
    ] = None


@options.command(CacheOptions)
def cache(chosen: CacheOptions) -> int:
    """Show the caches, empty them, or limit the remembered results of `samebits check`.

    \b
    samebits cache               show location, size and number of entries
    samebits cache where         print the folder; SAMEBITS_CACHE_DIR moves it
    samebits cache clear         empty all caches, or some with --only
    samebits cache limit 2GB     limit the remembered results; 0 remembers nothing

    Exit codes: 0 done, 2 the request is wrong.
    """  # noqa: D301 - click reads the backspace
    if chosen.size is not None and chosen.action != "limit":
        raise RequestError(f"samebits cache {chosen.action} takes no further word, got '{chosen.size}'")
    if chosen.older_than is not None and math.isnan(chosen.older_than):
        raise RequestError("--older-than nan: expected a number of days")
    if chosen.older_than is not None and chosen.action != "clear":
        raise RequestError(f"--older-than is for `samebits cache clear`, not for {chosen.action}")
    if chosen.only and chosen.action in ("where", "limit"):
        raise RequestError(f"--only is for `samebits cache show` and `clear`, not for {chosen.action}")
    return options.run("cache:manage_caches", chosen)


def manage_caches(chosen: CacheOptions, run: CommandRun) -> CacheDocument:
    """Show, clear or limit caches; of `where`, print the folder alone, for scripts."""
    from samebits.host.cache_folder import cache_root, cache_row, clear, limit, limit_text, set_limit
    from samebits.report.cache import CacheDocument

    if chosen.size is not None:
        set_limit(chosen.size)
    if chosen.action != "clear":  # which needs no limit, even where one was set wrongly
        limit()
    rows = [
        cache_row(name, clear(name, chosen.older_than) if chosen.action == "clear" else 0)
        for name in (chosen.only or CACHES if chosen.action != "where" else ())
    ]
    text, place = limit_text()
    document = CacheDocument(folder=str(cache_root()), limit=text, limit_from=place, results=tuple(rows))
    if chosen.action == "where":
        run.page = False
        run.console.print(document.folder, soft_wrap=True)
    return document
