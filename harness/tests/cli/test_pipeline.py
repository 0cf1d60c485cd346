"""The work of a command that fails or is interrupted, and what is reported then."""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from samebits.cli import pipeline
from samebits.cli.options import ReportOptions
from samebits.cli.pipeline import CommandRun, run_command
from samebits.report.page import Page
from samebits.schema.result import Problem, gravest


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """The report of the commands below."""

    results: tuple[int, ...]
    problems: tuple[Problem, ...]
    interrupted: bool

    @property
    def exit_code(self) -> int:
        return 3 if self.interrupted else gravest(self.problems)

    def page(self) -> Page:
        return Page(command="count", state="passed", closing=f"counted to {len(self.results)}")


PARTLY = "interrupted; the count so far is shown"


def count(at_two: Callable[[], None], run: CommandRun) -> Counted:
    """Count to 3, with something that happens at 2."""
    results: list[int] = []
    with run.partial(PARTLY):
        for number in range(3):
            if number == 2:
                at_two()
            results.append(number)
    return Counted(results=tuple(results), problems=tuple(run.problems), interrupted=run.interrupted)


def nothing() -> None:
    """Two is a number as any other."""


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def theirs() -> None:
    raise KeyboardInterrupt("theirs")


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted command ends its process without waiting for the compilations that run."""
    monkeypatch.setattr(pipeline, "exit_without_waiting", lambda code: None)


def test_results_are_written_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert run_command(partial(count, nothing), ReportOptions(json=file)) == 0
    assert json.loads(file.read_text()) == {"results": [0, 1, 2], "problems": [], "interrupted": False}
    assert "counted to 3" in capsys.readouterr().out


def test_what_is_there_at_an_interrupt_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert run_command(partial(count, ctrl_c), ReportOptions(json=file)) == 3
    assert json.loads(file.read_text()) == {"results": [0, 1], "problems": [], "interrupted": True}
    said = capsys.readouterr()
    assert "counted to 2" in said.out and said.err == f"samebits: {PARTLY}\n"


def test_an_interrupt_that_the_users_code_raises_is_not_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.json"
    assert run_command(partial(count, theirs), ReportOptions(json=file)) == 3
    assert json.loads(file.read_text())["interrupted"]
    said = capsys.readouterr().err
    assert said.startswith("samebits: the user's code raised KeyboardInterrupt: theirs (")
    assert said.endswith("; what was done before is shown\n") and "interrupted;" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_part_that_is_worth_nothing_is_not_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    def work(run: CommandRun) -> Counted:
        os.kill(os.getpid(), number)
        raise AssertionError

    file = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        run_command(work, ReportOptions(json=file))
    assert not file.exists() and capsys.readouterr().out == ""


def test_an_interrupt_that_a_callback_swallowed_counts(tmp_path: Path) -> None:
    def work(run: CommandRun) -> Counted:
        with contextlib.suppress(KeyboardInterrupt):
            ctrl_c()
        return Counted(results=(), problems=(), interrupted=False)

    with pytest.raises(KeyboardInterrupt):
        run_command(work, ReportOptions(json=tmp_path / "r.json"))


def test_what_arrives_after_a_part_was_interrupted_is_ignored(tmp_path: Path) -> None:
    def work(run: CommandRun) -> Counted:
        counted = count(ctrl_c, run)
        os.kill(os.getpid(), signal.SIGTERM)
        return counted

    assert run_command(work, ReportOptions(json=tmp_path / "r.json")) == 3
    assert (tmp_path / "r.json").exists()


def test_a_report_that_cannot_be_written_is_not_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gone" / "r.json"
    assert run_command(partial(count, nothing), ReportOptions(json=file)) == 3
    assert capsys.readouterr().err == f"samebits: {file}: could not be written: No such file or directory\n"


def test_the_gravest_exit_code() -> None:
    problems = [Problem(pair="a", message="m", exit_code=code) for code in (3, 2, 1)]
    assert [gravest(problems[:count]) for count in range(4)] == [0, 3, 2, 1]
