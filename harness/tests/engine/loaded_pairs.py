"""Loaded pairs with their plans, and the memory of a check of them in this environment."""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from samebits.engine.verdict_cache import VerdictCache
from samebits.host import process_sources
from samebits.host.entry_store import EntryStore
from samebits.host.environment import Environment, capture
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.schema.point import USUAL, Effort


@functools.cache
def environment() -> Environment:
    return capture()


@contextlib.contextmanager
def installed_once(*names: str) -> Iterator[None]:
    """Inside, keys have the digests of what is installed as it was at first: it takes most of the time of a key."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(process_sources, name, functools.cache(vars(process_sources)[name]))
        yield


def cache_of(
    trees: Iterable[Path] = (),
    pairs: Sequence[LoadedPair] = (),
    entries: EntryStore | None = None,
    *,
    effort: Effort = USUAL,
    here: Environment | None = None,
    fresh: bool = False,
) -> VerdictCache:
    """The memory of a check that begins now."""
    return VerdictCache(trees, here or environment(), effort, pairs, entries, fresh=fresh)


def loaded(locator: Locator, request: Request | None = None) -> LoadedPair:
    pair = load(locator)
    return LoadedPair(locator=locator, pair=pair, plan=plan(pair, request or Request(), 8))
