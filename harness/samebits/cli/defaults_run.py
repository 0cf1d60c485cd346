"""`samebits audit defaults` as a command: two sources of configuration come in, their disagreements go out."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.audit.defaults.compare import Agreement, compare_sources
from samebits.audit.defaults.sources import Source, read_source
from samebits.cli.audit import DefaultsOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.report.defaults import DefaultsDocument


@dataclass(frozen=True, kw_only=True)
class DefaultsCommand(Command[tuple[Source, Source], Agreement, DefaultsDocument]):
    """Compare two sources."""

    chosen: DefaultsOptions

    def load(self, run: CommandRun) -> tuple[Source, Source]:
        """Both sources."""
        return read_source(self.chosen.first), read_source(self.chosen.second)

    def execute(self, run: CommandRun, inputs: tuple[Source, Source], results: list[Agreement]) -> None:
        """Compare them."""
        results.append(compare_sources(*inputs, self.chosen.ignore))

    def document(self, run: CommandRun, inputs: tuple[Source, Source], results: list[Agreement]) -> DefaultsDocument:
        """The comparison with its sources."""
        return DefaultsDocument(first=self.chosen.first, second=self.chosen.second, results=results[0])
