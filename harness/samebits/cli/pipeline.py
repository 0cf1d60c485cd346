"""Runs a command from its options to its exit code: its work gives a document, which is written, shown and judged.

The work of a command is a function of a `CommandRun`, in which are the terminal, the clock, and what went wrong so far.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console

from samebits.cli.common import ends_with, printed, problem_line, say
from samebits.cli.options import JsonOption
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
from samebits.host.written import written_now
from samebits.programs.catalogue import SUITES
from samebits.report.continuous_integration import Outcomes, junit_xml, workflow_command, workflow_commands
from samebits.report.continuous_integration import outcomes as outcomes_of
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import to_json
from samebits.report.html.sections import Section, page_of
from samebits.report.markdown import markdown_page
from samebits.report.page import Block, Page
from samebits.report.progress import ProgressBar
from samebits.report.terminal import console, show_blocks, show_head, show_page
from samebits.schema.pair import Pair
from samebits.schema.result import Problem, gravest
from samebits.user_errors import one_line


class CommandRun:
    """What happens in a run of a command: what its work needs, and what it comes to.

    Args:
        to: where the report is printed; standard output by default.

    Attributes:
        problems, notes: what could not be done, and what else the document says.
        worded: makes the message of a problem one for the user of this command.
        pairs: those that were loaded, for the lines of their declarations.
        outcomes: makes what continuous integration reads of a document.
        dated: whether the document has the time and the commit of now; `merge` passes on those of its parts.
        live: whether the live blocks of the page have been printed.
        page: whether the page is printed at the end; not where the work has printed what there is to say.
        stop: whether a signal has arrived.
        interrupted: whether results are missing.
        reports: whether this process writes and shows the document.
        ending: what is put back once the document is shown.
    """

    def __init__(self, to: Console | None = None) -> None:
        self.console = to or console()
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.worded: Callable[[str], str] = str
        self.pairs: Sequence[Pair] = ()
        self.outcomes: Callable[[Any, DeclarationLines], Outcomes] = outcomes_of
        self.dated = True
        self.live = False
        self.page = True
        self.stop = Stop()
        self.interrupted = False
        self.reports = True
        self._begin = time.perf_counter()
        self.ending = contextlib.ExitStack()

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.perf_counter() - self._begin

    def problem(self, problem: Problem) -> None:
        """Record a problem, and print it at once, where no earlier process of this command has."""
        problem = replace(problem, message=self.worded(problem.message))
        self.problems.append(problem)
        say_problem(problem_line(problem))

    def start_backend(
        self, head: int | None = 1, *, shown: bool = True, workers: int = 0, ray: RayRequest | None = None
    ) -> Environment:
        """Start jax's backend, here or on the nodes of a cluster, and print the head of the report.

        An accelerator is left to the other processes that do the work, of which there are `workers`.
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

    def show(self, blocks: Sequence[Block]) -> None:
        """Print live blocks of the page as soon as they are known."""
        self.live = True
        show_blocks(self.console, blocks)

    def progress(self, what: str, totals: Mapping[str, int] | None = None) -> ProgressBar:
        """Return a bar on a terminal, with the time left."""
        return ProgressBar(self.console, what, totals)

    @contextlib.contextmanager
    def loading(self) -> Iterator[dict[str, str]]:
        """Load inside what the command works on; several processes must come to the same, as text by name."""
        yield {}

    @contextlib.contextmanager
    def partial(self, said: str = "") -> Iterator[None]:
        """End at Ctrl-C what is done inside, and say so; what there is by then is reported, whatever arrives later."""
        self.stop.require_none()
        try:
            yield
        except KeyboardInterrupt as error:
            self.interrupted = True
            if not Stop.caused(error):
                said = f"the user's code {one_line(error)}; what was done before is shown"
        self.ending.enter_context(signals_ignored())
        self.interrupted = self.interrupted or self.stop.asked
        if self.interrupted and said:
            say(said)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Do inside what is worth nothing in part."""
        yield

    def agreed(self, code: int) -> int:
        """Return the exit code of the command, from that of this process."""
        return code


Work = Callable[[CommandRun], Any]
"""Does what was asked for, and returns the document; its page and its exit code are those of the command."""


def run_command(work: Work, chosen: JsonOption, run: CommandRun | None = None) -> int:
    """Do the work of a command, write and show its document, and return the exit code.

    Raises:
        SamebitsError: nothing can be done as requested.
        KeyboardInterrupt: the command was interrupted, and has nothing to report.
    """
    run = run or CommandRun(console_of(chosen))
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()) if getattr(chosen, "github", False) else None
    written = written_now(getattr(chosen, "root", None) or Path()) if chosen.json is not None else None
    with run.stop.listening(), run.ending:
        require_not_interrupted()
        try:
            document = work(run)
        except SamebitsError as error:
            if workspace is not None:  # an error that ends the command is an annotation too
                click.echo(workflow_command("error", str(error), {"title": "samebits"}), file=run.console.file)
            raise
        if written is not None and run.dated and getattr(document, "written", written) is None:
            document = replace(document, written=written)
        if not run.interrupted:
            run.stop.require_none()
        run.ending.enter_context(signals_ignored())
        code = run.agreed(getattr(document, "exit_code", gravest(getattr(document, "problems", ()))))
        if run.reports:
            code = _report(run, document, code, chosen, workspace)
        if run.stop.asked:
            exit_without_waiting(code)
    return code


def console_of(chosen: JsonOption) -> Console:
    """Return where the report is printed: a document on standard output is for a program, which cannot read tables."""
    files = (getattr(chosen, name, None) for name in ("json", "html", "markdown", "junitxml"))
    return console(sys.stderr) if any(map(is_stdout, files)) else console()


def _report(run: CommandRun, document: Any, code: int, chosen: JsonOption, workspace: Path | None) -> int:
    """Write and show a document, and return the exit code: not 0 where a file could not be written."""
    page: Page = document.page()
    outcomes = None
    if getattr(chosen, "junitxml", None) is not None or workspace is not None:
        lines = DeclarationLines(run.pairs, (getattr(chosen, "root", None) or Path.cwd()) / SUITES)
        outcomes = run.outcomes(document, lines).ended_with(code)
    texts: dict[str, Callable[[], str]] = {
        "json": lambda: to_json(document),
        "html": lambda: page_of([Section(page=page)]),
        "markdown": lambda: markdown_page(page, whole=getattr(chosen, "whole", False)),
        "junitxml": lambda: junit_xml(outcomes) if outcomes is not None else "",
    }
    for name, text in texts.items():
        path: Path | None = getattr(chosen, name, None)
        if path is not None:
            try:
                write_text(path, text())
            except OSError as error:  # a disk may fill up after the check at the start
                say(f"{path}: could not be written: {error.strerror or error}")
                code = code or COULD_NOT_TELL
    if run.page:
        show_page(run.console, page, verbose=getattr(chosen, "verbose", False), live=run.live)
    if outcomes is not None and workspace is not None:
        for line in workflow_commands(outcomes, workspace):
            click.echo(line, file=run.console.file)
    return code


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
    """Ignore signals inside, so that a report is written as a whole."""
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
