"""The runs of `samebits train` as work: one configuration after the other, each with its distances from another one.

Single steps are compared where they are run: their arrays do not travel, their distances do. A process that did not run
the first configuration itself runs it once more for its states; that it gave the same bits there is checked.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.engine.rows import COULD_NOT_TELL, finished, from_text, lost_words, remarks, to_text
from samebits.engine.work import Event, Item, Loss, Reached, Started, Work
from samebits.errors import CouldNotRun, RequestError, SamebitsError
from samebits.programs.replay import of_tree
from samebits.schema.model import Config, Matrix
from samebits.schema.result import Problem
from samebits.train.request import TrainRequest, select
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.train.envelope import Forced
    from samebits.train.matrix import MatrixResult
    from samebits.train.record import Recorded
    from samebits.train.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRun:
    """A run of a matrix, with the distances of its single steps from those of the first run; or those of two twins.

    Args:
        config: its name.
        run: a `RunRecord`, as text; empty where it could not run, and for twins, which are runs of their own.
        envelope: an `Envelope`, as text, of the first run alone.
        apart: the distances by number of the step, as text.
        first_bits: of the first run, as this process saw it.
        error, exit_code: why it could not run.
    """

    config: str
    run: str = ""
    envelope: str = ""
    apart: str = ""
    first_bits: str = ""
    error: str | None = None
    exit_code: int = 0


def train_items(request: TrainRequest, matrix: Matrix) -> list[Item]:
    """One per run of a matrix, and one per comparison of twins, which follows both of them in the same process.

    Args:
        request: as the options say.
        matrix: what it selects.
    """
    twin_of = {b: a for a, b in matrix.twins}
    order = {run.name: number for number, run in enumerate(matrix.runs)}
    items: list[Item] = []
    for run in sorted(matrix.runs, key=lambda run: (order[twin_of.get(run.name, run.name)], order[run.name])):
        group, replay = twin_of.get(run.name, run.name), _replay(request, matrix, run)
        parts = [(run.name, f"{run.name} on {run.mesh}", (run.name, ""))]
        other = _compared_with(matrix).get(run.name)
        if other is not None and other is not matrix.runs[0]:
            name = key_of_twins(other, run)
            parts.append((name, name, (run.name, other.name)))
        items += [
            Item(key=key, pair=group, words=words, replay=replay, group=group, payload=payload)
            for key, words, payload in parts
        ]
    return items


def key_of_twins(a: Config, b: Config) -> str:
    """The key of the comparison of two runs, neither of which is the first."""
    return f"{a.name} and {b.name}"


class TrainWork(Work[TrainedRun]):
    """Runs configurations of a matrix.

    Args:
        request: as the options say.
        cached: whether compiled steps are cached on disk.
    """

    kind = "train"
    row = TrainedRun

    def __init__(self, request: TrainRequest, *, cached: bool) -> None:
        self.request, self.cached = request, cached
        self._runs: MatrixRuns | None = None

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Run configurations."""
        from samebits.train.cache import persistent_compile_cache

        if self._runs is None:
            self._runs = MatrixRuns(self.request)
        for item in items:
            yield Started(key=item.key)
            with persistent_compile_cache() if self.cached else contextlib.nullcontext():
                for step in self._runs.steps(*item.payload):
                    if isinstance(step, str):
                        yield Reached(key=item.key, stage=step)
                    else:
                        yield finished(item.key, (step,))
            yield from remarks()

    def lost(self, item: Item, loss: Loss, stage: str) -> TrainedRun:
        """A run that could not be made."""
        message = f"config '{item.key}': {lost_words(loss, stage)}; again: {item.replay}"
        return TrainedRun(config=item.payload[0], error=message, exit_code=COULD_NOT_TELL)

    def close(self) -> None:
        """Drop the compiled steps."""
        self._runs = None

    def __getstate__(self) -> dict[str, object]:
        return {"request": self.request, "cached": self.cached, "_runs": None}


