"""A journal gives back what was written, however it was cut; of another request it is rejected."""

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from samebits.engine.journal import (
    Journal,
    JournalHead,
    LineReader,
    decode_line,
    default_name,
    encode_line,
    read_journal,
)
from samebits.errors import RequestError
from samebits.host.cache_folder import cache_folder, clear
from samebits.host.written import Written

HEAD = JournalHead(command="check", request={"pairs": ["rope"]})
ROWS = (msgspec.Raw(b'{"verdict":"bitwise"}'), msgspec.Raw(b"{}"))


def _written(path: Path, count: int = 3) -> bytes:
    journal = Journal(path, HEAD, resume=False)
    for number in range(count):
        journal.add(f"item {number}", "sign", ROWS)
    journal.close(remove=False)
    return path.read_bytes()


def test_a_journal_comes_back(tmp_path: Path) -> None:
    _written(tmp_path / "j")
    text = read_journal(tmp_path / "j")
    assert text.head == HEAD and list(text.entries) == ["item 0", "item 1", "item 2"] and not text.damaged
    assert text.entries["item 1"].rows == ROWS and text.entries["item 1"].cache_key == "sign"


def test_every_cut_gives_a_prefix_and_goes_on(tmp_path: Path) -> None:
    whole, path = _written(tmp_path / "j"), tmp_path / "cut"
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        if b"\n" not in whole[:end] and end:
            with pytest.raises(RequestError, match="is not a journal of samebits"):
                read_journal(path)
            continue
        expected = max(whole[:end].count(b"\n") - 1, 0)
        assert len(read_journal(path).entries) == expected, end
        again = Journal(path, HEAD, resume=True)
        assert len(again.before.entries) == expected
        assert again.before.damaged == (not whole[:end].endswith(b"\n") and end > 0)
        again.add("more", None, ROWS)
        again.close(remove=False)
        assert list(read_journal(path).entries)[-1] == "more" and not read_journal(path).damaged


def test_a_run_that_goes_on_at_another_commit_says_so(tmp_path: Path) -> None:
    """What is found after it has this commit; what was found before may be of either."""
    at = {commit: replace(HEAD, written=Written(time="2026-01-01T00:00:00Z", commit=commit)) for commit in ("a", "b")}
    for number, commit in enumerate(("a", "a", "b")):
        journal = Journal(tmp_path / "j", at[commit], resume=number > 0)
        journal.add(f"item {number}", "sign", ROWS)
        journal.close(remove=False)
        text = read_journal(tmp_path / "j")
        assert text.head == at[commit] and text.continued == (("a", "b") if commit == "b" else ())
    assert list(text.entries) == ["item 0", "item 1", "item 2"]


def test_a_full_disk_is_said_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal(tmp_path / "j", HEAD, resume=False)
    journal.add("item 0", "sign", ROWS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        journal.add("item 1", "sign", ROWS)
        with pytest.raises(RequestError, match=r"journal .*/k: cannot be written: No space left on device"):
            Journal(tmp_path / "k", HEAD, resume=False)
    assert not (tmp_path / "k").exists(), "there is nothing to go on with"
    journal.add("item 2", "sign", ROWS)  # a line after a torn one would be lost with it
    journal.close(remove=False)
    assert journal.failed == "No space left on device"
    assert list(read_journal(tmp_path / "j").entries) == ["item 0"]


def test_a_damaged_line_costs_itself_alone(tmp_path: Path) -> None:
    lines = _written(tmp_path / "j").splitlines(keepends=True)
    lines[2] = lines[2].replace(b"bitwise", b"proved!")
    (tmp_path / "j").write_bytes(b"".join(lines))
    text = read_journal(tmp_path / "j")
    assert list(text.entries) == ["item 0", "item 2"] and text.damaged == 1


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (JournalHead(command="prove", request={"pairs": ["rope"]}), "command"),
        (JournalHead(command="check", request={"pairs": ["moe"]}), "request"),
        (JournalHead(command="check", request={"pairs": ["rope"]}, shard="1/2"), "shard"),
    ],
)
def test_the_journal_of_another_run_is_rejected(tmp_path: Path, other: JournalHead, what: str) -> None:
    before = _written(tmp_path / "j")
    with pytest.raises(RequestError, match=f"is of another {what}: .*ask for the same, or give --journal FILE"):
        Journal(tmp_path / "j", other, resume=True)
    assert (tmp_path / "j").read_bytes() == before, "what was there is lost"


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_of_something_else_is_rejected_and_stays(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "j").write_text("my notes\n")
    with pytest.raises(RequestError, match="is not a journal of samebits; give another file, or remove it"):
        Journal(tmp_path / "j", HEAD, resume=resume)
    assert (tmp_path / "j").read_text() == "my notes\n"


