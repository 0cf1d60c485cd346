"""A command that several processes run together: compared before, ended together, reported by process 0."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rich.console import Console

from samebits.cli.common import say
from samebits.cli.pipeline import Command, CommandRun, ReportFiles, Steps, exit_without_waiting, run_command
from samebits.cluster.process_group import ProcessGroup
from samebits.cluster.start import RunInputs, compare_inputs, described, sources
from samebits.errors import COULD_NOT_TELL, RequestError, SamebitsError
from samebits.host import environment
from samebits.host.group import RunEnded
from samebits.schema.result import Problem

Inputs = TypeVar("Inputs")
Item = TypeVar("Item")
Report = TypeVar("Report")


def run_together(
    command: Command[Inputs, Item, Report],
    files: ReportFiles,
    group: ProcessGroup,
    points: Callable[[Inputs], Mapping[str, str]],
) -> int:
    """Run a command in one of several processes; the others print nothing and write no files.

    Args:
        command: with its request.
        files: where process 0 writes the report.
        group: the processes.
        points: what the command is about to do, as text by name.

    Returns:
        The exit code of process 0, in all of them.

    Raises:
        SamebitsError: nothing can be done as requested; where a process is gone, this one ends at once.
    """
    if group.number:
        _silence()
    try:
        return run_command(command, files if group.number == 0 else ReportFiles(), Together(group, points))
    except RunEnded as ended:
        say(str(ended))
        group.close()
        exit_without_waiting(COULD_NOT_TELL)  # jax's own end waits a minute for the process that is gone
    finally:
        group.close()


def _silence() -> None:
    """From here on nothing is printed by Python; what the runtime prints when it crashes still is."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, for as long as the process runs
    sys.stdout = sys.stderr = nowhere
    os.dup2(nowhere.fileno(), 1)


class Together(Steps):
    """Takes the steps of a command in one of several processes.

    Args:
        group: the processes.
        points: what the command is about to do, as text by name.
    """

    def __init__(self, group: ProcessGroup, points: Callable[[Any], Mapping[str, str]]) -> None:
        self.group, self.points = group, points

    def load(self, command: Command[Inputs, Item, Report], run: CommandRun) -> Inputs:
        """Load what the command works on, the same in all processes.

        Raises:
            RequestError: another process could not load it, or a process differs.
        """
        if self.group.number:
            run.console = Console(file=sys.stdout)
        inputs, failure = None, None
        try:
            inputs = command.load(run)
        except SamebitsError as error:
            failure = error
        texts = self.group.share("loading", None if failure is None else str(failure))
        if failure is not None:
            raise failure
        for number, text in enumerate(texts):
            if text is not None:
                raise RequestError(f"process {number}: {text}")
        assert inputs is not None
        problems = {f"problem {number}": problem.message for number, problem in enumerate(run.problems)}
        own = RunInputs(
            points={**problems, **self.points(inputs)},
            sources=sources(),
            environment=described(environment.capture()),
        )
        compare_inputs(self.group, own)
        return inputs

    def execute(
        self, command: Command[Inputs, Item, Report], run: CommandRun, inputs: Inputs, results: list[Item]
    ) -> None:
        """Run it; where a process is gone or hangs, the results so far are reported and the run ends."""
        try:
            command.execute(run, inputs, results)
        except KeyboardInterrupt:
            run.stop.asked = True  # jax's own end would wait for the others
            with contextlib.suppress(RunEnded):
                self.group.end(f"process {self.group.number} was interrupted")
            raise
        except RunEnded as ended:
            message = f"the run ends here: {ended}"
            if not command.handles_signals:  # a part of its results is worth nothing
                say(f"'{self.group.subject}': {message}")
                exit_without_waiting(COULD_NOT_TELL)
            run.problem(Problem(pair=self.group.subject, message=message, exit_code=COULD_NOT_TELL))
            run.interrupted = run.stop.asked = True  # what hangs in a collective cannot be waited for

    def exit_code(self, code: int) -> int:
        """Return the exit code of process 0; all processes have come to their end then."""
        try:
            codes: list[int] = self.group.share("the end", code)
        except RunEnded:
            return COULD_NOT_TELL
        apart = [number for number, other in enumerate(codes) if other != codes[0]]
        if apart:
            say(f"process {apart[0]} comes to exit code {codes[apart[0]]}, and process 0 to {codes[0]}")
            return COULD_NOT_TELL
        return codes[0]
