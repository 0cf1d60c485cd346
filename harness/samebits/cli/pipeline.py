"""The steps that every command takes: load, execute, document, write, show, exit code.

In come a `Command`, which says what happens in each step, and the report files that the user named; out comes the exit
code. What went wrong so far, the clock and the terminal are in a `CommandRun`, which every step receives.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import click
from rich.console import Console

from samebits.cli.common import ends_with, printed, problem_line, say
from samebits.cli.supervision import say_problem
from samebits.engine.ray_request import RayRequest
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.host import environment
from samebits.host.accelerator import expected_platform
from samebits.host.backend_start import leave_to_workers, require_answer
from samebits.host.environment import Environment
from samebits.host.interrupts import Stop, handled
from samebits.host.output_files import write_text
from samebits.host.own_output import is_stdout
from samebits.host.written import Written, written_now
from samebits.report.continuous_integration import Outcomes, junit_xml, workflow_command, workflow_commands
from samebits.report.document import to_json
from samebits.report.page import Paged
from samebits.report.progress import ProgressBar
from samebits.report.terminal import console, show_head, show_page
from samebits.schema.result import Problem, gravest
from samebits.user_errors import one_line

Inputs = TypeVar("Inputs")
Item = TypeVar("Item")
Report = TypeVar("Report")


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Where the report is written; all files are known to be writable.

    Args:
        json, html, markdown, junit: the files.
        github: the folder of the repository for annotations of GitHub Actions; None without annotations.
    """

    json: Path | None = None
    html: Path | None = None
    markdown: Path | None = None
    junit: Path | None = None
    github: Path | None = None


class CommandRun:
    """What the steps of one run share: clock, terminal, problems and notes.

    Args:
        to: where the report is printed; standard output by default.
    """

    def __init__(self, to: Console | None = None) -> None:
        self.console = to or console()
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.stop = Stop()
        self.interrupted = False
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.perf_counter() - self._begin

    def problem(self, problem: Problem) -> None:
        """Record a problem, and print it at once, where no earlier process of this command has."""
        self.problems.append(problem)
        say_problem(problem_line(problem))

    def start_backend(
        self, head: int | None = 1, *, shown: bool = True, workers: int = 0, ray: RayRequest | None = None
    ) -> Environment:
        """Start jax's backend, here or on the nodes of a cluster, and print the head of the report.

        Args:
            head: how many lines about the environment; None for all.
            shown: whether the head is printed.
            workers: how many other processes do the work: an accelerator is left to them, and jax stays on the CPU in
                this one; 0 where this one does it.
            ray: the cluster; None for this machine.

        Raises:
            RequestError: the backend does not start, as where `--platform tpu` finds no TPU, or the cluster cannot be
                used.
        """
        if ray is not None:
            from samebits.cluster.ray_probe import cluster_environment

            here = cluster_environment(ray)
        elif workers == 0 or environment.backend_started() or expected_platform() == "cpu":
            require_answer()
            here = environment.capture()
        else:
            here = leave_to_workers(workers)
        if shown:
            self.show_head(here, head)
        return here

    def show_head(self, here: Environment, lines: int | None) -> None:
        """Print the head of the report: so many lines about the environment; None for all."""
        show_head(self.console, here.lines()[:lines])

    def progress(self, what: str, totals: Mapping[str, int] | None = None) -> ProgressBar:
        """A bar on a terminal, with the time left.

        Args:
            what: is done.
            totals: how many items each class has; None where it is not known.
        """
        return ProgressBar(self.console, what, totals)


class Command(ABC, Generic[Inputs, Item, Report]):
    """What a command does in each step; its field `chosen` is the record of its options."""

    on_interrupt = ""
    """What is said after Ctrl-C, when the results so far are reported; empty where a part of them is worth nothing."""

    handles_signals = False
    """Whether SIGTERM and SIGHUP end the run as Ctrl-C does, and running compilations are abandoned at the end."""

    runs_here = True
    """Whether the document has the time and the commit of now; `merge` passes on those of its parts."""

    @abstractmethod
    def load(self, run: CommandRun) -> Inputs:
        """What the command works on.

        Raises:
            SamebitsError: nothing can be done as requested.
        """

    @abstractmethod
    def execute(self, run: CommandRun, inputs: Inputs, results: list[Item]) -> None:
        """Append results as they come; those that are there when Ctrl-C arrives are reported."""

    @abstractmethod
    def document(self, run: CommandRun, inputs: Inputs, results: list[Item]) -> Report:
        """The report as one record."""

    def tree(self) -> Path:
        """The tree that the command runs on, whose commit the document names; the current folder by default."""
        return self._chosen("root") or getattr(self, "root", None) or Path()

    def _chosen(self, option: str) -> Any:
        return getattr(getattr(self, "chosen", None), option, None)

    def json(self, document: Report) -> str:
        """The document as JSON text."""
        return to_json(document)

    def html(self, document: Report) -> str:
        """The document as one HTML file."""
        from samebits.report.html.sections import page_of, section_of  # with the records of all commands

        return page_of([section_of(document)])

    @property
    def whole(self) -> bool:
        """Whether the Markdown has everything, however long it is."""
        return bool(self._chosen("whole"))

    @property
    def verbose(self) -> bool:
        """Whether all is shown, however long it is; otherwise one screen."""
        return bool(self._chosen("verbose"))

    @property
    def shows_live(self) -> bool:
        """Whether the live blocks of the page are shown while the command runs."""
        return False

    def markdown(self, document: Report) -> str:
        """The document for a pull request."""
        from samebits.report.markdown import markdown_page

        if not isinstance(document, Paged):
            raise NotImplementedError(f"{type(self).__name__} has no --markdown")
        return markdown_page(document.page(), whole=self.whole)

    def outcomes(self, inputs: Inputs, document: Report) -> Outcomes:
        """The results as continuous integration reads them."""
        raise NotImplementedError(f"{type(self).__name__} has no --junitxml and no --github")

    def show(self, run: CommandRun, inputs: Inputs, document: Report) -> None:
        """Print the report, or what of it is not printed yet."""
        if not isinstance(document, Paged):
            raise NotImplementedError(f"{type(self).__name__} shows nothing")
        show_page(run.console, document.page(), verbose=self.verbose, live=self.shows_live)

    def exit_code(self, inputs: Inputs, document: Report) -> int:
        """0, 1, 2 or 3, as `samebits --help` explains them: that of the document, or of its gravest problem."""
        code: int = getattr(document, "exit_code", gravest(getattr(document, "problems", ())))
        return code


