"""The runs of `samebits train` as work: one configuration after the other, each with its distances from another one.

Single steps are compared where they are run: their arrays do not travel, their distances do. A process that did not run
the first configuration itself runs it once more for its states; that it gave the same bits there is checked. With
`--detection`, further items are healthy rows in bfloat16, and the model with one defect each; gates are applied in the
driver, where the runs with a defect are records and distances.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from samebits.engine.work import Item, OneByOne, ProcessExit, from_text, lost_words, to_text
from samebits.errors import COULD_NOT_TELL, CouldNotRun, RequestError, SamebitsError
from samebits.programs.replay import of_tree
from samebits.schema.model import Config, Defect, Matrix
from samebits.schema.result import Problem
from samebits.train.request import TrainRequest, select
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.train.detection import Detection, PlantedRun
    from samebits.train.envelope import Forced
    from samebits.train.matrix import MatrixResult
    from samebits.train.record import Recorded
    from samebits.train.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRun:
    """A run of a matrix, with the distances of its single steps from those of the first run; or those of two twins.

    Args:
        run: a `RunRecord`, as text; empty where it could not run, and for twins, which are runs of their own.
        narrow: the same in bfloat16, of a run with a planted defect alone.
        envelope: an `Envelope`, as text, of the first run alone.
        apart: the distances by number of the step, as text.
        first_bits: of the first run, as this process saw it.
        error, exit_code: why it could not run.
    """

    config: str
    run: str = ""
    narrow: str = ""
    envelope: str = ""
    apart: str = ""
    first_bits: str = ""
    error: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which run, comparison or measurement an item is for.

    Args:
        other: of its twin, to compare with, or of the defect that is planted into it; empty for the run itself.
        where: as it is; `narrow` is the run in bfloat16, `planted` with a defect.
    """

    name: str
    other: str = ""
    where: Literal["today", "narrow", "planted"] = "today"


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


def key_of_planted(defect: Defect) -> str:
    """Return the key of the run with a defect, as reports call it: `sparse_ep8 with 'router weights all 1/k'`."""
    return f"{defect.run.name} with '{defect.name}'"


def key_of_narrow(row: Config) -> str:
    """Return the key of a healthy row."""
    return f"{row.name} in {row.dtype}"


def detection_items(
    matrix: Matrix, defects: Sequence[Defect], again: Mapping[str, str], again_narrow: Mapping[str, str]
) -> list[Item]:
    """Return one per healthy row in bfloat16, and one per defect."""
    from samebits.train.detection import healthy_rows

    rows = [
        (key_of_narrow(row), row.mesh, again_narrow[row.name], Wanted(row.name, where="narrow"))
        for row in healthy_rows(matrix, defects)
    ]
    rows += [
        (
            key_of_planted(defect),
            defect.run.mesh,
            shlex.join([*shlex.split(again[defect.run.name]), "--detection"]),
            Wanted(defect.run.name, defect.name, where="planted"),
        )
        for defect in defects
    ]
    return [
        Item(key=key, pair=key, words=f"{key} on {mesh}", replay=replay, group=key, payload=wanted)
        for key, mesh, replay, wanted in rows
    ]


class TrainWork(OneByOne[TrainedRun]):
    """Runs configurations of a matrix, as they are and with planted defects."""

    kind = "train"
    row = TrainedRun

    def __init__(self, request: TrainRequest, *, cached: bool) -> None:
        self.request, self.cached = request, cached
        self._runs: MatrixRuns | None = None

    def steps(self, item: Item) -> Iterator[str | TrainedRun]:
        """Run a configuration, or measure what an item is for."""
        from samebits.train.cache import persistent_compile_cache

        with persistent_compile_cache() if self.cached else contextlib.nullcontext():
            self._runs = self._runs or MatrixRuns(self.request)
            yield from self._runs.steps(item.payload)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> TrainedRun:
        """Return a run that could not be made."""
        name = item.key if item.payload.where == "planted" else f"config '{item.key}'"
        message = f"{name}: {lost_words(loss, stage)}; again: {item.replay}"
        return TrainedRun(config=item.payload.name, error=message, exit_code=COULD_NOT_TELL)

    def close(self) -> None:
        """Drop the compiled steps."""
        self._runs = None


