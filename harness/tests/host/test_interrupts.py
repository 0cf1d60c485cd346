"""A signal ends a run once, with every process that a command started, and is blocked in its children."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from samebits.errors import CouldNotRun
from samebits.host import interrupts, subprocesses
from samebits.host.installed import PACKAGE
from samebits.host.interrupts import Stop, withheld_from_children
from samebits.host.subprocesses import (
    ProcessResult,
    current_folder_ignored,
    forget_ignored_folder,
    run_process,
    samebits_environment,
)
from tests.support.hangup import heard as heard


def _send() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_signals_of_one_moment_are_one_request() -> None:
    with Stop().listening() as stop:
        with pytest.raises(KeyboardInterrupt):
            _send()
        _send()  # while the run is ended, which must not be cut short
        assert stop.asked


def test_a_later_signal_is_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "ONE_REQUEST", -1.0)
    with Stop().listening():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                _send()


def test_a_lost_request_is_raised_later() -> None:
    """As a callback of the garbage collector loses it, in which Python prints an exception and goes on."""
    stop = Stop()
    stop.require_none()
    with stop.listening(signal.SIGINT):
        with contextlib.suppress(KeyboardInterrupt):
            _send()
        with pytest.raises(KeyboardInterrupt):
            stop.require_none()


def test_ctrl_c_is_told_from_code_that_raises_it() -> None:
    assert Stop.caused(KeyboardInterrupt()), "where nobody listens"
    with Stop().listening() as outer, Stop().listening():
        assert not Stop.caused(KeyboardInterrupt()) and not Stop.caused(ValueError())
        outer.asked = True
        assert Stop.caused(KeyboardInterrupt())


@pytest.mark.usefixtures("heard")
def test_a_closed_terminal_is_a_request() -> None:
    with Stop().listening() as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.asked


def test_under_nohup_a_closed_terminal_is_none() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop().listening() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.asked
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_the_given_signals_are_handled() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop().listening(signal.SIGINT):
        assert signal.getsignal(signal.SIGTERM) is before


CHILD = "import signal; print({signal.SIGINT, signal.SIGHUP} <= signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def test_children_are_started_with_it_blocked() -> None:
    """However early it comes: a handler would be too late."""
    with withheld_from_children():
        inside = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    outside = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert (inside.stdout, outside.stdout) == ("True\n", "False\n")


def test_what_arrives_meanwhile_waits() -> None:
    with Stop().listening(signal.SIGINT) as stop:
        with pytest.raises(KeyboardInterrupt), withheld_from_children():
            _send()
        assert stop.asked


def run(code: str, cwd: Path, timeout: float | None = 60, stop: threading.Event | None = None) -> ProcessResult:
    return run_process([sys.executable, "-c", code], cwd, os.environ, timeout, stop)


def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    ended = run("import sys, os; print(os.getcwd()); print('two', file=sys.stderr); sys.exit(5)", tmp_path)
    assert (ended.code, ended.out, ended.err) == (5, f"{tmp_path}\n", "two\n")


def test_the_last_line_is_of_errors_where_there_are_any() -> None:
    assert ProcessResult(code=0, out="a\n b  c \n\n").last == "b c"
    assert ProcessResult(code=1, out="a\n", err="bad\n").last == "bad"
    assert ProcessResult(code=0).last == ""


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match=r"^'no-such-command' cannot be started: "):
        run_process(["no-such-command"], tmp_path, os.environ, 1)


def test_what_the_command_started_ends_with_it(tmp_path: Path) -> None:
    """The child keeps the pipe of its parent open and would write a file after a second."""
    late = "import time, pathlib; time.sleep(1); pathlib.Path('late').touch()"
    run(f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {late!r}])", tmp_path)
    threading.Event().wait(2)
    assert not (tmp_path / "late").exists()


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match=r"took longer than 0.5 seconds$"):
        run("import time; time.sleep(60)", tmp_path, timeout=0.5)


def test_a_command_is_ended_when_told_to_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(CouldNotRun, match=r"^stopped$"):
        run("import time; time.sleep(60)", tmp_path, timeout=None, stop=stop)


def test_this_harness_is_imported_first() -> None:
    assert samebits_environment({"PYTHONPATH": "mine"})["PYTHONPATH"] == f"{PACKAGE.parent}{os.pathsep}mine"
    assert samebits_environment({})["PYTHONPATH"] == str(PACKAGE.parent)


def test_the_current_folder_is_ignored_at_the_start_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "types.py").write_text("raise SystemExit('the types.py of the current folder')")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert "the types.py" in run("import enum", tmp_path).last
    with current_folder_ignored():
        assert run("import enum", tmp_path).code == 0
        forget_ignored_folder()
        assert "PYTHONSAFEPATH" not in os.environ
    assert "PYTHONSAFEPATH" not in os.environ
    monkeypatch.setenv("PYTHONSAFEPATH", "theirs")
    with current_folder_ignored():
        forget_ignored_folder()
    assert os.environ["PYTHONSAFEPATH"] == "theirs"


@pytest.mark.parametrize("answers", [True, False])
def test_a_command_is_asked_before_it_is_killed(answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It removes its temporary folders; one that does not answer is killed."""
    monkeypatch.setattr(subprocesses, "PATIENCE", 10.0 if answers else 0.1)
    stop, ready, left = threading.Event(), tmp_path / "ready", tmp_path / "left"
    left.touch()
    answer = f"lambda *_: (os.unlink({str(left)!r}), os._exit(0))" if answers else "signal.SIG_IGN"
    code = f"""import os, signal, time
signal.signal(signal.SIGTERM, {answer})
open({str(ready)!r}, "w").close()
time.sleep(60)"""

    def end() -> None:
        while not ready.exists():
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=end, daemon=True).start()
    with pytest.raises(CouldNotRun, match=r"^stopped$"):
        run(code, tmp_path, timeout=None, stop=stop)
    assert left.exists() is not answers