class Steps:
    """Takes the steps in which several processes of one command must agree; here there is one."""

    def load(self, command: Command[Inputs, Item, Report], run: CommandRun) -> Inputs:
        """Load what the command works on."""
        return command.load(run)

    def execute(
        self, command: Command[Inputs, Item, Report], run: CommandRun, inputs: Inputs, results: list[Item]
    ) -> None:
        """Append results as they come."""
        command.execute(run, inputs, results)

    def exit_code(self, code: int) -> int:
        """Return the exit code of the command, from that of this process."""
        return code


def run_command(command: Command[Inputs, Item, Report], files: ReportFiles, steps: Steps | None = None) -> int:
    """Run a command from its request to its exit code.

    Args:
        command: with its request.
        files: where the report is written.
        steps: where several processes run the command, how they agree.

    Returns:
        The exit code.

    Raises:
        SamebitsError: nothing can be done as requested.
        KeyboardInterrupt: the command was interrupted before it had anything to report.
    """
    # A document on standard output is for a program, which cannot read our tables.
    apart = any(is_stdout(file) for file in (files.json, files.html, files.markdown, files.junit))
    run = CommandRun(console(sys.stderr) if apart else console())
    steps, theirs = steps or Steps(), False
    results: list[Item] = []
    written = written_now(command.tree()) if files.json is not None and command.runs_here else None
    with run.stop.listening() if command.handles_signals else contextlib.nullcontext():
        require_not_interrupted()
        with _annotated(run, files):
            inputs = steps.load(command, run)
        run.stop.require_none()
        try:
            steps.execute(command, run, inputs, results)
        except KeyboardInterrupt as error:
            if not (command.on_interrupt or command.handles_signals):
                raise
            run.interrupted, theirs = True, not Stop.caused(error)
            if theirs:
                say(f"the user's code {one_line(error)}; what was done before is shown")
    run.interrupted = run.interrupted or run.stop.asked
    if run.interrupted and command.on_interrupt and not theirs:
        say(command.on_interrupt)
    with signals_ignored():
        document = _with_origin(command.document(run, inputs, results), written)
        code = steps.exit_code(command.exit_code(inputs, document))
        outcomes = command.outcomes(inputs, document).ended_with(code) if files.junit or files.github else None
        texts = [
            (files.json, lambda: command.json(document)),
            (files.html, lambda: command.html(document)),
            (files.markdown, lambda: command.markdown(document)),
        ]
        if outcomes is not None:
            texts.append((files.junit, lambda: junit_xml(outcomes)))
        if not _write(texts):
            code = code or COULD_NOT_TELL
        command.show(run, inputs, document)
        if outcomes is not None and files.github is not None:
            for line in workflow_commands(outcomes, files.github):
                click.echo(line, file=run.console.file)
        if run.stop.asked:
            exit_without_waiting(code)
    return code


def _with_origin(document: Report, written: Written | None) -> Report:
    """The document with its time and commit; those of a document that was read stay."""
    if written is None or getattr(document, "written", written) is not None:
        return document
    return replace(document, written=written)  # type: ignore[type-var]


@contextlib.contextmanager
def _annotated(run: CommandRun, files: ReportFiles) -> Iterator[None]:
    """Inside, an error that ends the command is an annotation too, where annotations are wanted."""
    try:
        yield
    except SamebitsError as error:
        if files.github is not None:
            click.echo(workflow_command("error", str(error), {"title": "samebits"}), file=run.console.file)
        raise


def _write(texts: Iterable[tuple[Path | None, Callable[[], str]]]) -> bool:
    """Write the files; whether all could be written, since a disk may fill up after the check at the start."""
    complete = True
    for path, text in texts:
        if path is not None:
            try:
                write_text(path, text())
            except OSError as error:
                say(f"{path}: could not be written: {error.strerror or error}")
                complete = False
    return complete


# --- the end of an interrupted run: its report is written as a whole, and nothing is waited for ----------------------


def require_not_interrupted() -> None:
    """Raise what a callback swallowed while the command was imported, as jax's callback of the collector can.

    Raises:
        KeyboardInterrupt: Ctrl-C has arrived since the process began.
    """
    context = click.get_current_context(silent=True)
    stop = None if context is None else context.find_root().obj
    if isinstance(stop, Stop):
        stop.require_none()


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Inside, signals are ignored, so that a report is written as a whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handled(signal.SIG_IGN):
        yield


def exit_without_waiting(code: int) -> NoReturn:
    """End the process without waiting for compilations that are under way, which can take minutes."""
    code = printed(code)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    ends_with(code)
    os._exit(code)