class MatrixRuns:
    """The runs of a matrix in one process; the first run and single steps of others are cached."""

    def __init__(self, request: TrainRequest) -> None:
        self.model, self.matrix = select(request)
        self.root, self.count = request.tree, request.steps
        self._first: tuple[Trainer, Recorded] | None = None
        self._forced: dict[str, Forced] = {}

    def steps(self, wanted: Wanted) -> Iterator[str | TrainedRun]:
        """Yield stages in words, and at the end the row of what is wanted; what goes wrong on the way is its row."""
        name = wanted.name
        try:
            if wanted.where == "narrow":
                yield from self._narrow(name)
            elif wanted.where == "planted":
                yield from self._planted(name, wanted.other)
            else:
                yield from self._twins(wanted.other, name) if wanted.other else self._steps(name)
        except SamebitsError as error:
            yield TrainedRun(config=name, error=str(error), exit_code=error.exit_code)
        except Exception as error:
            message = f"config '{name}': samebits itself {one_line(error)}; please report it"
            yield TrainedRun(config=name, error=message, exit_code=COULD_NOT_TELL)

    def _steps(self, name: str) -> Iterator[str | TrainedRun]:
        from samebits.train.envelope import distances, forced

        config, first = self.matrix.run(name), self.matrix.runs[0]
        yield f"running '{first.name}', which the others are compared with"
        trainer, recorded = self.base()
        if config is first:
            yield f"measuring how far rounding moves '{first.name}'"
            yield self._measured(trainer, recorded)
            return
        base = self.single_steps(first)
        yield "compiling and running it"
        with self.trainer(config) as own:
            run = own.run(self.count).run
            yield "running single steps"
            self._forced[config.name] = forced(own, recorded.states)
        comparable = compared_with(self.matrix).get(config.name) is first
        apart = distances(base, self._forced[config.name]) if comparable else None
        yield TrainedRun(
            config=config.name,
            run=to_text(run),
            apart="" if apart is None else to_text(apart),
            first_bits=recorded.run.bits,
        )

    def _twins(self, name: str, other: str) -> Iterator[str | TrainedRun]:
        from samebits.train.envelope import distances

        a, b = self.matrix.run(name), self.matrix.run(other)
        yield "running single steps"
        _, recorded = self.base()
        apart = distances(self.single_steps(a), self.single_steps(b))
        yield TrainedRun(config=b.name, apart=to_text(apart), first_bits=recorded.run.bits)

    def base(self) -> tuple[Trainer, Recorded]:
        """Return the first configuration, and its run with the states before the single steps."""
        from samebits.train.envelope import forced_steps

        if self._first is None:
            with self.trainer(self.matrix.runs[0]) as trainer:
                self._first = trainer, trainer.run(self.count, forced_steps(self.count))
        return self._first

    def single_steps(self, config: Config) -> Forced:
        """Return the single steps of a run; those that this process has not made are made now."""
        from samebits.train.envelope import forced

        if config.name not in self._forced:
            first, recorded = self.base()
            with contextlib.nullcontext(first) if config is self.matrix.runs[0] else self.trainer(config) as trainer:
                self._forced[config.name] = forced(trainer, recorded.states)
        return self._forced[config.name]

    def _measured(self, trainer: Trainer, recorded: Recorded) -> TrainedRun:
        from samebits.schema.meshes import MeshSpec
        from samebits.train.envelope import measure
        from samebits.train.matrix import one_device

        first = self.matrix.runs[0]
        with contextlib.ExitStack() as stack:
            alone = None
            if MeshSpec.parse(first.mesh).devices > 1:
                alone = stack.enter_context(self.trainer(one_device(first)))
            envelope, self._forced[first.name] = measure(trainer, recorded, self.count, alone)
        return TrainedRun(
            config=first.name, run=to_text(recorded.run), envelope=to_text(envelope), first_bits=recorded.run.bits
        )

    @contextlib.contextmanager
    def trainer(self, config: Config, defect: Defect | None = None) -> Iterator[Trainer]:
        """Give a compiled trainer, with a defect where one is planted; the threads that compile end with the block."""
        from samebits.train.trainer import Trainer, pool

        with pool() as threads:
            yield Trainer(self.model, config, self.root, threads, defect)

    def _narrow(self, name: str) -> Iterator[str | TrainedRun]:
        yield "compiling and running it"
        with self.trainer(self.matrix.run(name).having(dtype="bfloat16")) as trainer:
            run = trainer.run(self.count).run
        yield TrainedRun(config=name, run=to_text(run))

    def _planted(self, name: str, named: str) -> Iterator[str | TrainedRun]:
        from samebits.train.envelope import distances, forced

        (defect,) = (known for known in self.model.defects() if known.name == named)
        yield f"running '{self.matrix.runs[0].name}', which the others are compared with"
        (_, recorded), base = self.base(), self.single_steps(self.matrix.runs[0])
        yield "planting it, and compiling and running the model with it"
        with (
            self.trainer(defect.config, defect) as wide,
            self.trainer(defect.config.having(dtype="bfloat16"), defect) as thin,  # compiles meanwhile
        ):
            run = wide.run(self.count).run
            yield "running single steps with it"
            apart = distances(base, forced(wide, recorded.states))
            yield "running the model with it in bfloat16"
            narrow = thin.run(self.count).run
        yield TrainedRun(
            config=name,
            run=to_text(run),
            narrow=to_text(narrow),
            apart=to_text(apart),
            first_bits=recorded.run.bits,
        )


