"""The runs of a matrix in one process, each as the row that is compared with the others elsewhere.

Single steps are compared where they are run: their arrays do not travel, their distances do. A process that did not run
the first configuration itself runs it once more for its states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from samebits.engine.rows import COULD_NOT_TELL, to_text
from samebits.errors import SamebitsError
from samebits.schema.model import Config, Matrix
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which run, comparison or measurement an item is for.

    Args:
        name: of the run.
        other: of its twin, to compare with; empty for the run itself.
        where: of today's tree, or at the other revision.
    """

    name: str
    other: str = ""
    where: Literal["today", "revision"] = "today"


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
        trainer, recorded = self.base()
        if config is first:
            yield f"measuring how far rounding moves '{first.name}'"
            yield self._measured(trainer, recorded)
            return
        if first.name not in self.forced:
            self.forced[first.name] = forced(trainer, recorded.states)
        yield "compiling and running it"
        with self.trainer(config) as own:
            run = own.run(self.count).run
            yield "running single steps"
            self.forced[config.name] = forced(own, recorded.states)
        comparable = compared_with(self.matrix).get(config.name) is first
        apart = distances(self.forced[first.name], self.forced[config.name]) if comparable else None
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
        _, recorded = self.base()
        for config in (a, b):
            if config.name not in self.forced:
                with self.trainer(config) as trainer:
                    self.forced[config.name] = forced(trainer, recorded.states)
        apart = distances(self.forced[a.name], self.forced[b.name])
        yield TrainedRun(config=b.name, apart=to_text(apart), first_bits=recorded.run.bits)

    def base(self) -> tuple[Trainer, Recorded]:
        """The first configuration, and its run with the states before the single steps."""
        from samebits.train.envelope import forced_steps

        if self._first is None:
            with self.trainer(self.matrix.runs[0]) as trainer:
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
                alone = stack.enter_context(self.trainer(one_device(first)))
            envelope, self.forced[first.name] = measure(trainer, recorded, self.count, alone)
        return TrainedRun(
            config=first.name, run=to_text(recorded.run), envelope=to_text(envelope), first_bits=recorded.run.bits
        )

    @contextlib.contextmanager
    def trainer(self, config: Config) -> Iterator[Trainer]:
        """A compiled trainer; the threads that compile end with the block."""
        from samebits.train.trainer import Trainer, pool

        threads = pool()
        try:
            yield Trainer(self.model, config, self.root, threads)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def compared_with(matrix: Matrix) -> dict[str, Config]:
    """By name of a run, the run that it is compared with."""
    from samebits.train.matrix import compared_runs

    return {run.name: other for other, run in compared_runs(matrix)}
