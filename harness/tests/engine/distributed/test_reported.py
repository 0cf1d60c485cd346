"""The exit code that a process writes for its `launch`; user code does not see where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samebits.engine.distributed.reported import REPORTED, recorder, reported


def test_what_is_recorded_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPORTED, str(tmp_path / "0"))
    record = recorder()
    assert REPORTED not in os.environ and reported(tmp_path / "0") is None
    record(0)
    assert reported(tmp_path / "0") == 0


def test_a_torn_file_and_no_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").write_text("")
    assert reported(tmp_path / "0") is None
    monkeypatch.delenv(REPORTED, raising=False)
    recorder()(0)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "0"]
