"""Loaded pairs with their plans, and the keys of this environment."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.engine import verdict_keys
from samebits.engine.verdict_keys import VerdictKeys
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
            patch.setattr(verdict_keys, name, functools.cache(vars(verdict_keys)[name]))
        yield


def keys(*trees: Path, effort: Effort = USUAL, here: Environment | None = None) -> VerdictKeys:
    return VerdictKeys(here or environment(), effort, trees)


def loaded(locator: Locator, request: Request | None = None) -> LoadedPair:
    pair = load(locator)
    return LoadedPair(locator=locator, pair=pair, plan=plan(pair, request or Request(), 8))