def test_two_runs_do_not_write_one_journal(tmp_path: Path) -> None:
    first = Journal(tmp_path / "j", HEAD, resume=False)
    with pytest.raises(RequestError, match="another run writes it; wait for its end, or give --journal FILE"):
        Journal(tmp_path / "j", HEAD, resume=False)
    first.close(remove=False)
    Journal(tmp_path / "j", HEAD, resume=False).close(remove=True)
    assert not (tmp_path / "j").exists()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(RequestError) as raised:
        Journal(tmp_path / "j", HEAD, resume=False)
    says = "cannot be locked: No locks available; give --journal FILE on a local disk"
    assert str(raised.value) == f"journal {tmp_path / 'j'}: {says}"


def test_names_tell_requests_apart() -> None:
    same, shard = (JournalHead(command="check", request={"pairs": ["rope"]}, shard=shard) for shard in (None, "1/2"))
    assert default_name(HEAD) == default_name(same) != default_name(shard)


def test_clearing_leaves_the_journal_of_a_run_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path))
    folder = cache_folder("journals")
    _written(folder / "ended")
    running = Journal(folder / "running", HEAD, resume=False)
    running.add("item 0", "sign", ROWS)
    assert clear("journals") == 1
    assert [path.name for path in folder.iterdir()] == ["running"]
    running.close(remove=False)
    assert clear("journals") == 1


def test_changes_of_an_earlier_run_are_not_forgotten(tmp_path: Path) -> None:
    """What a run of an edited tree found may be in the journal of one that went on without the edit."""
    at = Written(time="2026-01-01T00:00:00Z", commit="a")
    for number, dirty in enumerate((True, False)):
        head = replace(HEAD, written=replace(at, dirty=dirty))
        Journal(tmp_path / "j", head, resume=number > 0).close(remove=False)
        written = read_journal(tmp_path / "j").head
        assert written is not None and written.written == replace(at, dirty=True)


LINE = encode_line({"key": "rope", "rows": [1, 2]})


def test_a_line_comes_back() -> None:
    assert LINE.endswith(b"\n") and LINE.count(b"\n") == 1
    text = decode_line(LINE[:-1])
    assert text is not None and msgspec.json.decode(text) == {"key": "rope", "rows": [1, 2]}


@pytest.mark.parametrize("end", range(len(LINE) - 1))
def test_a_cut_line_is_none(end: int) -> None:
    assert decode_line(LINE[:end]) is None


@pytest.mark.parametrize("place", range(len(LINE) - 1))
def test_a_changed_byte_is_seen(place: int) -> None:
    changed = bytearray(LINE[:-1])
    changed[place] ^= 1
    assert decode_line(bytes(changed)) is None


def test_a_reader_gives_each_whole_line_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    reader = LineReader(path)
    assert reader.new() == []
    first, second = encode_line(1), encode_line(2)
    path.write_bytes(first + second[:5])
    assert reader.new() == [b"1"]
    path.write_bytes(first + second)
    assert reader.new() == [b"2"] and reader.new() == []


def test_a_reader_leaves_damaged_lines_out(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(encode_line(1) + b"00000000 2\n" + encode_line(3))
    reader = LineReader(path)
    assert reader.new() == [b"1", b"3"]
