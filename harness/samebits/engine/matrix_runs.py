"""The runs of a matrix in one process, each as the row that is compared with the others elsewhere.

Single steps are compared where they are run: their arrays do not travel, their distances do. A process that did not run
the first configuration itself runs it once more for its states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from samebits.engine.check_work import to_text
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.schema.model import Config, Defect, Matrix
from samebits.schema.result import Problem
from samebits.train.request import TrainRequest, select
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.train.envelope import Forced
    from samebits.train.record import Recorded
    from samebits.train.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRun:
    """A run of a matrix, with the distances of its single steps from those of the first run; or those of two twins.

    Args:
        config: its name.
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
        name: of the run.
        other: of its twin, to compare with, or of the defect that is planted into it; empty for the run itself.
        where: as it is; `narrow` is the run in bfloat16, `planted` with a defect.
    """

    name: str
    other: str = ""
    where: Literal["today", "narrow", "planted"] = "today"


class MatrixRuns:
    """The runs of a matrix in one process; the first run and single steps of others are cached.

    Args:
        request: selects the matrix.
    """

    def __init__(self, request: TrainRequest) -> None:
        self.model, self.matrix = select(request)
        self.root, self.count = request.tree, request.steps
        self._first: tuple[Trainer, Recorded] | None = None
        self.forced: dict[str, Forced] = {}

    def steps(self, name: str, other: str) -> Iterator[str | TrainedRun]:
        """Return stages in words, and at the end the row of a run, or of its comparison with another one.

        Args:
            name: of the run.
            other: of its twin; empty for the run itself.
        """
        return guarded(name, self._twins(other, name) if other else self._steps(name))

    def _steps(self, name: str) -> Iterator[str | TrainedRun]:
        from samebits.train.envelope import distances, forced

        config, first = self.matrix.run(name), self.matrix.runs[0]
        yield f"running '{first.name}', which the others are compared with"
        trainer, recorded = self.base()
        if config is first:
            yield f"measuring how far rounding moves '{first.name}'"
            yield self._measured(trainer, recorded)
            return
        base = self.base_steps()
        yield "compiling and running it"
        with self.trainer(config) as own:
            run = own.run(self.count).run
            yield "running single steps"
            self.forced[config.name] = forced(own, recorded.states)
        comparable = compared_with(self.matrix).get(config.name) is first
        apart = distances(base, self.forced[config.name]) if comparable else None
        yield TrainedRun(
            config=config.name,
            run=to_text(run),
            apart="" if apart is None else to_text(apart),
            first_bits=recorded.run.bits,
        )

    def _twins(self, name: str, other: str) -> Iterator[str | TrainedRun]:
        """Yield the distances of two runs; single steps that this process has not made are made now."""
        from samebits.train.envelope import distances, forced

        a, b = self.matrix.run(name), self.matrix.run(other)
        yield "running single steps"
        _, recorded = self.base()
        for config in (a, b):
            if config.name not in self.forced:
                with self.trainer(config) as trainer:
                    self.forced[config.name] = forced(trainer, recorded.states)
        apart = distances(self.forced[a.name], self.forced[b.name])
        yield TrainedRun(config=b.name, apart=to_text(apart), first_bits=recorded.run.bits)

    def base(self) -> tuple[Trainer, Recorded]:
        """Return the first configuration, and its run with the states before the single steps."""
        from samebits.train.envelope import forced_steps

        if self._first is None:
            with self.trainer(self.matrix.runs[0]) as trainer:
                self._first = trainer, trainer.run(self.count, forced_steps(self.count))
        return self._first

    def base_steps(self) -> Forced:
        """Return the single steps of the first configuration."""
        from samebits.train.envelope import forced

        first = self.matrix.runs[0].name
        if first not in self.forced:
            trainer, recorded = self.base()
            self.forced[first] = forced(trainer, recorded.states)
        return self.forced[first]

    def _measured(self, trainer: Trainer, recorded: Recorded) -> TrainedRun:
        from samebits.schema.meshes import MeshSpec
        from samebits.train.matrix import one_device
        from samebits.train.measure import measure

        first = self.matrix.runs[0]
        with contextlib.ExitStack() as stack:
            alone = None
            if MeshSpec.parse(first.mesh).devices > 1:
                alone = stack.enter_context(self.trainer(one_device(first)))
            envelope, self.forced[first.name] = measure(trainer, recorded, self.count, alone)
        return TrainedRun(
            config=first.name, run=to_text(recorded.run), envelope=to_text(envelope), first_bits=recorded.run.bits
        )

    @contextlib.contextmanager
    def trainer(self, config: Config, defect: Defect | None = None) -> Iterator[Trainer]:
        """Give a compiled trainer, with a defect where one is planted; the threads that compile end with the block."""
        from samebits.train.trainer import Trainer, pool

        threads = pool()
        try:
            yield Trainer(self.model, config, self.root, threads, defect)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def compared_with(matrix: Matrix) -> dict[str, Config]:
    """Return by name of a run the run that it is compared with."""
    from samebits.train.matrix import compared_runs

    return {run.name: other for other, run in compared_runs(matrix)}


def guarded(name: str, steps: Iterator[str | TrainedRun]) -> Iterator[str | TrainedRun]:
    """Yield the stages of a run and its row; what goes wrong on the way is its row."""
    try:
        yield from steps
    except SamebitsError as error:
        yield TrainedRun(config=name, error=str(error), exit_code=error.exit_code)
    except Exception as error:
        message = f"config '{name}': samebits itself {one_line(error)}; please report it"
        yield TrainedRun(config=name, error=message, exit_code=COULD_NOT_TELL)


def not_run(row: TrainedRun, error: str, name: str = "") -> Problem:
    """Return a run that could not be made, or that says nothing, as a problem.

    Args:
        row: of the run.
        error: why.
        name: of the item; of its configuration by default.
    """
    return Problem(pair=name or row.config, message=error, exit_code=row.exit_code or COULD_NOT_TELL)


def other_bits(row: TrainedRun, first: TrainedRun) -> str | None:
    """Explain why a run says nothing although it was made: its process saw another first run."""
    if row.first_bits == first.first_bits:
        return None
    return (
        f"config '{first.config}' does not repeat its own bits: they differ in the process that ran '{row.config}', "
        "so nothing can be said about it (are nondeterministic kernels allowed?)"
    )
