"""Which path an event of Python's audit hook is about, and which paths need not be noted."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits.host import read_events
from samebits.host.cache_folder import CACHES, cache_root
from samebits.host.read_events import appends, caller, opened_by, path_of, readers_on, writes


@pytest.mark.parametrize(
    ("event", "arguments", "opened"),
    [
        ("open", ("a.txt", "r", 0), "a.txt"),
        ("import", ("a", "/a.so", [], [], []), "/a.so"),
        ("sqlite3.connect", ("file:/a%20b.db?mode=ro",), "/a b.db"),
        ("sqlite3.connect", ("/a.db",), "/a.db"),
        ("os.listdir", ("/folder",), "/folder"),
        ("pickle.find_class", (__name__, "x"), __file__),
        ("pickle.find_class", ("not.loaded", "x"), None),
    ],
)
def test_what_an_event_is_about(event: str, arguments: tuple[Any, ...], opened: str | None) -> None:
    assert opened_by(event, arguments) == opened


@pytest.mark.parametrize(
    "opened", [3, None, "/proc/cpuinfo", np.__file__, cache_root() / next(iter(CACHES)) / "entries"]
)
def test_what_need_not_be_noted(opened: Any) -> None:
    assert path_of(opened) is None


def test_a_compiled_module_stands_for_its_source(tmp_path: Path) -> None:
    cached = tmp_path / "__pycache__" / f"a.{sys.implementation.cache_tag}.pyc"
    assert path_of(cached) == str(tmp_path / "a.py")
    assert path_of(tmp_path / "a.pyc") == str(tmp_path / "a.pyc"), "one without a source"


@pytest.mark.parametrize(
    ("mode", "flags", "expected"),
    [
        ("r", 0, (False, False)),
        ("wb", 0, (True, False)),
        ("a", 0, (False, True)),
        ("r+", 0, (False, False)),
        (None, os.O_WRONLY | os.O_TRUNC, (True, False)),
        (None, os.O_WRONLY, (False, True)),
    ],
)
def test_how_a_file_is_opened(mode: str | None, flags: int, expected: tuple[bool, bool]) -> None:
    assert (writes(mode, flags), appends(mode, flags)) == expected


def test_the_callers_file_is_a_reader() -> None:
    assert str(Path(__file__).resolve()) in set(readers_on(caller(read_events.__file__)))
    readers: list[str] = []
    thread = threading.Thread(target=lambda: readers.extend(readers_on(sys._getframe().f_back)))
    thread.start()
    thread.join()
    assert readers == [], "a thread has Python's own frames alone"


def test_a_package_that_is_linked_into_the_installed_ones_counts(tmp_path: Path) -> None:
    """As a package under development is."""
    (tmp_path / "src" / "package").mkdir(parents=True)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "package").symlink_to(tmp_path / "src" / "package")
    path = tmp_path / "site-packages" / "package" / "table.json"
    assert path_of(path) == str(path)
    assert path_of(tmp_path / "site-packages" / "table.json") is None
