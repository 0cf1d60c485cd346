"""Whether a process has room for more machine code."""

from pathlib import Path

import pytest

from samebits.programs import program_cache


def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mappings: int, most: str) -> None:
    """A system with so many memory mappings of this process, and so many permitted."""
    for name, text in (("_MAPPINGS", "7f00-7f01 r-xp\n" * mappings), ("_MOST", most)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(program_cache, name, tmp_path / name)


@pytest.mark.parametrize(("mappings", "crowded"), [(50, False), (51, True)])
def test_half_of_the_mappings_are_for_machine_code(
    mappings: int, crowded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(tmp_path, monkeypatch, mappings, "100\n")
    assert program_cache.is_crowded() is crowded


def test_a_system_that_says_nothing_is_not_crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system(tmp_path, monkeypatch, 51, "unlimited\n")
    assert not program_cache.is_crowded()
    monkeypatch.setattr(program_cache, "_MOST", tmp_path / "missing")
    assert not program_cache.is_crowded()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts memory mappings as Linux lists them")
def test_this_process_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not program_cache.is_crowded()
    monkeypatch.setattr(program_cache, "SHARE", 0.0)
    assert program_cache.is_crowded()
