"""Scans that are shown to be the same have one name, and note what that takes for granted whenever it is used."""

from types import SimpleNamespace
from typing import Any

import pytest

from samebits.sizes.places.facts import Fact
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import KnownLoops

FITS = Fact("not_negative", of(9) - variable("n"))


def _scan(name: str, length: int = 3, depth: int = 0) -> Any:
    evaluator = SimpleNamespace(assumed={})
    demand = SimpleNamespace(evaluator=evaluator, frame=SimpleNamespace(depth=depth))
    return SimpleNamespace(name=name, length=of(length), carries=1, demand=demand)


def test_the_first_of_the_same_gives_its_name() -> None:
    loops = KnownLoops()
    first, second, other = _scan("a"), _scan("b"), _scan("c")
    assert loops.name_of(first) == "a"  # before anything is compared
    loops.begin(lambda one, two: two.name == "b")
    assert [loops.name_of(scan) for scan in (first, other, second, second)] == ["a", "c", "a", "a"]
    assert loops.shared
    loops.begin(lambda one, two: False)
    assert loops.name_of(second) == "b"
    assert not loops.shared


def test_loops_of_other_lengths_or_depths_are_not_compared() -> None:
    loops = KnownLoops()
    loops.begin(lambda one, two: pytest.fail("they are not of one form"))
    for scan in (_scan("a"), _scan("b", length=4), _scan("c", depth=1)):
        assert loops.name_of(scan) == scan.name


def test_what_is_assumed_for_it_is_noted_at_every_use() -> None:
    def alike(one: Any, two: Any) -> bool:
        two.demand.evaluator.assumed[FITS] = None
        return True

    loops, first, second = KnownLoops(), _scan("a"), _scan("b")
    loops.begin(alike)
    loops.name_of(first)
    for _ in range(2):
        assert loops.name_of(second) == "a"
        assert FITS in second.demand.evaluator.assumed
        second.demand.evaluator.assumed = {}


def test_a_loop_inside_of_its_own_comparison_keeps_its_name() -> None:
    loops, first, second = KnownLoops(), _scan("a"), _scan("b")
    seen: list[str] = []

    def alike(one: Any, two: Any) -> bool:
        seen.append(loops.name_of(two))
        return True

    loops.begin(alike)
    assert [loops.name_of(first), loops.name_of(second)] == ["a", "a"]
    assert seen == ["b"]
