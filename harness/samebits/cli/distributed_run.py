"""A command that several processes run together: compared before, ended together, reported by process 0."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from rich.console import Console

from samebits.cli.common import say
from samebits.cli.options import JsonOption
from samebits.cli.pipeline import CommandRun, Work, console_of, exit_without_waiting, run_command
from samebits.cluster.process_group import ProcessGroup
from samebits.cluster.start import RunInputs, compare_inputs, described, sources
from samebits.errors import COULD_NOT_TELL, RequestError, SamebitsError
from samebits.host import environment
from samebits.host.group import RunEnded
from samebits.schema.result import Problem


def run_together(work: Work, chosen: JsonOption, group: ProcessGroup) -> int:
    """Run a command in one of several processes; the others print nothing and write no files.

    Returns:
        The exit code of process 0, in all of them.
    """
    if group.number:
        _silence()
    try:
        return run_command(work, chosen, CommonRun(group, console_of(chosen) if group.number == 0 else None))
    except RunEnded as ended:
        say(str(ended))
        group.close()
        exit_without_waiting(COULD_NOT_TELL)  # jax's own end waits a minute for the process that is gone
    finally:
        group.close()


def _silence() -> None:
    """Print nothing by Python from here on; what the runtime prints when it crashes still is."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, for as long as the process runs
    sys.stdout = sys.stderr = nowhere
    os.dup2(nowhere.fileno(), 1)


class CommonRun(CommandRun):
    """A run of a command in one of several processes, which must come to the same.

    Args:
        to: where process 0 prints its report.
    """

    def __init__(self, group: ProcessGroup, to: Console | None = None) -> None:
        super().__init__(to or Console(file=sys.stdout))
        self.group = group
        self.reports = group.number == 0

    @contextlib.contextmanager
    def loading(self) -> Iterator[dict[str, str]]:
        """Load inside what the command works on; what it is about to do goes into the mapping, as text by name."""
        points: dict[str, str] = {}
        failure = None
        try:
            yield points
        except SamebitsError as error:
            failure = error
        texts = self.group.share("loading", None if failure is None else str(failure))
        if failure is not None:
            raise failure
        for number, text in enumerate(texts):
            if text is not None:
                raise RequestError(f"process {number}: {text}")
        problems = {f"problem {number}": problem.message for number, problem in enumerate(self.problems)}
        own = RunInputs(points={**problems, **points}, sources=sources(), environment=described(environment.capture()))
        compare_inputs(self.group, own)

    @contextlib.contextmanager
    def partial(self, said: str = "") -> Iterator[None]:
        """Report, where a process is gone or hangs, the results so far, and end the run."""
        with super().partial(said), self._interruptible():
            try:
                yield
            except RunEnded as ended:
                message = f"the run ends here: {ended}"
                self.problem(Problem(pair=self.group.subject, message=message, exit_code=COULD_NOT_TELL))
                self.interrupted = self.stop.asked = True  # what hangs in a collective cannot be waited for

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """End this process where another is gone or hangs: a part of the results is worth nothing."""
        with self._interruptible():
            try:
                yield
            except RunEnded as ended:
                say(f"'{self.group.subject}': the run ends here: {ended}")
                exit_without_waiting(COULD_NOT_TELL)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Say to the other processes that this one was interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop.asked = True  # jax's own end would wait for the others
            with contextlib.suppress(RunEnded):
                self.group.end(f"process {self.group.number} was interrupted")
            raise

    def agreed(self, code: int) -> int:
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
