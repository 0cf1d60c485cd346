"""The trainings of `samebits train` on the engine: a matrix, and planted defects.

Imports jax.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace

from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import run_items
from samebits.engine.detection_runs import detected_by, detection_items
from samebits.engine.journal import JournalHead
from samebits.engine.matrix_runs import TrainedRun
from samebits.engine.run_work import EngineSettings
from samebits.engine.train_work import TrainWork, assembled, replay_of, train_items
from samebits.host.environment import Environment
from samebits.schema.model import Matrix, Model
from samebits.train.detection import Detection, planted
from samebits.train.matrix import MatrixResult
from samebits.train.request import TrainRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedMatrix:
    """What the runs of a matrix gave.

    Args:
        runs: with their comparisons.
        detection: which gate sees which planted defect.
    """

    runs: MatrixResult
    detection: Detection | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineTrainings:
    """What is trained on the engine.

    Args:
        request: as the options say.
        model, matrix: what it selects.
        detection: whether the model's defects are planted.
        cached: whether compiled steps are cached on disk.
        settings: where and how configurations run.
    """

    request: TrainRequest
    model: Model
    matrix: Matrix
    detection: bool
    cached: bool
    settings: EngineSettings


def run_on_engine(trainings: EngineTrainings, run: CommandRun, here: Environment) -> TrainedMatrix:
    """The runs of a matrix and all that is compared with them, each in a worker process.

    Args:
        trainings: what was asked for.
        run: where notes and problems go.
        here: the environment, for the journal.

    Raises:
        RequestError: no defect is planted into a run of the matrix.
        SamebitsError: the first run failed, so that there is nothing to compare with.
    """
    request, matrix = trainings.request, trainings.matrix
    items = train_items(request, matrix)
    today, first = [item.key for item in items], matrix.runs[0].name
    again = {run.name: replay_of(request, matrix, run) for run in matrix.runs}
    defects = planted(trainings.model, matrix) if trainings.detection else []
    if defects:
        narrow = replace(request, dtype="bfloat16")
        again_narrow = {run.name: replay_of(narrow, matrix, run) for run in matrix.runs}
        items += detection_items(matrix, defects, again, again_narrow)
    work = TrainWork(request, cached=trainings.cached)
    ran = run_items(run, work, items, trainings.settings, _head(trainings, here), request.tree)
    rows: dict[str, TrainedRun] = {}
    with contextlib.closing(ran):
        for done in ran:
            (rows[done.item.key],) = done.rows
            if first in rows and rows[first].error is not None:
                break
    runs = assembled(matrix, request.tree, {key: rows[key] for key in today if key in rows}, run.seconds)
    detection = None
    if defects:
        detection, problems = detected_by(defects, rows, runs)
        runs.problems += problems
    return TrainedMatrix(runs=runs, detection=detection)


def _head(trainings: EngineTrainings, here: Environment) -> JournalHead:
    """What was asked for, for the journal."""
    request = {name: None if value is None else str(value) for name, value in asdict(trainings.request).items()}
    request |= {"root": str(trainings.request.tree.resolve())}
    chosen = {"detection": trainings.detection, "cached": trainings.cached}
    return JournalHead(command="train", request={**request, **chosen}, environment=asdict(here))
