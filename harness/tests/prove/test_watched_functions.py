"""Calls of functions of chosen files are noted, whoever imported them, and nothing is left behind."""

import functools
import gc
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from samebits.prove import mesh_queries
from samebits.prove.mesh_queries import WatchedFunctions

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
    watched = WatchedFunctions(frozenset(mesh_queries._asked_by_file()))
    assert {"make_mesh", "device_count", "get_abstract_mesh"} <= {each.__name__ for each in watched._functions}
    assert gc.get_freeze_count()
