"""Code that asks for the mesh is seen, also where caches answer it; code that does not is not suspected."""

import cProfile
import functools
import gc
import importlib
import math
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType

import jax
import jax.numpy as jnp
import pytest

from samebits import Arg, Case, Pair
from samebits.check.prove_points import prove_points
from samebits.host.isolation import undone
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.prove import mesh_queries as watching
from samebits.prove.mesh_queries import (
    Query,
    SideQueries,
    WatchedFunctions,
    conditions_of,
    mesh_queries,
    platform_of_process,
)
from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import ON_LINE

pytestmark = pytest.mark.usefixtures("whole_heap")
MESH = MeshSpec.parse("ring4").abstract("auto")


@functools.cache
def _devices() -> int:
    return int(jax.sharding.get_abstract_mesh().size)


@jax.jit
def _jitted(x: jax.Array) -> jax.Array:
    return x if jax.sharding.get_abstract_mesh().empty else -x


def _carried(x: jax.Array, _: None) -> tuple[jax.Array, None]:
    return _jitted(x), None


ASKING: dict[str, Callable[[jax.Array], jax.Array]] = {
    "mesh": lambda x: x if jax.sharding.get_abstract_mesh().empty else -x,
    "jit": _jitted,
    "functools.cache": lambda x: x * _devices(),
    "scan": lambda x: jax.lax.scan(_carried, x, None, length=3)[0],
    "cached property": lambda x: x * MESH.shape["ring"],
    "size of a mesh": lambda x: x * MESH.size,
    "axes of a type's mesh": lambda x: x * len(jax.typeof(x).sharding.mesh.axis_sizes),
    "mesh of a type": lambda x: x if jax.typeof(x).sharding.mesh.empty else -x,
    "devices": lambda x: x * len(jax.devices()),
    "device count": lambda x: x * jax.device_count(),
    "processes": lambda x: x * jax.process_count(),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ASKING)
def test_code_that_asks_is_seen_every_time(name: str) -> None:
    for _ in range(2):
        with mesh_queries() as places:
            traced(ASKING[name], ON_LINE)
        assert places
        assert all("test_mesh_queries.py:" in query.place for query in places)


def test_code_that_does_not_ask_is_not_suspected() -> None:
    with mesh_queries() as places:
        traced(lambda x: jnp.flip(jnp.where(x > 0, x, 1.0)) * 2, ON_LINE)
        traced(lambda x: jax.sharding.auto_axes(jnp.flip, out_sharding=jax.typeof(x).sharding)(x), ON_LINE)
    assert not places


def test_meshes_are_as_before_afterwards() -> None:
    before = dict(vars(jax.sharding.AbstractMesh)), dict(vars(jax.sharding.Mesh))
    with pytest.raises(ZeroDivisionError), mesh_queries():
        raise ZeroDivisionError
    assert (dict(vars(jax.sharding.AbstractMesh)), dict(vars(jax.sharding.Mesh))) == before
    assert MESH.axis_sizes == (4,)


def test_a_profiler_goes_on_where_it_was() -> None:
    """`cProfile` is no function that Python takes back: proofs under it ended with a TypeError."""
    profiler = cProfile.Profile()
    with profiler:
        with mesh_queries() as places:
            traced(ASKING["devices"], ON_LINE)
        math.hypot(3, 4)
    assert places
    assert any("hypot" in str(entry.code) for entry in profiler.getstats())


# Sides that ask about the process that traces them: no proof for another platform is made of what they say here.
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
            assert "test_mesh_queries.py:" in str(platform_of_process(queries, "tpu"))
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
    forget = watching._forget

    def counted() -> None:
        emptied.append(1)
        forget()

    monkeypatch.setattr(watching, "_forget", counted)
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


