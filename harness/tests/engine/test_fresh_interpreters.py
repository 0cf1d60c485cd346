"""How a process ended is known as long as it is among the last ones."""

import os
from pathlib import Path

import pytest

from samebits.engine.worker_processes import FreshInterpreters


def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a `types.py`, which Python's own modules would get in place of theirs."""
    (tmp_path / "types.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    process = FreshInterpreters().Process(target=print)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_the_exit_code_of_a_process_is_known() -> None:
    context = FreshInterpreters()
    process = context.Process(target=os._exit, args=(7,))
    process.start()
    assert context.exit_code(process.pid) == 7
    assert context.exit_code(os.getpid()) is None and context.exit_code(None) is None
