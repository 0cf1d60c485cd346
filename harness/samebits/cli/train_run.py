"""`samebits train` as a command: a matrix comes in, traces and comparisons go out. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import asdict, dataclass, replace

from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.run_items import run_items
from samebits.cli.train import TrainOptions
from samebits.cli.train_against import TrainedRevision
from samebits.engine.detection_runs import detected_by, detection_items
from samebits.engine.journal import JournalHead
from samebits.engine.matrix_runs import TrainedRun
from samebits.engine.run_work import EngineSettings
from samebits.engine.train_work import TrainWork, assembled, replay_of, train_items
from samebits.host.environment import Environment
from samebits.report.document import read_as
from samebits.report.terminal import console, line
from samebits.report.train import (
    TrainDocument,
    TrainSummary,
    envelope_record,
)
from samebits.schema.model import Matrix, Model
from samebits.train.cache import persistent_compile_cache
from samebits.train.compare import ORDER, compare_beside
from samebits.train.detection import Detection, planted
from samebits.train.load import load_model
from samebits.train.matrix import MatrixResult, run_matrix, uncompared_runs
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


@dataclass(frozen=True, kw_only=True)
class TrainCommand(Command[Environment, TrainedMatrix, TrainDocument]):
    """Train a matrix.

    Args:
        chosen: the options.
        model, matrix: what runs.
        request: as the options say.
        against: what a git revision gave, to compare with.
        settings: where and how configurations run.
    """

    chosen: TrainOptions
    model: Model
    matrix: Matrix
    request: TrainRequest
    against: TrainedRevision | None
    settings: EngineSettings

    @property
    def cached(self) -> bool:
        """Whether compiled steps are cached on disk."""
        return not self.chosen.no_cache and self.settings.group is None

    def load(self, run: CommandRun) -> Environment:
        """The environment; the model is loaded."""
        if self.chosen.beside is not None:
            read_as(self.chosen.beside, TrainDocument)  # reports a wrong file before the runs
        if self.settings.group is not None:
            return run.start_backend(2)
        return run.start_backend(2, workers=self.settings.processes, ray=self.settings.ray)

    def execute(self, run: CommandRun, inputs: Environment, results: list[TrainedMatrix]) -> None:
        """Train on the engine; where processes share a mesh, here."""
        if self.settings.group is None:
            results.append(self._on_engine(run, inputs))
            return
        tree, steps = self.request.tree, self.request.steps
        with run.progress("train") as bar, persistent_compile_cache() if self.cached else contextlib.nullcontext():
            runs = run_matrix(self.model, self.matrix, tree, steps, bar.say, self.settings.group)
        results.append(TrainedMatrix(runs=runs, detection=None))

    def _on_engine(self, run: CommandRun, here: Environment) -> TrainedMatrix:
        """The runs of a matrix and all that is compared with them, each in a worker process.

        Raises:
            RequestError: no defect is planted into a run of the matrix.
            SamebitsError: the first run failed, so that there is nothing to compare with.
        """
        request, matrix = self.request, self.matrix
        items = train_items(request, matrix)
        today, first = [item.key for item in items], matrix.runs[0].name
        again = {run.name: replay_of(request, matrix, run) for run in matrix.runs}
        defects = planted(self.model, matrix) if self.chosen.detection else []
        if defects:
            narrow = replace(request, dtype="bfloat16")
            again_narrow = {run.name: replay_of(narrow, matrix, run) for run in matrix.runs}
            items += detection_items(matrix, defects, again, again_narrow)
        work = TrainWork(request, cached=self.cached)
        ran = run_items(run, work, items, self.settings, self._head(here), request.tree)
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

    def _head(self, here: Environment) -> JournalHead:
        """What was asked for, for the journal."""
        request = {name: None if value is None else str(value) for name, value in asdict(self.request).items()}
        request |= {"root": str(self.request.tree.resolve())}
        chosen = {"detection": self.chosen.detection, "cached": self.cached}
        return JournalHead(command="train", request={**request, **chosen}, environment=asdict(here))

    def document(self, run: CommandRun, inputs: Environment, results: list[TrainedMatrix]) -> TrainDocument:
        """All traces and comparisons."""
        (trained,) = results
        runs, against = trained.runs, self.against
        records = {name: recorded.run for name, recorded in runs.runs.items()}
        comparisons = [*(against.comparisons(records) if against else ()), *runs.comparisons]
        if self.chosen.beside is not None:
            others = read_as(self.chosen.beside, TrainDocument).results
            comparisons += compare_beside(records, others, runs.envelope, self.chosen.beside.name)
        alone = uncompared_runs(self.matrix, runs.runs, comparisons)
        for problem in (*runs.problems, *(against.problems() if against else ())):
            run.problem(problem)
        verdicts = Counter(comparison.verdict for comparison in comparisons)
        return TrainDocument(
            environment=inputs,
            matrix=self.matrix.name,
            about=self.matrix.about,
            columns=self.matrix.columns,
            results=tuple(recorded.run for recorded in runs.runs.values()),
            against=None if against is None else f"{against.revision} ({against.commit})",
            comparisons=tuple(comparisons),
            clusters=tuple(tuple(names) for names in runs.clusters),
            envelope=envelope_record(runs.envelope),
            problems=tuple(run.problems),
            notes=(*run.notes, *(against.notes([each.name for each in self.matrix.runs], inputs) if against else ())),
            twins=self.matrix.twins,
            detection=trained.detection,
            uncompared=tuple(alone),
            summary=TrainSummary(
                runs=len(runs.runs),
                steps=self.request.steps,
                comparisons=len(comparisons),
                failed=sum(not comparison.ok for comparison in comparisons),
                verdicts={verdict: verdicts[verdict] for verdict in reversed(ORDER)},
                seconds=runs.seconds,
                uncompared=len(alone),
            ),
        )


def runs_of(command: TrainCommand) -> dict[str, str]:
    """What is trained, as text, as several processes must have it alike."""
    runs = {config.name: f"{config.digest()}, {config.mesh}" for config in command.matrix.runs}
    return {**runs, "steps": str(command.request.steps)}


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
