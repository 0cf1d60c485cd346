"""How long the loops of a program are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def longest_scan(jaxpr: Any) -> int:
    """The most steps of a loop in a program of concrete sizes, those of loops inside loops multiplied."""
    longest = 1
    for equation in jaxpr.eqns:
        inner = max((longest_scan(body) for body in _bodies(equation.params.values())), default=1)
        longest = max(longest, inner * (int(equation.params["length"]) if equation.primitive.name == "scan" else 1))
    return longest


def _bodies(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _bodies(value)
        elif hasattr(getattr(value, "jaxpr", value), "eqns"):
            yield getattr(value, "jaxpr", value)
