"""`samebits cache` as a command: names of caches come in, a row for each goes out."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.cli.cache import CacheOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.host.cache_folder import CACHES, cache_root, limit, limit_text
from samebits.host.caches import CacheRow, cache_row, clear, set_limit
from samebits.report.cache import CacheDocument


@dataclass(frozen=True, kw_only=True)
class CacheCommand(Command[tuple[str, ...], CacheRow, CacheDocument]):
    """Show, clear or limit caches."""

    chosen: CacheOptions

    def load(self, run: CommandRun) -> tuple[str, ...]:
        """The names; sets the limit, or rejects one that was set wrongly, but for `clear`, which needs none."""
        if self.chosen.size is not None:
            set_limit(self.chosen.size)
        if self.chosen.action != "clear":
            limit()
        return self.chosen.only or tuple(CACHES)

    def execute(self, run: CommandRun, inputs: tuple[str, ...], results: list[CacheRow]) -> None:
        """Clear what is to be cleared, and look at each."""
        for name in inputs if self.chosen.action != "where" else ():
            results.append(cache_row(name, clear(name, self.chosen.older_than) if self.chosen.action == "clear" else 0))

    def document(self, run: CommandRun, inputs: tuple[str, ...], results: list[CacheRow]) -> CacheDocument:
        """A row per cache."""
        text, place = limit_text()
        return CacheDocument(folder=str(cache_root()), limit=text, limit_from=place, results=tuple(results))

    def show(self, run: CommandRun, inputs: tuple[str, ...], document: CacheDocument) -> None:
        """Print the page; of `where`, the folder alone, for scripts."""
        if self.chosen.action == "where":
            run.console.print(document.folder, soft_wrap=True)
        else:
            super().show(run, inputs, document)
