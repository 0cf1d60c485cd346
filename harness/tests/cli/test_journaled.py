"""Where the journal of a command lies, when it is removed, and that two runs of one request have two."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import journaled
from samebits.engine.journal import JournalHead, default_name, encode_line
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError

HEAD = JournalHead(command="check", request={"pairs": ["rope"]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of journals."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path))
    return tmp_path / "journals"


def _run() -> CommandRun:
    return CommandRun(Console(quiet=True))


def _interrupted() -> None:
    with journaled(_run(), EngineSettings(), HEAD) as journal:
        assert journal is not None
        journal.add("item", "sign", ())
        raise KeyboardInterrupt


def test_a_complete_run_leaves_nothing(folder: Path) -> None:
    with journaled(_run(), EngineSettings(), HEAD) as journal:
        assert journal is not None and journal.path == folder / default_name(HEAD)
        journal.add("item", "sign", ())
    assert list(folder.iterdir()) == []


def test_an_interrupted_run_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    assert f"every result so far is in {folder / default_name(HEAD)}; the same command" in capsys.readouterr().err
    again = _run()
    with journaled(again, EngineSettings(resume=True), HEAD) as journal:
        assert journal is not None and list(journal.before.entries) == ["item"]
        journal.taken += 1  # as `run_work` does, where the sign of the item is the same
    assert again.notes == ["resumed: 1 items are in the journal of the interrupted run"]


def test_what_ran_again_is_not_said_to_be_resumed(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    again = _run()
    with journaled(again, EngineSettings(resume=True), HEAD):
        pass
    (told,) = again.notes
    assert told == (
        "resumed: 0 of the 1 items in the journal of the interrupted run count; the others run again: their process "
        "ended, or what they depend on has changed or cannot be compared"
    )


def test_nothing_to_resume_is_said(folder: Path) -> None:
    run = _run()
    with journaled(run, EngineSettings(resume=True), HEAD):
        pass
    assert run.notes == ["--resume: no run of this request was interrupted; it began anew"]


@pytest.mark.parametrize("resume", [True, False])
def test_a_journal_with_a_torn_head_begins_anew(folder: Path, resume: bool) -> None:
    folder.mkdir()
    (folder / default_name(HEAD)).write_bytes(b"0123abcd {")
    with journaled(_run(), EngineSettings(resume=resume), HEAD) as journal:
        assert journal is not None and journal.path.name == default_name(HEAD) and not journal.before.entries


@pytest.mark.parametrize("resume", [True, False])
def test_the_journal_of_another_version_is_not_lost(folder: Path, resume: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    path = folder / default_name(HEAD)
    other = encode_line({"format": "samebits journal 99"})
    path.write_bytes(other)
    if resume:
        with (
            pytest.raises(RequestError, match="is not of the format"),
            journaled(_run(), EngineSettings(resume=True), HEAD),
        ):
            raise AssertionError
        assert path.read_bytes() == other
    else:
        with journaled(_run(), EngineSettings(), HEAD) as journal:
            assert journal is not None and journal.path == path


def test_two_runs_of_one_request_have_two(folder: Path) -> None:
    with journaled(_run(), EngineSettings(), HEAD) as first, journaled(_run(), EngineSettings(), HEAD) as second:
        assert first is not None and second is not None and first.path != second.path
        assert first.path.exists() and second.path.exists()
    assert list(folder.iterdir()) == []


def test_the_second_of_two_runs_says_which_is_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with journaled(_run(), EngineSettings(), HEAD), pytest.raises(KeyboardInterrupt):
        _interrupted()
    (own,) = (path for path in folder.iterdir() if path.name != default_name(HEAD))
    assert (
        f"every result so far is in {own}; the same command with --resume --journal {own} " in capsys.readouterr().err
    )


def test_a_journal_that_failed_is_a_note(folder: Path) -> None:
    run = _run()
    with journaled(run, EngineSettings(), HEAD) as journal:
        assert journal is not None
        journal.failed = "No space left on device"
    assert run.notes == [f"journal {folder / default_name(HEAD)} is incomplete: {journal.failed}"]


def test_a_file_of_the_user_stays(tmp_path: Path) -> None:
    file = tmp_path / "mine.journal"
    with journaled(_run(), EngineSettings(journal=file), HEAD):
        pass
    assert file.exists()


def test_a_folder_that_may_not_be_entered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of a path in it raises; the run goes on without a journal, or with what can be opened."""
    asked = os.stat

    def denied(path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{folder}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return asked(path, **options)

    monkeypatch.setattr("os.stat", denied)
    with journaled(_run(), EngineSettings(), HEAD) as journal:
        assert journal is None or journal.path.parent == folder