def compared_with(matrix: Matrix) -> dict[str, Config]:
    """Return by name of a run the run that it is compared with."""
    from samebits.train.matrix import compared_runs

    return {run.name: other for other, run in compared_runs(matrix)}


def not_run(row: TrainedRun, error: str, name: str = "") -> Problem:
    """Return a run that could not be made, or that says nothing, as a problem."""
    return Problem(pair=name or row.config, message=error, exit_code=row.exit_code or COULD_NOT_TELL)


def other_bits(row: TrainedRun, first: TrainedRun) -> str | None:
    """Explain why a run says nothing although it was made: its process saw another first run."""
    if row.first_bits == first.first_bits:
        return None
    return (
        f"config '{first.config}' does not repeat its own bits: they differ in the process that ran '{row.config}', "
        "so nothing can be said about it (are nondeterministic kernels allowed?)"
    )


def assembled(matrix: Matrix, root: Path, rows: Mapping[str, TrainedRun], seconds: float) -> MatrixResult:
    """Return the runs of a matrix and their comparisons, as `run_matrix` gives them, but without states and arrays."""
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


def detected_by(
    defects: Sequence[Defect], rows: Mapping[str, TrainedRun], healthy_runs: MatrixResult
) -> tuple[Detection, list[Problem]]:
    """Return the detection table, and what could not be run or judged."""
    from samebits.train.detection import apply_gates, healthy_rows, table_of
    from samebits.train.record import RunRecord

    matrix, problems, healthy, detected = healthy_runs.matrix, list[Problem](), dict[str, RunRecord](), []
    for config in healthy_rows(matrix, defects):
        key = key_of_narrow(config)
        if key in rows and rows[key].error is None:
            healthy[config.name] = from_text(rows[key].run, RunRecord)
        elif key in rows:
            problems.append(not_run(rows[key], rows[key].error or "", key))
    first = rows[matrix.runs[0].name]
    for defect in defects:
        key = key_of_planted(defect)
        if key not in rows:
            continue
        error = rows[key].error or other_bits(rows[key], first)
        if error is None:
            try:
                detected.append(apply_gates(defect, _planted_run(rows[key]), healthy_runs, healthy))
                continue
            except CouldNotRun as unjudged:
                error = str(unjudged)
        problems.append(not_run(rows[key], error, key))
    return table_of(detected, healthy_runs, healthy), problems


def _planted_run(row: TrainedRun) -> PlantedRun:
    from samebits.train.detection import PlantedRun
    from samebits.train.envelope import Distances
    from samebits.train.record import RunRecord

    return PlantedRun(
        run=from_text(row.run, RunRecord),
        narrow=from_text(row.narrow, RunRecord),
        apart=from_text(row.apart, Distances),  # type: ignore[type-abstract]
    )
