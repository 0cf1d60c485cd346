"""The work of `golden list` and `golden show`: files come in, tables go out; no jax is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from samebits.cli.common import say
from samebits.cli.golden import GoldenListOptions, GoldenShowOptions
from samebits.cli.pipeline import CommandRun
from samebits.errors import RequestError, SamebitsError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.golden import GoldenDocument, GoldenRow, golden_blocks
from samebits.schema.result import Problem
from samebits.train.golden.files import golden_paths, read_golden, require_own_name
from samebits.train.golden.record import Golden
from samebits.train.request import load_model

GoldenFile = tuple[Path, Golden]


def list_goldens(chosen: GoldenListOptions, run: CommandRun) -> GoldenDocument:
    """List the goldens of a tree; a damaged file is one line, and the others are listed.

    Raises:
        RequestError: a matrix is unknown.
    """
    model = load_model(chosen.root or default_root())
    known = [matrix.name for matrix in model.matrices]
    for name in chosen.matrix:
        if name not in known:
            raise RequestError(f"matrix '{name}' is unknown; {suggest(name, known)}")
    wanted = [path for path in golden_paths(model) if not chosen.matrix or _matrix(path, known) in chosen.matrix]
    files = _read(wanted, run)
    return _document(
        "golden list", run, [each for each in files if not chosen.matrix or each[1].matrix in chosen.matrix]
    )


def show_goldens(chosen: GoldenShowOptions, run: CommandRun) -> GoldenDocument:
    """Print goldens with their evidence, their history and all losses, in place of a page.

    Raises:
        RequestError: there is no golden of that name.
    """
    paths = golden_paths(load_model(chosen.root or default_root()))
    names, stems = sorted({_name(path) for path in paths}), {path.stem for path in paths}
    for name in chosen.config:
        if name.replace("/", "__", 1) not in stems:
            hint = suggest(name, names) if names else "there are none yet"
            raise RequestError(f"golden '{name}' does not exist; {hint}")
    wanted = {name.replace("/", "__", 1) for name in chosen.config}
    files = _read([path for path in paths if path.stem in wanted], run)
    run.page = False
    for path, golden in files:
        run.show(golden_blocks(golden, path))
    return _document("golden show", run, files)


def _document(command: str, run: CommandRun, files: Iterable[GoldenFile]) -> GoldenDocument:
    rows = tuple(GoldenRow.of(golden, path) for path, golden in files)
    return GoldenDocument(command=command, environment=None, results=rows, problems=tuple(run.problems))


def _matrix(path: Path, known: Sequence[str]) -> str:
    """Return the matrix of a golden by the name of its file; a longer name may begin like another."""
    return max((name for name in known if path.stem.startswith(f"{name}__")), key=len, default="")


def _name(path: Path) -> str:
    """Return the name of the golden in a file, of which nothing is read."""
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
