"""The trainings of `samebits train` on the engine: a matrix, the same at another revision, and planted defects.

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
from samebits.engine.revision_runs import Revision, compared_at, revision_items
from samebits.engine.run_work import EngineSettings
from samebits.engine.source_signs import SignedSources
from samebits.engine.train_work import TrainWork, assembled, replay_of, train_items
from samebits.host.environment import Environment
from samebits.schema.model import Config, Matrix, Model
from samebits.train.detection import Detection, planted
from samebits.train.matrix import MatrixResult
from samebits.train.other_revision import RevisionComparison, matrix_at
from samebits.train.request import TrainRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedMatrix:
    """What the runs of a matrix gave.

    Args:
        runs: with their comparisons.
        against: the same runs at another revision.
        detection: which gate sees which planted defect.
    """

    runs: MatrixResult
    against: RevisionComparison | None
    detection: Detection | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineTrainings:
    """What is trained on the engine.

    Args:
        request: as the options say.
        model, matrix: what it selects.
        against: a git revision to compare with.
        detection: whether the model's defects are planted.
        cached: whether compiled steps are cached on disk.
        settings: where and how configurations run.
    """

    request: TrainRequest
    model: Model
    matrix: Matrix
    against: str | None
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
        RequestError: the revision has no such matrix, or no run that runs today too; or no defect is planted into one.
        SamebitsError: the first run failed, so that there is nothing to compare with.
    """
    request, matrix = trainings.request, trainings.matrix
    items = train_items(request, matrix)
    today, first = [item.key for item in items], matrix.runs[0].name
    again = {run.name: replay_of(request, matrix, run) for run in matrix.runs}
    defects = planted(trainings.model, matrix) if trainings.detection else []
    with contextlib.ExitStack() as stack:
        revision, then = None, tuple[Config, ...]()
        if trainings.against is not None:
            there, commit, _, matrix_there = stack.enter_context(matrix_at(request, trainings.against))
            revision, then = Revision(name=trainings.against, commit=commit, tree=there.tree), matrix_there.runs
            items += revision_items(revision, then, matrix, again)
        if defects:
            narrow = replace(request, dtype="bfloat16")
            again_narrow = {run.name: replay_of(narrow, matrix, run) for run in matrix.runs}
            items += detection_items(matrix, defects, again, again_narrow)
        work = TrainWork(request, cached=trainings.cached, revision=revision)
        sources = SignedSources(request.tree, None if revision is None else revision.tree)
        ran = run_items(run, work, items, trainings.settings, _head(trainings, here, revision), sources)
        rows: dict[str, TrainedRun] = {}
        with contextlib.closing(ran):
            for done in ran:
                (rows[done.item.key],) = done.rows
                if first in rows and rows[first].error is not None:
                    break
    runs = assembled(matrix, request.tree, {key: rows[key] for key in today if key in rows}, run.seconds)
    against = None if revision is None else compared_at(revision, then, rows, runs)
    detection = None
    if defects:
        detection, problems = detected_by(defects, rows, runs)
        runs.problems += problems
    return TrainedMatrix(runs=runs, against=against, detection=detection)


def _head(trainings: EngineTrainings, here: Environment, revision: Revision | None) -> JournalHead:
    """What was asked for, for the journal."""
    request = {name: None if value is None else str(value) for name, value in asdict(trainings.request).items()}
    request |= {"root": str(trainings.request.tree.resolve())}
    request |= {} if revision is None else {"against": revision.commit}
    chosen = {"detection": trainings.detection, "cached": trainings.cached}
    return JournalHead(command="train", request={**request, **chosen}, environment=asdict(here))
