"""The work of `samebits train`: a matrix comes in, traces and comparisons go out. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace

from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import journal_head, run_items
from samebits.cli.train import TrainOptions
from samebits.cli.train_against import TrainedRevision
from samebits.engine.run_work import EngineSettings
from samebits.engine.train_work import (
    TrainedRun,
    TrainWork,
    assembled,
    detected_by,
    detection_items,
    replay_of,
    train_items,
)
from samebits.host.environment import Environment
from samebits.report.document import read_as
from samebits.report.terminal import console, line
from samebits.report.train import TrainDocument, TrainSummary, envelope_record
from samebits.schema.model import Matrix, Model
from samebits.train.compare import ORDER, Pairing, Uncompared, compare_beside
from samebits.train.detection import Detection, planted
from samebits.train.matrix import MatrixResult, run_matrix, uncompared_runs
from samebits.train.request import TrainRequest, load_model


def train_matrix(
    chosen: TrainOptions,
    request: TrainRequest,
    model: Model,
    matrix: Matrix,
    against: TrainedRevision | None,
    settings: EngineSettings,
    run: CommandRun,
) -> TrainDocument:
    """Train a matrix on the engine, or here where processes share a mesh; compare its runs, and those of a revision."""
    others = None if chosen.beside is None else read_as(chosen.beside, TrainDocument)  # a wrong file is said first
    with run.loading() as texts:
        workers = settings.processes if settings.group is None else 0
        here = run.start_backend(2, workers=workers, ray=settings.ray)
        texts |= {config.name: f"{config.digest()}, {config.mesh}" for config in matrix.runs}
        texts["steps"] = str(request.steps)
    detection = None
    with run.whole():
        if settings.group is None:
            runs, detection = _on_engine(chosen, request, model, matrix, settings, run, here)
        else:
            with run.progress("train") as bar:
                runs = run_matrix(model, matrix, request.tree, request.steps, bar.say, settings.group)
    records = {name: recorded.run for name, recorded in runs.runs.items()}
    comparisons = [*(against.comparisons(records) if against else ()), *runs.comparisons]
    if chosen.beside is not None and others is not None:
        comparisons += compare_beside(records, others.results, runs.envelope, chosen.beside.name)
    uncompared = tuple(uncompared_runs(matrix, runs.runs, comparisons))
    for problem in (*runs.problems, *(against.problems() if against else ())):
        run.problem(problem)
    return TrainDocument(
        environment=here,
        matrix=matrix.name,
        about=matrix.about,
        columns=matrix.columns,
        results=tuple(records.values()),
        against=None if against is None else f"{against.revision} ({against.commit})",
        comparisons=tuple(comparisons),
        clusters=tuple(tuple(names) for names in runs.clusters),
        envelope=envelope_record(runs.envelope),
        problems=tuple(run.problems),
        notes=(*run.notes, *(against.notes([each.name for each in matrix.runs], here) if against else ())),
        twins=matrix.twins,
        detection=detection,
        uncompared=uncompared,
        summary=_summary(request, runs, comparisons, uncompared),
    )


def _summary(
    request: TrainRequest, runs: MatrixResult, comparisons: Sequence[Pairing], uncompared: Sequence[Uncompared]
) -> TrainSummary:
    verdicts = Counter(comparison.verdict for comparison in comparisons)
    return TrainSummary(
        runs=len(runs.runs),
        steps=request.steps,
        comparisons=len(comparisons),
        failed=sum(not comparison.ok for comparison in comparisons),
        verdicts={verdict: verdicts[verdict] for verdict in reversed(ORDER)},
        seconds=runs.seconds,
        uncompared=len(uncompared),
    )


def _on_engine(
    chosen: TrainOptions,
    request: TrainRequest,
    model: Model,
    matrix: Matrix,
    settings: EngineSettings,
    run: CommandRun,
    here: Environment,
) -> tuple[MatrixResult, Detection | None]:
    """Run a matrix and all that is compared with it, each in a worker process."""
    items = train_items(request, matrix)
    today, first = [item.key for item in items], matrix.runs[0].name
    defects = planted(model, matrix) if chosen.detection else []
    if defects:
        narrow = replace(request, dtype="bfloat16")
        again, again_narrow = (
            {config.name: replay_of(each, matrix, config) for config in matrix.runs} for each in (request, narrow)
        )
        items += detection_items(matrix, defects, again, again_narrow)
    cached = not chosen.no_cache
    words = {name: None if value is None else str(value) for name, value in asdict(request).items() if name != "root"}
    head = journal_head("train", settings, here, request.tree, **words, detection=chosen.detection, cached=cached)
    rows: dict[str, TrainedRun] = {}
    with contextlib.closing(run_items(run, TrainWork(request, cached=cached), items, settings, head)) as ran:
        for done in ran:
            (rows[done.item.key],) = done.rows
            if first in rows and rows[first].error is not None:
                break
    runs = assembled(matrix, request.tree, {key: rows[key] for key in today if key in rows}, run.seconds)
    if not defects:
        return runs, None
    detection, problems = detected_by(defects, rows, runs)
    runs.problems += problems
    return runs, detection


def show_list(request: TrainRequest) -> int:
    """List the names that `--matrix` and `--config` accept."""
    model, to = load_model(request.tree), console()
    for matrix in model.matrices:
        line(to, f"--matrix {matrix.name}: {matrix.about}", "bold")
        for config in matrix.runs:
            line(to, f"    {matrix.name}/{config.name}: {config.mesh}, {config.shard_mode}")
    for config in model.configs:
        line(to, f"--config {config.name}: {config.mesh}, {config.shard_mode}", "bold")
    line(to, "a run of a matrix is also a configuration: --config MATRIX/RUN", "dim")
    return 0
