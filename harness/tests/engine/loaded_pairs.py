"""Loaded pairs with their plans, and the keys of this environment."""

from __future__ import annotations

import functools

from samebits.engine.verdict_keys import VerdictKeys
from samebits.host.environment import Environment, capture
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.schema.point import USUAL, Effort


@functools.cache
def environment() -> Environment:
    return capture()


def keys(effort: Effort = USUAL, here: Environment | None = None) -> VerdictKeys:
    return VerdictKeys(here or environment(), effort)


def loaded(locator: Locator, request: Request | None = None) -> LoadedPair:
    pair = load(locator)
    return LoadedPair(locator=locator, pair=pair, plan=plan(pair, request or Request(), 8))
