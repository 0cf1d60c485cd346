"""The verdict on a point does not depend on the process, the order, the other points or the state of caches."""

import contextlib
import gc
import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from samebits.check.run_points import run_points
from samebits.engine.run_work import EngineSettings
from samebits.engine.verdict_cache import sweep
from samebits.host import environment
from samebits.host.isolation import take_notes, undone
from samebits.programs.catalogue import Locator, load, names
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.finding import Finding
from tests.engine.law import Session, alone, pool, words
from tests.support.adversarial import made_anew, points_of, timeless
from tests.support.findings import value
from tests.support.forked import run_module
from tests.support.invoke import REPOSITORY

Event = tuple[str, int]
"""A point of the pool; a pair to forget; or a pair that is made, run and dropped, and its factor."""

FORGET, MAKE = "forget", "make anew"


@pytest.fixture(autouse=True)
def _no_notes() -> Iterator[None]:
    yield
    take_notes()


def _events() -> st.SearchStrategy[list[Event]]:
    point = st.sampled_from([(name, number) for name, (_, points) in pool().items() for number in range(len(points))])
    other = st.tuples(st.sampled_from([FORGET, MAKE]), st.integers(2, 4))
    return st.lists(st.one_of(point, point, point, other), min_size=4, max_size=8)


def _hold(events: list[Event]) -> None:
    session = Session()
    try:
        for what, number in events:
            if what == FORGET:
                for pair, _ in pool().values():
                    session.forget(pair)
            elif what == MAKE:
                made = made_anew(number)
                results = session.results(made, points_of(made)[-1])
                assert {one.ruling.verdict == "different" for one in results} == {number != 2}
                session.runners.clear()
                del made
                gc.collect()
            else:
                pair, points = pool()[what]
                assert session.results(pair, points[number]) == list(alone(what, number)), f"{what}: {points[number]}"
    finally:
        session.close()


@pytest.mark.slow
@settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(_events())
@example(
    [(MAKE, 3), (MAKE, 2), (MAKE, 4), ("changing", 1), ("changed_by_others", 1), ("callbacks", 5), ("callbacks", 3)]
)
def test_a_verdict_does_not_depend_on_what_ran_before_it(events: list[Event]) -> None:
    _hold(events)


def _of(pair: str, **where: str) -> list[Event]:
    """The points of a pair with these fields, in their order."""
    chosen = enumerate(pool()[pair][1])
    return [(pair, n) for n, point in chosen if all(getattr(point, name) == value for name, value in where.items())]


TOO_SMALL: dict[str, tuple[str, Any, Callable[[], list[Event]]]] = {
    "callbacks by their text": (
        "samebits.programs.program_cache.calls_python",
        lambda *_: False,
        lambda: _of("callbacks", variant="one_more"),
    ),
    "static arguments by repr": ("samebits.programs.sides.key_of", repr, lambda: _of("tables", variant="squared")),
    "functions by id": (
        "samebits.programs.sides.ByIdentity",
        lambda function: function.__name__,  # what an address used again comes to, every time
        lambda: [(MAKE, 2), (MAKE, 3)],
    ),
    "proofs without their inputs": (
        "samebits.prove.prover._digest",
        lambda _: "",
        lambda: _of("ties", variant="first", direction="gradient"),
    ),
    "outputs without their inputs": (
        "samebits.check.execution.digest_of",
        lambda *_: "",
        lambda: _of("by_mesh", variant="twice"),
    ),
    "what was changed stays": (
        "samebits.programs.program_cache.undone",
        lambda _: contextlib.nullcontext([]),
        lambda: [*_of("changing", variant="changed"), *_of("changed_by_others")],
    ),
}
"""By what would be wrong: the name that is replaced, by what, and points at which the law must see it."""


SLOWER = ("static arguments by repr", "proofs without their inputs", "outputs without their inputs")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOWER)) for one in TOO_SMALL])
def test_a_key_that_is_too_small_breaks_the_law(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, replacement, events = TOO_SMALL[fault]
    _hold(events())  # and finds what each point gets alone
    module, _, name = target.rpartition(".")
    monkeypatch.setattr(importlib.import_module(module), name, replacement)  # `samebits.check` itself is a function
    with undone("this test"), pytest.raises(AssertionError):
        _hold(events())


@pytest.mark.slow
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(_events())
def test_nor_does_it_in_many_more_orders(events: list[Event]) -> None:
    _hold(events)


@pytest.mark.parametrize("event", [("callbacks", 5)], ids=str)
def test_it_is_what_a_fresh_process_says(event: Event) -> None:
    """The others of the pool are compared with what they get with nothing before them in this process."""
    done = run_module("tests.engine.law", event[0], str(event[1]), cwd=REPOSITORY, variables={})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == words(alone(*event))


def _by_point(results: Any) -> dict[tuple[str, ...], Finding]:
    names = ("pair", "variant", "case", "dtype", "mesh", "mode", "direction", "leaf")
    return {tuple(value(one, name) for name in names): timeless(one) for one in results}


def _loaded(pairs: list[str]) -> list[LoadedPair]:
    platform = environment.devices_here()[0].platform
    found = [(Locator(name=name), load(Locator(name=name)).on(platform)) for name in pairs]
    return [LoadedPair(locator=locator, pair=pair, plan=plan(pair, Request(), 8)) for locator, pair in found]


def _shuffled(loaded: list[LoadedPair], seed: int) -> Iterator[Finding]:
    """The points of all pairs in one random order, in chunks that share their programs with all others."""
    chance, programs = random.Random(seed), Programs()
    chunks = []
    for item in loaded:
        points = list(item.plan.points)
        chance.shuffle(points)
        chunks += [(item, points[start : start + 12]) for start in range(0, len(points), 12)]
    chance.shuffle(chunks)
    try:
        for item, points in chunks:
            yield from run_points(item.pair, item.locator, points, programs)
    finally:
        programs.close()


def _problems(problem: Any) -> None:
    raise AssertionError(problem)


@pytest.mark.slow
def test_the_default_sweep_is_the_same_in_any_order_and_process() -> None:
    """In its own order by two worker processes, and shuffled in this one."""
    loaded = _loaded(names(REPOSITORY))
    ordered = _by_point(sweep(loaded, settings=EngineSettings(workers=2), on_problem=_problems))
    shuffled = _by_point(_shuffled(loaded, seed=1))
    assert ordered.keys() == shuffled.keys()
    assert [
        (key, shuffled[key].ruling.verdict, one.ruling.verdict) for key, one in ordered.items() if shuffled[key] != one
    ] == []
