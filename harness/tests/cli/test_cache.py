"""`samebits cache`: where, how large, clear, limit."""

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.host.cache_folder import CACHES, cache_folder
from samebits.host.entry_store import EntryStore
from tests.support.invoke import samebits


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "caches"))
    monkeypatch.delenv("SAMEBITS_CACHE_LIMIT")
    return tmp_path / "caches"


def fill() -> None:
    store = EntryStore(cache_folder("verdicts"))
    store.put("a", b"x" * 100)
    store.put("b", b"y" * 100)
    store.close()
    compiled = cache_folder("compiled")
    compiled.mkdir()
    for name, days in (("old", 40), ("new", 0)):
        (compiled / name).write_bytes(b"z" * 5000)
        os.utime(compiled / name, (time.time() - days * 86400,) * 2)
    environment = cache_folder("toolchains") / "abc" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").write_bytes(b"p" * 1000)


def rows(tmp_path: Path, *words: str) -> dict[str, dict[str, object]]:
    ended = samebits("cache", *words, "--json", tmp_path / "cache.json")
    assert ended.code == 0, ended
    document = json.loads((tmp_path / "cache.json").read_text())
    assert (document["schema"], document["command"]) == ("samebits/2", "cache")
    return {row["cache"]: row for row in document["results"]}


def test_where_they_are(folder: Path) -> None:
    ended = samebits("cache", "where")
    assert (ended.code, ended.out) == (0, f"{folder}\n")
    assert not folder.exists()


def test_the_help_has_a_line_for_each_form() -> None:
    lines = [line.strip() for line in samebits("cache", "--help").out.splitlines()]
    forms = [line.partition("  ")[0] for line in lines if line.startswith("samebits cache")]
    assert forms == ["samebits cache", "samebits cache where", "samebits cache clear", "samebits cache limit 2GB"]


def test_what_is_in_them(folder: Path, tmp_path: Path) -> None:
    assert {row["entries"] for row in rows(tmp_path).values()} == {0}
    assert not folder.exists()
    fill()
    shown = rows(tmp_path)
    assert list(shown) == list(CACHES)
    assert [shown[name]["entries"] for name in ("verdicts", "compiled", "toolchains", "steps")] == [2, 2, 1, 0]
    assert [shown[name]["bytes"] for name in ("compiled", "toolchains", "steps")] == [10_000, 1000, 0]
    assert shown["verdicts"]["newest"] == time.strftime("%Y-%m-%d", time.gmtime())
    ended = samebits("cache")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert lines[:2] == [f"caches in {folder}", "limit of the verdicts 512MB (the default)"]
    assert any(line.startswith("compiled 2 10.0 kB ") for line in lines)


def test_some_are_cleared(tmp_path: Path) -> None:
    fill()
    cleared = rows(tmp_path, "clear", "--only", "compiled", "--older-than", "30")
    assert {name: (row["removed"], row["entries"]) for name, row in cleared.items()} == {"compiled": (1, 1)}
    assert rows(tmp_path)["verdicts"]["entries"] == 2
    last = samebits("cache", "clear", "--only", "verdicts").out.splitlines()[-1]
    assert last.startswith("2 entries of the caches in ") and last.endswith(" removed")
    assert rows(tmp_path)["verdicts"]["entries"] == 0


def test_all_are_cleared(folder: Path, tmp_path: Path) -> None:
    fill()
    cleared = rows(tmp_path, "clear")
    assert {row["removed"] for row in cleared.values()} == {0, 1, 2}
    assert {row["entries"] for row in rows(tmp_path).values()} == {0}
    assert not (folder / "toolchains" / "abc").exists()


def test_the_limit_is_retained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert samebits("cache", "limit", "1.5 GB").code == 0
    assert f"limit of the verdicts  1.5 GB ({folder}/limit.txt)" in samebits("cache", "limit").out
    monkeypatch.setenv("SAMEBITS_CACHE_LIMIT", "0")
    assert "limit of the verdicts  0 (SAMEBITS_CACHE_LIMIT)\n" in samebits("cache").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("where", "now"), "samebits cache where takes no further word, got 'now'"),
        (("show", "--older-than", "3"), "--older-than is for `samebits cache clear`, not for show"),
        (("limit", "--only", "steps"), "--only is for `samebits cache show` and `clear`, not for limit"),
        (
            ("limit", "twelve"),
            "samebits cache limit: 'twelve' is not a size; expected 0, or a number with a unit, such as 500MB",
        ),
        (
            ("limit", "12"),
            "samebits cache limit: '12' is not a size; expected 0, or a number with a unit, such as 500MB",
        ),
    ],
)
def test_wrong_requests(words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = samebits("cache", *words)
    assert (ended.code, ended.lines) == (2, [f"samebits: {message}"])


def test_a_full_disk_leaves_the_limit_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert samebits("cache", "limit", "3MB").code == 0

    def full(path: Path, text: str, **how: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        ended = samebits("cache", "limit", "1GB")
    says = f"samebits: {folder / 'limit.txt'}: cannot be written: No space left on device"
    assert (ended.code, ended.lines) == (2, [says])
    assert (folder / "limit.txt").read_text() == "3MB\n"


@pytest.mark.parametrize("text", ["", "much"])
def test_clearing_needs_no_limit(text: str, folder: Path) -> None:
    folder.mkdir()
    (folder / "limit.txt").write_text(text)
    assert samebits("cache", "clear").code == 0
    (folder / "limit.txt").write_text(text)
    assert samebits("cache").code == (2 if text else 0)


def test_a_wrong_limit_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_LIMIT", "-1MB")
    ended = samebits("cache")
    assert ended.code == 2
    assert ended.lines == [
        "samebits: SAMEBITS_CACHE_LIMIT: '-1MB' is not a size; expected 0, or a number with a unit, such as 500MB"
    ]


def test_an_entry_that_cannot_be_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill()

    def denied(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", denied)
    ended = samebits("cache", "clear", "--only", "compiled")
    assert (ended.code, ended.lines) == (
        2,
        [f"samebits: {folder}/compiled/new: cannot be removed: Permission denied"],
    )


@pytest.mark.parametrize("words", [(), ("clear",)])
def test_a_cache_that_cannot_be_read(words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not empty."""
    fill()
    listed = Path.iterdir

    def denied(path: Path) -> Iterator[Path]:
        if path == folder / "compiled":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", denied)
    ended = samebits("cache", *words)
    assert (ended.code, ended.lines) == (2, [f"samebits: {folder / 'compiled'}: cannot be read: Permission denied"])


def test_permissions_that_nobody_expected_are_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(name: str, removed: int = 0) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"/elsewhere/{name}")

    monkeypatch.setattr("samebits.host.cache_folder.cache_row", denied)
    ended = samebits("cache")
    line = "samebits: /elsewhere/verdicts: Permission denied; make it readable and writable for this user"
    assert (ended.code, ended.lines) == (3, [line])
