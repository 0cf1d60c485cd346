"""The runs of `samebits train` as work: one configuration after the other, each with its distances from another one.

Single steps are compared where they are run: their arrays do not travel, their distances do. A process that did not run
the first configuration itself runs it once more for its states; that it gave the same bits there is checked.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.engine.check_work import from_text, lost_words
from samebits.engine.detection_runs import DetectionRuns
from samebits.engine.matrix_runs import MatrixRuns, TrainedRun, Wanted, compared_with, not_run, other_bits
from samebits.engine.one_by_one import OneByOne
from samebits.engine.work import Item, ProcessExit
from samebits.errors import COULD_NOT_TELL, CouldNotRun, RequestError
from samebits.programs.replay import of_tree
from samebits.schema.model import Config, Matrix
from samebits.train.request import TrainRequest

if TYPE_CHECKING:
    from samebits.train.matrix import MatrixResult


def train_items(request: TrainRequest, matrix: Matrix) -> list[Item]:
    """Return one per run of a matrix, and one per comparison of twins, which follows both in the same process."""
    twin_of = {b: a for a, b in matrix.twins}
    order = {run.name: number for number, run in enumerate(matrix.runs)}
    items: list[Item] = []
    for run in sorted(matrix.runs, key=lambda run: (order[twin_of.get(run.name, run.name)], order[run.name])):
        group, replay = twin_of.get(run.name, run.name), replay_of(request, matrix, run)
        parts = [(run.name, f"{run.name} on {run.mesh}", Wanted(run.name))]
        other = compared_with(matrix).get(run.name)
        if other is not None and other is not matrix.runs[0]:
            name = key_of_twins(other, run)
            parts.append((name, name, Wanted(run.name, other.name)))
        items += [
            Item(key=key, pair=group, words=words, replay=replay, group=group, payload=payload)
            for key, words, payload in parts
        ]
    return items


def key_of_twins(a: Config, b: Config) -> str:
    """Return the key of the comparison of two runs, neither of which is the first."""
    return f"{a.name} and {b.name}"


class TrainWork(OneByOne[TrainedRun]):
    """Runs configurations of a matrix, as they are and with planted defects.

    Args:
        request: as the options say.
        cached: whether compiled steps are cached on disk.
    """

    kind = "train"
    row = TrainedRun

    def __init__(self, request: TrainRequest, *, cached: bool) -> None:
        self.request, self.cached = request, cached
        self._runs: MatrixRuns | None = None

    def steps(self, item: Item) -> Iterator[str | TrainedRun]:
        """Run a configuration, or measure what an item is for."""
        from samebits.train.cache import persistent_compile_cache

        wanted: Wanted = item.payload
        with persistent_compile_cache() if self.cached else contextlib.nullcontext():
            runs = self._runs = self._runs or MatrixRuns(self.request)
            if wanted.where == "today":
                yield from runs.steps(wanted.name, wanted.other)
            elif wanted.where == "narrow":
                yield from DetectionRuns(runs).narrow(wanted.name)
            else:
                yield from DetectionRuns(runs).planted(wanted.name, wanted.other)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> TrainedRun:
        """Return a run that could not be made."""
        name = item.key if item.payload.where == "planted" else f"config '{item.key}'"
        message = f"{name}: {lost_words(loss, stage)}; again: {item.replay}"
        return TrainedRun(config=item.payload.name, error=message, exit_code=COULD_NOT_TELL)

    def close(self) -> None:
        """Drop the compiled steps."""
        self._runs = None


def assembled(matrix: Matrix, root: Path, rows: Mapping[str, TrainedRun], seconds: float) -> MatrixResult:
    """Return the runs of a matrix and their comparisons, as `run_matrix` gives them, but without states and arrays.

    Raises:
        SamebitsError: the first run failed, so that there is nothing to compare with; or a request is wrong.
    """
    from samebits.train.compare import clusters, judge_runs
    from samebits.train.envelope import Distances, Envelope
    from samebits.train.matrix import MatrixResult, other_training
    from samebits.train.parts import expected_verdict
    from samebits.train.record import Recorded, RunRecord

    first = rows[matrix.runs[0].name]
    for row in rows.values():
        if row.error is not None and (row is first or row.exit_code == RequestError.exit_code):
            raise RequestError(row.error) if row.exit_code == RequestError.exit_code else CouldNotRun(row.error)
    result = MatrixResult(matrix=matrix, envelope=from_text(first.envelope, Envelope), seconds=seconds)
    for row in (rows[config.name] for config in matrix.runs if config.name in rows):
        error = row.error or other_bits(row, first)
        if error is None:
            result.runs[row.config] = Recorded(run=from_text(row.run, RunRecord))
        else:
            result.problems.append(not_run(row, error))
    assert result.envelope is not None
    result.problems += other_training(result.envelope)
    for name, other in compared_with(matrix).items():
        if name not in result.runs or other.name not in result.runs:
            continue
        config = matrix.run(name)
        row = rows[name if other is matrix.runs[0] else key_of_twins(other, config)]
        error = row.error or other_bits(row, first)
        if error is not None:
            result.problems.append(not_run(row, error))
            continue
        expected, reason = expected_verdict(other, config, root)
        apart = from_text(row.apart, Distances)  # type: ignore[type-abstract]
        a, b = result.runs[other.name].run, result.runs[name].run
        result.comparisons.append(judge_runs(a, b, apart, result.envelope, expected, reason))  # type: ignore[arg-type]
    result.clusters = clusters([recorded.run for recorded in result.runs.values()])
    return result


def replay_of(request: TrainRequest, matrix: Matrix, run: Config) -> str:
    """Return the command that makes a run again, beside all references on one device."""
    words = ["samebits", "train", "--config", request.config or f"{matrix.name}/{run.name}"]
    for name in ("steps", "dtype", "mesh", "shard_mode", "text"):
        value = getattr(request, name)
        if value is not None and (name, value) != ("steps", TrainRequest().steps):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for choice in request.choices:
        words += ["--choice", choice]
    return shlex.join([*words, *(of_tree(request.root) if request.root else ())])
