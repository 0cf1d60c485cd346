"""Files at the end of a run: rejected before it begins where they cannot be written, and never written by half."""

import os
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.host.output_files import require_regular, require_reports, require_writable, write_text


def test_writing_replaces_whole_files_and_leaves_no_draft(tmp_path: Path) -> None:
    file, link = tmp_path / "r.json", tmp_path / "link.json"
    link.symlink_to(file)
    write_text(file, "old")
    write_text(link, "new")
    assert file.read_text() == "new" and link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "r.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_a_device_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_journal_is_no_device(tmp_path: Path) -> None:
    """Reading a pipe back would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/full")):
        with pytest.raises(RequestError, match=f"--journal {path}: is a device or a pipe, from which nothing"):
            require_regular("--journal", path)
    require_regular("--journal", None)
    require_regular("--journal", tmp_path / "new")


def test_what_cannot_be_written_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is a directory; give the name of a file"):
        require_writable("--json", tmp_path)
    with pytest.raises(RequestError, match="does not exist; create it first"):
        require_writable("--json", tmp_path / "missing" / "r.json")
    require_writable("--json", tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


def test_two_reports_in_one_file_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--json and --html both name"):
        require_reports({"--json": tmp_path / "r", "--html": tmp_path / "." / "r", "--markdown": None})


def test_a_document_is_not_overwritten_by_its_report(tmp_path: Path) -> None:
    document, link = tmp_path / "old.json", tmp_path / "link.json"
    document.write_text("{}")
    link.symlink_to(document)
    for path in (document, link):
        with pytest.raises(RequestError) as raised:
            require_reports({"--json": path}, [document])
        assert str(raised.value) == f"--json {path}: is one of the documents; give another file"
    require_reports({"--json": tmp_path / "new.json", "--html": None}, [document])
    with pytest.raises(RequestError, match="--json and --html both name /dev/stdout; give two files"):
        require_reports({"--json": Path("/dev/stdout"), "--html": Path("/dev/stdout")})
