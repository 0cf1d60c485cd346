"""The steps of a command, with commands that fail or are interrupted in each of them."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from samebits.cli.pipeline import Command, CommandRun, ReportFiles, run_command
from samebits.schema.result import Problem, gravest


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """The report of the commands below."""

    results: tuple[int, ...]
    problems: tuple[Problem, ...]
    interrupted: bool


class Count(Command[int, int, Counted]):
    """Counts to the number that `load` returns; 2 raises the given exception."""

    def __init__(self, error: BaseException | None = None, on_interrupt: str = "") -> None:
        self.error = error
        self.on_interrupt = on_interrupt
        self.shown: list[Counted] = []

    def load(self, run: CommandRun) -> int:
        return 3

    def execute(self, run: CommandRun, inputs: int, results: list[int]) -> None:
        for number in range(inputs):
            if number == 2 and self.error is not None:
                raise self.error
            results.append(number)

    def document(self, run: CommandRun, inputs: int, results: list[int]) -> Counted:
        return Counted(results=tuple(results), problems=tuple(run.problems), interrupted=run.interrupted)

    def show(self, run: CommandRun, inputs: int, document: Counted) -> None:
        self.shown.append(document)

    def exit_code(self, inputs: int, document: Counted) -> int:
        return 3 if document.interrupted else gravest(document.problems)


def test_results_are_written_and_shown(tmp_path: Path) -> None:
    command, file = Count(), tmp_path / "r.json"
    assert run_command(command, ReportFiles(json=file)) == 0
    assert json.loads(file.read_text()) == {"results": [0, 1, 2], "problems": [], "interrupted": False}
    assert command.shown == [Counted(results=(0, 1, 2), problems=(), interrupted=False)]


def test_what_is_there_at_an_interrupt_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, file = Count(KeyboardInterrupt(), "interrupted; the count so far is shown"), tmp_path / "r.json"
    assert run_command(command, ReportFiles(json=file)) == 3
    assert json.loads(file.read_text()) == {"results": [0, 1], "problems": [], "interrupted": True}
    assert command.shown[0].interrupted
    assert capsys.readouterr().err == "samebits: interrupted; the count so far is shown\n"


def test_an_interrupt_that_the_users_code_raises_is_not_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, file = Count(KeyboardInterrupt("theirs"), "interrupted; the count so far is shown"), tmp_path / "r.json"
    command.handles_signals = True
    assert run_command(command, ReportFiles(json=file)) == 3
    assert json.loads(file.read_text())["interrupted"]
    said = capsys.readouterr().err
    assert said.startswith("samebits: the user's code raised KeyboardInterrupt: theirs (")
    assert said.endswith("; what was done before is shown\n") and "interrupted;" not in said


def test_a_part_that_is_worth_nothing_is_not_reported(tmp_path: Path) -> None:
    command, file = Count(KeyboardInterrupt()), tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        run_command(command, ReportFiles(json=file))
    assert not file.exists() and not command.shown


def test_a_report_that_cannot_be_written_is_not_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gone" / "r.json"
    assert run_command(Count(), ReportFiles(json=file)) == 3
    assert capsys.readouterr().err == f"samebits: {file}: could not be written: No such file or directory\n"


def test_the_gravest_exit_code() -> None:
    problems = [Problem(pair="a", message="m", exit_code=code) for code in (3, 2, 1)]
    assert [gravest(problems[:count]) for count in range(4)] == [0, 3, 2, 1]
