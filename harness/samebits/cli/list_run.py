"""`samebits list` as a command: declarations come in, a paragraph for each goes out; no jax backend is started."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.cli.list import ListOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.supervision import importing
from samebits.errors import SamebitsError
from samebits.host.environment import asked_devices
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.programs.plan import Request, plan
from samebits.report.list import Listing, PairRow
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True)
class ListCommand(Command[list[str], PairRow, Listing]):
    """List the pairs of a tree."""

    chosen: ListOptions

    def load(self, run: CommandRun) -> list[str]:
        """The names of the pairs."""
        return list(names(self.chosen.root or default_root()))

    def execute(self, run: CommandRun, inputs: list[str], results: list[PairRow]) -> None:
        """Load and plan one pair after the other; one that is wrong is a problem, and the others go on."""
        for name in inputs:
            try:
                with importing(name):
                    pair = load(Locator(name=name, root=None if self.chosen.root is None else str(self.chosen.root)))
                    results.append(PairRow.of(pair, plan(pair, Request(), self.chosen.devices or asked_devices())))
            except SamebitsError as error:
                run.problem(Problem(pair=name, message=str(error), exit_code=error.exit_code))

    def document(self, run: CommandRun, inputs: list[str], results: list[PairRow]) -> Listing:
        """A row per pair."""
        return Listing(results=tuple(results), problems=tuple(run.problems))
