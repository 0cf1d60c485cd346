"""Signs of items change with whatever their results could depend on, and with nothing else."""

from pathlib import Path
from typing import Any

import pytest

from samebits.engine.drive import Done
from samebits.engine.source_signs import SourceSigns
from samebits.engine.work import Item
from samebits.host.file_reads import CHANGED, FILE, OUTSIDE
from tests.support.foreign import write_pair

ITEM = Item(key="a", pair="a", words="a", replay="", group=0, payload=None)


def _sign(tree: Path, request: str = "r") -> str:
    return SourceSigns(tree, {"request": request}).cache_key(ITEM)


def test_an_edit_anywhere_in_the_tree_is_another_sign(tmp_path: Path) -> None:
    """Of an implementation, and of a module that it may import; hidden and installed files do not count."""
    write_pair(tmp_path, "good")
    (tmp_path / "src").mkdir()
    module = tmp_path / "src" / "helper.py"
    module.write_text("FACTOR = 2\n")
    before = _sign(tmp_path)
    for folder in (".hidden", "site-packages", "venv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "other.py").write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert _sign(tmp_path) == before
    module.write_text("FACTOR = 3\n")
    edited = _sign(tmp_path)
    assert edited != before
    (tmp_path / "optimized_impls" / "good.py").write_text("def fast(x):\n    return x * 2\n")
    assert _sign(tmp_path) not in (before, edited)


def test_request_item_and_settings_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _sign(tmp_path)
    assert _sign(tmp_path) == before != _sign(tmp_path, "another")
    other = Item(key="b", pair="a", words="a", replay="", group=0, payload=None)
    assert SourceSigns(tmp_path, {"request": "r"}).cache_key(other) != before
    monkeypatch.setenv("XLA_FLAGS", "--xla_none=1")
    assert _sign(tmp_path) != before


def test_what_was_read_must_be_as_it_was(tmp_path: Path) -> None:
    """Data, but no source of the tree, which the cache key has."""
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "table").write_text("1")
    reads = tuple(f"{FILE}{tmp_path / name}" for name in ("helper.py", "table"))
    cache_keys = SourceSigns(tmp_path, {})
    done: Done[Any] = Done(ITEM, (), (), (*reads, f"{OUTSIDE}starts another program"))
    dependencies = cache_keys.dependencies(cache_keys.cache_key(ITEM), done)
    assert dependencies is not None and [read for read, _ in dependencies] == [reads[1]]
    assert SourceSigns(tmp_path, {}).holds(dependencies)
    (tmp_path / "table").write_text("2")
    assert not SourceSigns(tmp_path, {}).holds(dependencies)
    changed: Done[Any] = Done(ITEM, (), (), (f"{OUTSIDE}reads {tmp_path / 'table'}, which {CHANGED}",))
    assert cache_keys.dependencies(cache_keys.cache_key(ITEM), changed) is None


def test_nothing_is_remembered_between_runs(tmp_path: Path) -> None:
    """The journal alone has rows."""
    cache_keys = SourceSigns(tmp_path, {})
    assert cache_keys.recall(cache_keys.cache_key(ITEM)) is None
