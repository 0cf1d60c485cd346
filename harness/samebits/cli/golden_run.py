"""The work of `samebits golden`: goldens are checked, accepted, listed and shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from samebits.cli.common import say
from samebits.cli.golden import GoldenAcceptOptions, GoldenCheckOptions, GoldenListOptions, GoldenShowOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import journal_head, run_items
from samebits.engine.model_work import GoldenWork, golden_items
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError, SamebitsError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.golden import (
    GoldenAcceptDocument,
    GoldenCheckDocument,
    GoldenListDocument,
    GoldenRow,
    GoldenShowDocument,
    golden_blocks,
)
from samebits.report.markdown import WORST
from samebits.schema.result import Problem
from samebits.train.cache import persistent_compile_cache
from samebits.train.golden.accept import AcceptedGolden, permit
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.record import Golden, golden_paths, read_golden, require_own_name
from samebits.train.golden.runs import GoldenSession, accept_goldens, goldens_to_check, selected, without_goldens
from samebits.train.request import load_model

GoldenFile = tuple[Path, Golden]


def check_goldens(chosen: GoldenCheckOptions, settings: EngineSettings, run: CommandRun) -> GoldenCheckDocument:
    """Compare today's runs with their goldens; without a name, every run of each matrix that has goldens here."""
    tree = chosen.root or default_root()
    model = load_model(tree)
    selected(model, chosen.matrix, chosen.config)
    here = run.start_backend(None, workers=settings.processes, ray=settings.ray)
    wanted = goldens_to_check(model, here, chosen.matrix, chosen.config)
    items = golden_items(tree, [named.name for named in wanted.runs])
    request = {"matrices": [*chosen.matrix], "configs": [*chosen.config]}
    head = journal_head("golden-check", settings, here, tree, **request)
    results: list[CheckedGolden] = []

    def failed(problem: Problem) -> None:
        results.append(CheckedGolden(name=problem.pair, status="not run", message=problem.message))

    with contextlib.closing(run_items(run, GoldenWork(tree), items, settings, head, failed)) as ran:
        for done in ran:
            results += done.rows
    results = wanted.in_order(results)
    run.page = bool(results)
    if not results:
        why = "the model has no matrix" if settings.shard is None else f"nothing is left for --shard {settings.shard}"
        say(f"no golden was checked: {why}")
    unusable = [result.message for result in results if result.exit_code > 1]
    for message in unusable if chosen.verbose else unusable[:WORST]:
        say(message)
    missing = () if chosen.matrix or chosen.config else without_goldens(model, here)
    have = f"matrix {missing[0]} has" if len(missing) == 1 else f"matrices {', '.join(missing)} have"
    return GoldenCheckDocument(
        environment=here,
        results=tuple(results),
        notes=(f"{have} no goldens here: not checked",) if missing else (),
    )


def accept_runs(chosen: GoldenAcceptOptions, run: CommandRun) -> GoldenAcceptDocument:
    """Make today's runs the goldens; one that fails is a problem, and the others go on."""
    tree = chosen.root or default_root()
    model = load_model(tree)
    runs = selected(model, chosen.matrix, chosen.config)
    allowed = permit(model, tree, reason=chosen.why(), author_given=chosen.author, steps=chosen.steps)
    here = run.start_backend(None)
    results: list[AcceptedGolden] = []
    with persistent_compile_cache():
        session = GoldenSession(model=model, root=tree, here=here)
        for outcome in accept_goldens(session, runs, allowed, steps=chosen.steps, only_confirm=chosen.confirm):
            if isinstance(outcome, AcceptedGolden):
                results.append(outcome)
                continue
            name, error = outcome
            assert isinstance(error, SamebitsError)
            _record(run, name, error)
    return GoldenAcceptDocument(environment=here, results=tuple(results), problems=tuple(run.problems))


def _record(run: CommandRun, name: str, error: SamebitsError) -> None:
    run.problems.append(Problem(pair=name, message=str(error), exit_code=error.exit_code))
    say(str(error))


# --- files alone: no backend is started -------------------------------------------------------------------------------


def list_goldens(chosen: GoldenListOptions, run: CommandRun) -> GoldenListDocument:
    """List the goldens of a tree; a damaged file is one line, and the others are listed."""
    model = load_model(chosen.root or default_root())
    known = [matrix.name for matrix in model.matrices]
    for name in chosen.matrix:
        if name not in known:
            raise RequestError(f"matrix '{name}' is unknown; {suggest(name, known)}")
    wanted = [path for path in golden_paths(model) if not chosen.matrix or _matrix(path, known) in chosen.matrix]
    files = _read(wanted, run)
    rows = _rows(each for each in files if not chosen.matrix or each[1].matrix in chosen.matrix)
    return GoldenListDocument(environment=None, results=rows, problems=tuple(run.problems))


def show_goldens(chosen: GoldenShowOptions, run: CommandRun) -> GoldenShowDocument:
    """Print goldens with their evidence, their history and all losses, in place of a page."""
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
    return GoldenShowDocument(environment=None, results=_rows(files), problems=tuple(run.problems))


def _rows(files: Iterable[GoldenFile]) -> tuple[GoldenRow, ...]:
    return tuple(GoldenRow.of(golden, path) for path, golden in files)


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
            _record(run, _name(path), error)
    return files
