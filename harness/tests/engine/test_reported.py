"""The exit code that a process writes for its `launch`; user code does not see where."""

import os
from pathlib import Path

import pytest

from samebits.engine.distributed_request import REPORTED, lacks_report, recorder


def test_what_is_recorded_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPORTED, str(tmp_path / "0"))
    assert not lacks_report(tmp_path / "0", 0), "no user code has run"
    record = recorder()
    assert REPORTED not in os.environ and lacks_report(tmp_path / "0", 0)
    record(0)
    assert not lacks_report(tmp_path / "0", 0)
    record(1)
    assert lacks_report(tmp_path / "0", 0), "it reported another exit code"


def test_a_torn_file_and_no_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").write_text("")
    assert lacks_report(tmp_path / "0", 0)
    monkeypatch.delenv(REPORTED, raising=False)
    recorder()(0)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "0"]
