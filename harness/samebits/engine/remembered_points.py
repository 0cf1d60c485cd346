"""Which points of a sweep an earlier run has answered, and what of this run is remembered for the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from samebits.engine.verdict_cache import VerdictCache
from samebits.host.isolation import note
from samebits.programs.plan import LoadedPair
from samebits.schema.point import Point
from samebits.schema.result import Result


def recall_points(cache: VerdictCache, loaded: Sequence[LoadedPair]) -> tuple[list[Result], list[LoadedPair]]:
    """The results that are remembered, and the pairs with the points that have to run.

    Args:
        cache: what is remembered.
        loaded: pairs with their plans.
    """
    results, rest = [], []
    for item in loaded:
        missing = []
        for point in item.plan.points:
            key = cache.key(item, point)
            remembered = None if key is None else cache.recall(key)
            if remembered is None:
                missing.append(point)
                continue
            results += remembered.results()
            for remark in remembered.remarks:
                note(remark)
        if missing:
            rest.append(replace(item, plan=replace(item.plan, points=tuple(missing))))
    return results, rest


def remember_points(
    cache: VerdictCache, ran: Sequence[LoadedPair], results: Sequence[Result], remarks: Collection[str]
) -> None:
    """Remember the results of points that have run to their end.

    Args:
        cache: where.
        ran: pairs with the points that ran.
        results: theirs, and others.
        remarks: what the user was told meanwhile.
    """
    rows: dict[tuple[str, Point], list[msgspec.Raw]] = defaultdict(list)
    for result in results:
        if result.remembered is None:
            rows[result.pair, point_of(result)].append(msgspec.Raw(msgspec.json.encode(result)))
    for item in ran:
        own = [remark for remark in remarks if remark.startswith(f"pair '{item.pair.name}'")]
        for point in item.plan.points:
            key = cache.key(item, point)
            if key is not None:
                cache.remember(key, rows[item.pair.name, point], remarks=own)


def point_of(result: Result) -> Point:
    """The point of a result."""
    return Point(**{name: getattr(result, name) for name in Point.__slots__})
