"""Sides that ask about the process that traces them: no proof for another platform is made of what they say here."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import pytest

from samebits import Arg, Case, Pair
from samebits.check.prove_points import prove_points
from samebits.host.isolation import undone
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.prove import mesh_queries
from samebits.prove.mesh_queries import Query, SideQueries, conditions_of, platform_of_process
from samebits.schema.meshes import MeshSpec

pytestmark = pytest.mark.usefixtures("whole_heap")


def turned(x: jax.Array) -> jax.Array:
    return x[::-1]


@functools.cache
def _platform() -> str:
    return str(jax.devices()[0].platform)


def by_backend(x: jax.Array) -> jax.Array:
    return x if jax.default_backend() == "tpu" else x[::-1]


def by_cached_device(x: jax.Array) -> jax.Array:
    return x if _platform() == "tpu" else x[::-1]


def honest(x: jax.Array) -> jax.Array:
    result: jax.Array = jax.lax.platform_dependent(x, tpu=turned, default=lambda x: x)
    return result


PAIR = Pair(
    name="turned",
    reference=turned,
    variants={"by_backend": by_backend, "by_cached_device": by_cached_device, "honest": honest},
    args={"x": Arg(shape=("length",))},
    cases=(Case(id="small", sizes={"length": 4}),),
    dtypes=("float32",),
)


@pytest.fixture(params=["watched", "traced before"])
def queries_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], tuple[Query, ...]]]:
    """What a side asks in a direction, where its programs are traced for that, and where they were traced before."""
    site = Site(case=PAIR.cases[0], dtype="float32", mesh=MeshSpec.parse("none"), mode="auto", built=None)
    queries = SideQueries(PAIR)
    programs = Programs(threads=1, watch=queries.watch)
    sides = TracedSides(PAIR, programs)

    def of(direction: str, side: str) -> tuple[Query, ...]:
        if request.param == "traced before":
            sides.forward(side, site)
            sides.gradient(side, site)
        return queries.of(sides, direction, side, site)

    yield of
    queries.close()
    programs.close()


def test_queries_are_seen_also_behind_caches(queries_of: Callable[[str, str], tuple[Query, ...]]) -> None:
    for side, asks in (("by_backend", {"platform"}), ("by_cached_device", {"devices", "platform"})):
        for direction in ("gradient", "forward"):
            _platform()
            queries = queries_of(direction, side)
            assert {word for query in queries for word in query.asks} == asks
            assert "test_side_queries.py:" in str(platform_of_process(queries, "tpu"))
            assert platform_of_process(queries, "cpu") is None
            assert "the platform is cpu" in conditions_of(queries, "cpu")
    assert not queries_of("forward", "honest")


def test_answers_that_code_before_it_left_in_caches_are_dropped() -> None:
    """Also of code that ran unwatched between two programs that ask nothing."""
    site = Site(case=PAIR.cases[0], dtype="float32", mesh=MeshSpec.parse("none"), mode="auto", built=None)
    queries = SideQueries(PAIR)
    programs = Programs(threads=1, watch=queries.watch)
    sides = TracedSides(PAIR, programs)
    assert not queries.of(sides, "forward", "honest", site)
    with undone("code that nobody watches"):
        _platform()
    assert queries.of(sides, "forward", "by_cached_device", site)
    queries.close()
    programs.close()


def test_what_asks_nothing_empties_no_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emptying them takes a pass over all objects of the process, and what jax traced is traced again."""
    emptied: list[int] = []
    forget = mesh_queries._forget

    def counted() -> None:
        emptied.append(1)
        forget()

    monkeypatch.setattr(mesh_queries, "_forget", counted)
    site = Site(case=PAIR.cases[0], dtype="float32", mesh=MeshSpec.parse("none"), mode="auto", built=None)
    queries = SideQueries(PAIR)
    sides = TracedSides(PAIR, Programs(threads=1, watch=queries.watch))
    with undone("code that nobody watches"):
        pass
    for direction in ("forward", "gradient"):
        for side in ("turned", "honest"):
            assert not queries.of(sides, direction, side, site)
    assert len(emptied) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_what_asks_for_the_platform_is_proved_there_alone(platform: str) -> None:
    verdicts = {
        (row.place.variant, row.place.direction): row.ruling.verdict
        for row in prove_points(PAIR, Locator(name=PAIR.name), plan(PAIR, Request(full=True), 8), platform)
    }
    for direction in ("forward", "gradient"):
        asking = "proved" if platform == "cpu" else "error"
        assert verdicts["by_backend", direction] == verdicts["by_cached_device", direction] == asking
        assert verdicts["honest", direction] == ("different" if platform == "cpu" else "proved")


def _by_count(x: jax.Array) -> jax.Array:
    return x[::-1] if jax.device_count() <= 8 else x


def _by_count_wrong_here(x: jax.Array) -> jax.Array:
    return x if jax.device_count() <= 8 else x[::-1]


def _by_mesh(x: jax.Array) -> jax.Array:
    return x[::-1] if jax.sharding.get_abstract_mesh().size == 4 else x


@pytest.mark.slow
def test_the_devices_of_the_process_are_assumed_on_a_mesh() -> None:
    """What was proved on a mesh was the branch of the devices here."""
    pair = replace(
        PAIR,
        variants={"by_count": _by_count, "wrong_here": _by_count_wrong_here, "by_mesh": _by_mesh},
        args={"x": Arg(shape=("length",), spec=("ring",))},
        cases=(Case(id="small", sizes={"length": 16}),),
        meshes=("ring4",),
        gradients=False,
    )
    chosen = plan(pair, Request(full=True), 16)
    rows = {row.place.variant: row for row in prove_points(pair, Locator(name=pair.name), chosen, "cpu")}
    (assumed,) = [taken for taken in rows["by_count"].proof.assumptions if taken.word == "devices"]
    assert assumed.text.startswith(f"jax.device_count() is {jax.device_count()}, as asked at ")
    assert rows["wrong_here"].ruling.verdict == "error"
    assert rows["by_mesh"].ruling.verdict == "proved"
    assert not [taken for taken in rows["by_mesh"].proof.assumptions if taken.word == "devices"]
    strict = prove_points(pair, Locator(name=pair.name), chosen, "cpu", assuming=False)
    assert {row.place.variant: row.ruling.verdict for row in strict}["by_count"] == "error"
