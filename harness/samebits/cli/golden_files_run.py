"""`golden list` and `golden show` as commands: files come in, tables go out; no jax is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.cli.common import say
from samebits.cli.golden import GoldenListOptions, GoldenShowOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.errors import RequestError, SamebitsError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.golden import GoldenDocument, GoldenRow, golden_blocks
from samebits.report.terminal import show_blocks
from samebits.schema.result import Problem
from samebits.train.golden.files import golden_paths, read_golden, require_own_name
from samebits.train.golden.record import Golden
from samebits.train.load import load_model

GoldenFile = tuple[Path, Golden]


@dataclass(frozen=True, kw_only=True)
class GoldenListCommand(Command[list[GoldenFile], GoldenRow, GoldenDocument]):
    """List the goldens of a tree; a damaged file is one line, and the others are listed."""

    chosen: GoldenListOptions

    def load(self, run: CommandRun) -> list[GoldenFile]:
        """The files that can be read.

        Raises:
            RequestError: a matrix is unknown.
        """
        model = load_model(self.chosen.root or default_root())
        known = [matrix.name for matrix in model.matrices]
        for name in self.chosen.matrix:
            if name not in known:
                raise RequestError(f"matrix '{name}' is unknown; {suggest(name, known)}")
        return _read([path for path in golden_paths(model) if not self.chosen.matrix or self._asked(path, known)], run)

    def _asked(self, path: Path, known: Sequence[str]) -> bool:
        """Whether a file has the name of a golden of one of the matrices; a longer name may begin like another."""
        return (
            max((name for name in known if path.stem.startswith(f"{name}__")), key=len, default="")
            in self.chosen.matrix
        )

    def execute(self, run: CommandRun, inputs: list[GoldenFile], results: list[GoldenRow]) -> None:
        """A row per golden."""
        results += [
            GoldenRow.of(golden, path)
            for path, golden in inputs
            if not self.chosen.matrix or golden.matrix in self.chosen.matrix
        ]

    def document(self, run: CommandRun, inputs: list[GoldenFile], results: list[GoldenRow]) -> GoldenDocument:
        """All rows."""
        return GoldenDocument(
            command="golden list", environment=None, results=tuple(results), problems=tuple(run.problems)
        )


@dataclass(frozen=True, kw_only=True)
class GoldenShowCommand(Command[list[GoldenFile], GoldenRow, GoldenDocument]):
    """Show some goldens whole; `--json` writes their rows, as the goldens are JSON files themselves."""

    chosen: GoldenShowOptions

    def load(self, run: CommandRun) -> list[GoldenFile]:
        """The files of the names.

        Raises:
            RequestError: there is no golden of that name.
        """
        paths = golden_paths(load_model(self.chosen.root or default_root()))
        names, stems = sorted({_name(path) for path in paths}), {path.stem for path in paths}
        for name in self.chosen.config:
            if name.replace("/", "__", 1) not in stems:
                hint = suggest(name, names) if names else "there are none yet"
                raise RequestError(f"golden '{name}' does not exist; {hint}")
        wanted_stems = {name.replace("/", "__", 1) for name in self.chosen.config}
        return _read([path for path in paths if path.stem in wanted_stems], run)

    def execute(self, run: CommandRun, inputs: list[GoldenFile], results: list[GoldenRow]) -> None:
        """A row per golden."""
        results += [GoldenRow.of(golden, path) for path, golden in inputs]

    def document(self, run: CommandRun, inputs: list[GoldenFile], results: list[GoldenRow]) -> GoldenDocument:
        """All rows."""
        return GoldenDocument(
            command="golden show", environment=None, results=tuple(results), problems=tuple(run.problems)
        )

    def show(self, run: CommandRun, inputs: list[GoldenFile], document: GoldenDocument) -> None:
        """Each golden with its evidence, its history and all losses."""
        for path, golden in inputs:
            show_blocks(run.console, golden_blocks(golden, path))


def _name(path: Path) -> str:
    """The name of the golden in a file, of which nothing is read."""
    return path.stem.replace("__", "/", 1)


def _read(paths: Iterable[Path], run: CommandRun) -> list[GoldenFile]:
    files = []
    for path in paths:
        try:
            golden = read_golden(path)
            require_own_name(path, golden)
            files.append((path, golden))
        except SamebitsError as error:
            run.problems.append(Problem(pair=_name(path), message=str(error), exit_code=error.exit_code))
            say(str(error))
    return files