class MatrixRuns:
    """The runs of a matrix in one process; the first run and single steps of others are cached.

    Args:
        request: selects the matrix.
    """

    def __init__(self, request: TrainRequest) -> None:
        self.model, self.matrix = select(request)
        self.root, self.count = request.tree, request.steps
        self._first: tuple[Trainer, Recorded] | None = None
        self._forced: dict[str, Forced] = {}

    def steps(self, name: str, other: str) -> Iterator[str | TrainedRun]:
        """Stages in words, and at the end the row of a run, or of its comparison with another one.

        Args:
            name: of the run.
            other: of its twin; empty for the run itself.
        """
        try:
            config = self.matrix.run(name)
            yield from self._twins(self.matrix.run(other), config) if other else self._steps(config)
        except SamebitsError as error:
            yield TrainedRun(config=name, error=str(error), exit_code=error.exit_code)
        except Exception as error:
            message = f"config '{name}': samebits itself {one_line(error)}; please report it"
            yield TrainedRun(config=name, error=message, exit_code=COULD_NOT_TELL)

    def _steps(self, config: Config) -> Iterator[str | TrainedRun]:
        from samebits.train.envelope import distances, forced

        first = self.matrix.runs[0]
        yield f"running '{first.name}', which the others are compared with"
        trainer, recorded = self._base()
        if config is first:
            yield f"measuring how far rounding moves '{first.name}'"
            yield self._measured(trainer, recorded)
            return
        if first.name not in self._forced:
            self._forced[first.name] = forced(trainer, recorded.states)
        yield "compiling and running it"
        with self._trainer(config) as own:
            run = own.run(self.count).run
            yield "running single steps"
            self._forced[config.name] = forced(own, recorded.states)
        comparable = _compared_with(self.matrix).get(config.name) is first
        apart = distances(self._forced[first.name], self._forced[config.name]) if comparable else None
        yield TrainedRun(
            config=config.name,
            run=to_text(run),
            apart="" if apart is None else to_text(apart),
            first_bits=recorded.run.bits,
        )

    def _twins(self, a: Config, b: Config) -> Iterator[str | TrainedRun]:
        """The distances of two runs; single steps that this process has not made are made now."""
        from samebits.train.envelope import distances, forced

        yield "running single steps"
        _, recorded = self._base()
        for config in (a, b):
            if config.name not in self._forced:
                with self._trainer(config) as trainer:
                    self._forced[config.name] = forced(trainer, recorded.states)
        apart = distances(self._forced[a.name], self._forced[b.name])
        yield TrainedRun(config=b.name, apart=to_text(apart), first_bits=recorded.run.bits)

    def _base(self) -> tuple[Trainer, Recorded]:
        """The first configuration, and its run with the states before the single steps."""
        from samebits.train.envelope import forced_steps

        if self._first is None:
            with self._trainer(self.matrix.runs[0]) as trainer:
                self._first = trainer, trainer.run(self.count, forced_steps(self.count))
        return self._first

    def _measured(self, trainer: Trainer, recorded: Recorded) -> TrainedRun:
        from samebits.schema.meshes import MeshSpec
        from samebits.train.envelope import measure
        from samebits.train.matrix import one_device

        first = self.matrix.runs[0]
        with contextlib.ExitStack() as stack:
            alone = None
            if MeshSpec.parse(first.mesh).devices > 1:
                alone = stack.enter_context(self._trainer(one_device(first)))
            envelope, self._forced[first.name] = measure(trainer, recorded, self.count, alone)
        return TrainedRun(
            config=first.name, run=to_text(recorded.run), envelope=to_text(envelope), first_bits=recorded.run.bits
        )

    @contextlib.contextmanager
    def _trainer(self, config: Config) -> Iterator[Trainer]:
        """A compiled trainer; the threads that compile end with the block."""
        from samebits.train.trainer import Trainer, pool

        threads = pool()
        try:
            yield Trainer(self.model, config, self.root, threads)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def assembled(matrix: Matrix, root: Path, rows: Mapping[str, TrainedRun], seconds: float) -> MatrixResult:
    """The runs of a matrix and their comparisons, as `run_matrix` gives them, but without states and arrays.

    Args:
        matrix: what was run.
        root: the tree with its pairs.
        rows: by key of their items.
        seconds: wall time.

    Raises:
        SamebitsError: the first run failed, so that there is nothing to compare with; or a request is wrong.
    """
    from samebits.train.compare import clusters, judge_distances
    from samebits.train.envelope import Distances, Envelope
    from samebits.train.matrix import MatrixResult
    from samebits.train.parts import expected_verdict
    from samebits.train.record import Recorded, RunRecord

    first = rows[matrix.runs[0].name]
    for row in rows.values():
        if row.error is not None and (row is first or row.exit_code == RequestError.exit_code):
            raise RequestError(row.error) if row.exit_code == RequestError.exit_code else CouldNotRun(row.error)
    result = MatrixResult(matrix=matrix, envelope=from_text(first.envelope, Envelope), seconds=seconds)
    for row in (rows[config.name] for config in matrix.runs if config.name in rows):
        error = row.error or _other_bits(row, first)
        if error is None:
            result.runs[row.config] = Recorded(run=from_text(row.run, RunRecord))
        else:
            result.problems.append(_problem(row, error))
    assert result.envelope is not None
    for name, other in _compared_with(matrix).items():
        if name not in result.runs or other.name not in result.runs:
            continue
        config = matrix.run(name)
        row = rows[name if other is matrix.runs[0] else key_of_twins(other, config)]
        error = row.error or _other_bits(row, first)
        if error is not None:
            result.problems.append(_problem(row, error))
            continue
        expected, reason = expected_verdict(other, config, root)
        apart = from_text(row.apart, Distances)  # type: ignore[type-abstract]
        a, b = result.runs[other.name].run, result.runs[name].run
        result.comparisons.append(judge_distances(a, b, apart, result.envelope, expected, reason))  # type: ignore[arg-type]
    result.clusters = clusters([recorded.run for recorded in result.runs.values()])
    return result


def _problem(row: TrainedRun, error: str) -> Problem:
    return Problem(pair=row.config, message=error, exit_code=row.exit_code or COULD_NOT_TELL)


def _compared_with(matrix: Matrix) -> dict[str, Config]:
    """By name of a run, the run that it is compared with."""
    from samebits.train.matrix import compared_runs

    return {run.name: other for other, run in compared_runs(matrix)}


def _other_bits(row: TrainedRun, first: TrainedRun) -> str | None:
    """Why a run says nothing although it was made: its process saw another first run."""
    if row.first_bits == first.first_bits:
        return None
    return (
        f"config '{first.config}' does not repeat its own bits: they differ in the process that ran '{row.config}', "
        "so nothing can be said about it (are nondeterministic kernels allowed?)"
    )


def _replay(request: TrainRequest, matrix: Matrix, run: Config) -> str:
    """The command that makes a run again, beside all references on one device."""
    words = ["samebits", "train", "--config", request.config or f"{matrix.name}/{run.name}"]
    for name in ("steps", "dtype", "mesh", "shard_mode", "text"):
        value = getattr(request, name)
        if value is not None and (name, value) != ("steps", TrainRequest().steps):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for choice in request.choices:
        words += ["--choice", choice]
    return shlex.join([*words, *(of_tree(request.root) if request.root else ())])