# Calls of functions of chosen files are noted, whoever imported them, and nothing is left behind.
SOURCE = """
import functools
from contextlib import contextmanager

def plain(a, b=2, *, c=3):
    return a, b, c

def _decorator(function):
    def inner(*args):
        return function(*args)
    return inner

@_decorator
def decorated(x):
    return x + 1

@functools.lru_cache
def cached(x):
    return x * 2

@contextmanager
def context():
    yield 5

class Base:
    def __init__(self, x):
        self.x = x

class Thing(Base):
    def __init__(self, x):
        super().__init__(x)

    @property
    def double(self):
        return 2 * self.x

    @functools.cached_property
    def triple(self):
        return 3 * self.x

    @staticmethod
    def static():
        return "static"

    @classmethod
    def of_class(cls):
        return cls.__name__
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module with functions of all kinds."""
    (tmp_path / "watched_example.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("watched_example")
    del sys.modules["watched_example"]


def names_noted(module: ModuleType, action: Callable[[], object]) -> tuple[object, list[str]]:
    """What an action returns, and which functions of a module are called meanwhile."""
    names: list[str] = []
    watched = WatchedFunctions({str(module.__file__)})
    with watched.noting(lambda _, function: names.append(function.__qualname__)):
        result = action()
    return result, names


@pytest.mark.parametrize(
    ("text", "expected", "names"),
    [
        ("m.plain(1)", (1, 2, 3), ["plain"]),
        ("m.plain(1, 5, c=7)", (1, 5, 7), ["plain"]),
        ("m.decorated(1)", 2, ["_decorator.<locals>.inner", "decorated"]),
        ("m.cached(4)", 8, ["cached"]),
        ("m.Thing(4).x", 4, ["Thing.__init__", "Base.__init__"]),
        ("m.Thing(4).double", 8, ["Thing.__init__", "Base.__init__", "Thing.double"]),
        ("m.Thing(4).triple", 12, ["Thing.__init__", "Base.__init__", "Thing.triple"]),
        ("m.Thing.static()", "static", ["Thing.static"]),
        ("m.Thing.of_class()", "Thing", ["Thing.of_class"]),
        ("m.context().__enter__()", 5, ["context"]),
    ],
)
def test_a_call_is_noted_and_does_the_same(module: ModuleType, text: str, expected: object, names: list[str]) -> None:
    result, noted = names_noted(module, functools.partial(eval, text, {"m": module}))
    assert result == expected and noted == names


def test_who_imported_a_function_before_is_noted(module: ModuleType) -> None:
    imported_before = module.plain
    assert names_noted(module, functools.partial(imported_before, 1)) == ((1, 2, 3), ["plain"])


def test_nothing_is_left_behind(module: ModuleType) -> None:
    before = {name: value.__code__ for name, value in vars(module).items() if isinstance(value, FunctionType)}
    names_noted(module, functools.partial(module.plain, 1))
    with pytest.raises(TypeError, match=r"plain\(\) missing 1 required positional argument"):
        names_noted(module, module.plain)
    assert before == {name: value.__code__ for name, value in vars(module).items() if isinstance(value, FunctionType)}


@pytest.mark.parametrize("is_same", [False, True], ids=["another", "the same"])
def test_a_watcher_inside_of_one_leaves_it_as_it_was(module: ModuleType, is_same: bool) -> None:
    names: list[str] = []
    first = WatchedFunctions({str(module.__file__)})
    second = first if is_same else WatchedFunctions({str(module.__file__)})
    with first.noting(lambda _, function: names.append(f"outer {function.__name__}")):
        with second.noting(lambda _, function: names.append(f"inner {function.__name__}")):
            assert module.plain(1) == (1, 2, 3)
        assert module.Thing.static() == "static"
    assert module.plain(1) == (1, 2, 3)
    assert names == ["inner plain", "outer static"]


def test_a_call_of_another_thread_does_the_same(module: ModuleType) -> None:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(module.plain(1)))

    def run() -> None:
        thread.start()
        thread.join()

    names_noted(module, run)
    assert results == [(1, 2, 3)]


def test_functions_that_tell_of_meshes_are_watched_though_frozen() -> None:
    gc.freeze()
    watched = WatchedFunctions(frozenset(watching._asked_by_file()))
    assert {"make_mesh", "device_count", "get_abstract_mesh"} <= {each.__name__ for each in watched._functions}
    assert gc.get_freeze_count()
