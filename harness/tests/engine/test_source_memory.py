"""Keys of items change with whatever their results could depend on, and with nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.engine.drive import Done
from samebits.engine.run_work import SourceMemory
from samebits.engine.work import Item
from samebits.host.file_reads import FILE, MEANWHILE, OUTSIDE
from tests.host.reading import reads_of
from tests.support.foreign import write_pair

ITEM = Item(key="a", pair="a", words="a", replay="", group=0, payload=None)


def _key(tree: Path, request: str = "r") -> str:
    return SourceMemory([tree], {"request": request}).cache_key(ITEM)


def test_an_edit_anywhere_in_the_tree_is_another_key(tmp_path: Path) -> None:
    """Of an implementation, and of a module that it may import; hidden and installed files do not count."""
    write_pair(tmp_path, "good")
    (tmp_path / "src").mkdir()
    module = tmp_path / "src" / "helper.py"
    module.write_text("FACTOR = 2\n")
    before = _key(tmp_path)
    for folder in (".hidden", "site-packages", "venv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "other.py").write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert _key(tmp_path) == before
    module.write_text("FACTOR = 3\n")
    edited = _key(tmp_path)
    assert edited != before
    (tmp_path / "optimized_impls" / "good.py").write_text("def fast(x):\n    return x * 2\n")
    assert _key(tmp_path) not in (before, edited)


def test_request_item_and_settings_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _key(tmp_path)
    assert _key(tmp_path) == before != _key(tmp_path, "another")
    other = Item(key="b", pair="a", words="a", replay="", group=0, payload=None)
    assert SourceMemory([tmp_path], {"request": "r"}).cache_key(other) != before
    monkeypatch.setenv("XLA_FLAGS", "--xla_none=1")
    assert _key(tmp_path) != before


def test_what_was_read_must_be_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data, but no source of the tree, which the cache key has."""
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "table").write_text("1")
    reads_of(monkeypatch)
    reads = tuple(f"{FILE}{tmp_path / name}" for name in ("helper.py", "table"))
    memory = SourceMemory([tmp_path], {})
    done: Done[Any] = Done(ITEM, (), (), (*reads, f"{OUTSIDE}starts another program"))
    dependencies = memory.remember(memory.cache_key(ITEM), done)
    assert dependencies is not None and reads[1] in dict(dependencies) and reads[0] not in dict(dependencies)
    assert not any(read.startswith(OUTSIDE) for read, _ in dependencies)
    removed = replace(done, reads=(f"{OUTSIDE}reads {tmp_path / 'table'}, which {MEANWHILE}",))
    assert memory.remember(memory.cache_key(ITEM), removed) is None
    assert SourceMemory([tmp_path], {}).holds(dependencies)
    (tmp_path / "table").write_text("2")
    assert not SourceMemory([tmp_path], {}).holds(dependencies)
    assert memory.remember(memory.cache_key(ITEM), done) is None, "it changed while it ran"


def test_nothing_is_remembered_between_runs(tmp_path: Path) -> None:
    """The journal alone has rows."""
    memory = SourceMemory([tmp_path], {})
    assert memory.recall(ITEM, memory.cache_key(ITEM)) is None
