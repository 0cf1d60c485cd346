"""`golden list` and `golden show`, from the files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from samebits.cli.common import say, write_text
from samebits.errors import RequestError, SamebitsError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.golden import GoldenDocument, Listed, encode_goldens, show_golden, show_listed
from samebits.report.terminal import console
from samebits.schema.result import Problem
from samebits.train.golden.files import golden_paths, read_golden
from samebits.train.golden.record import Golden
from samebits.train.load import load_model


def run_list(matrices: Sequence[str], root: Path | None, json: Path | None) -> int:
    """List the goldens of a tree; one that is damaged is one line, and the others are listed."""
    found, problems = _read(root)
    rows = tuple(Listed.of(golden, path) for path, golden in found if not matrices or golden.matrix in matrices)
    if rows:
        show_listed(console(), rows)
    elif not problems:
        console().print(
            "no goldens yet; `samebits golden accept --matrix NAME --reason '...'` makes them", soft_wrap=True
        )
    if json is not None:
        document = GoldenDocument(command="golden list", environment=None, results=rows, problems=tuple(problems))
        write_text(json, encode_goldens(document))
    return max((problem.exit_code for problem in problems), default=0)


def run_show(configs: Sequence[str], root: Path | None, json: Path | None) -> int:
    """Show the goldens of some configurations; `--json` writes one file of rows, the goldens are JSON themselves."""
    found, problems = _read(root)
    names = sorted({golden.name for _, golden in found})
    for name in configs:
        if name not in names and not any(problem.pair == name for problem in problems):
            hint = suggest(name, names) if names else "there are none yet"
            raise RequestError(f"golden '{name}' does not exist; {hint}")
    chosen = [(path, golden) for path, golden in found if golden.name in configs]
    for path, golden in chosen:
        show_golden(console(), golden, path)
    if json is not None:
        rows = tuple(Listed.of(golden, path) for path, golden in chosen)
        document = GoldenDocument(command="golden show", environment=None, results=rows, problems=tuple(problems))
        write_text(json, encode_goldens(document))
    return max((problem.exit_code for problem in problems), default=0)


def _read(root: Path | None) -> tuple[list[tuple[Path, Golden]], list[Problem]]:
    model = load_model(root or default_root())
    found, problems = [], []
    for path in golden_paths(model):
        try:
            found.append((path, read_golden(path)))
        except SamebitsError as error:
            name = path.stem.replace("__", "/", 1)
            problems.append(Problem(pair=name, message=str(error), exit_code=error.exit_code))
            say(str(error))
    return found, problems
