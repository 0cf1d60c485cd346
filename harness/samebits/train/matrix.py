"""Runs all configurations of a matrix, and compares them with the first run and with their twins.

In: a model and a matrix. Out: a `MatrixResult`. Configurations compile in threads and run one after another.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from samebits.errors import COULD_NOT_TELL, CouldNotRun, SamebitsError
from samebits.host.group import LockstepGroup
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Matrix, Model
from samebits.schema.result import Problem
from samebits.train.compare import Pairing, Uncompared, clusters, judge_runs
from samebits.train.envelope import ONE_DEVICE, Envelope, Forced, distances, forced, forced_steps, measure
from samebits.train.parts import expected_verdict
from samebits.train.record import Recorded, RunRecord
from samebits.train.trainer import Trainer, pool

Say = Callable[[str], None]


@dataclass(slots=True)
class MatrixResult:
    """The runs of a matrix and their comparisons.

    Args:
        matrix: as declared, or made for one configuration.
        runs: in order; those that could not run are missing here, and listed in `problems`.
        clusters: groups of names of runs with identical bits.
        forced: for each run, its single steps from the first run's states.
    """

    matrix: Matrix
    runs: dict[str, Recorded] = field(default_factory=dict)
    comparisons: list[Pairing] = field(default_factory=list)
    clusters: list[list[str]] = field(default_factory=list)
    envelope: Envelope | None = None
    forced: dict[str, Forced] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0


def compared_runs(matrix: Matrix) -> list[tuple[Config, Config]]:
    """Return the pairs of runs to compare: each all-reference run with the first one, each other run with its twin.

    In bfloat16 only runs on the same mesh are compared: across meshes healthy runs diverge by hundreds of ulps, and a
    bound that accepts this accepts faults too.
    """
    return [(other, run) for other, run in _beside(matrix) if not _apart(other, run)]


def _beside(matrix: Matrix) -> list[tuple[Config, Config]]:
    """Return each run but the first with its twin, or with the first run where it has none."""
    first, twin_of = matrix.runs[0], {b: a for a, b in matrix.twins}
    return [(matrix.run(twin_of[run.name]) if run.name in twin_of else first, run) for run in matrix.runs[1:]]


def _apart(other: Config, run: Config) -> str:
    """Explain why a run is not compared with another one; empty where it is."""
    if run.dtype == "float32" or (other.mesh, other.shard_mode) == (run.mesh, run.shard_mode):
        return ""
    return f"{run.dtype} on another mesh" if other.mesh != run.mesh else f"{run.dtype} in another shard mode"


def uncompared_runs(matrix: Matrix, runs: Collection[str], comparisons: Iterable[Pairing]) -> list[Uncompared]:
    """Return the runs that are in no comparison, but the first one, which is what the others are held against.

    Args:
        comparisons: all that were made, those with another revision or document included.
    """
    compared = {name for pairing in comparisons for name in (pairing.a, pairing.b)}
    alone = []
    for other, run in _beside(matrix):
        if run.name in runs and run.name not in compared:
            reason = _apart(other, run) or f"the comparison with {other.name} could not be made"
            alone.append(Uncompared(run=run.name, reason=reason))
    return alone


def run_matrix(
    model: Model,
    matrix: Matrix,
    root: Path,
    steps: int,
    say: Say = lambda text: None,
    group: LockstepGroup | None = None,
) -> MatrixResult:
    """Run a matrix and compare its runs.

    Args:
        group: the processes that the meshes span; None in a process of its own.

    Raises:
        SamebitsError: the first run fails, so that there is nothing to compare with.
    """
    begin, result = time.perf_counter(), MatrixResult(matrix=matrix)
    with pool() as threads:
        first = matrix.runs[0]
        for config in matrix.runs:
            model.check(config)
        alone = None
        if MeshSpec.parse(first.mesh).devices > 1:
            alone = Trainer(model, one_device(first), root, threads, group=group)
        say(f"compiling {len(matrix.runs)} configurations")
        with contextlib.nullcontext() if group is None else group.point("building the configurations"):
            trainers = _trainers(model, matrix, root, threads, result, group)
        keep = forced_steps(steps)
        for config in matrix.runs:
            if config.name not in trainers:
                continue
            trainer = trainers.pop(config.name)  # so that its step is freed: a process has room for dozens of them only
            say(f"{config.name} on {config.mesh}")
            try:
                with contextlib.nullcontext() if group is None else group.point(config.name):
                    result.runs[config.name] = trainer.run(steps, keep if config is first else ())
                    if config is first:
                        say(f"the envelope of {config.name}")
                        result.envelope, base = measure(trainer, result.runs[config.name], steps, alone)
                        result.problems += other_training(result.envelope)
                        result.forced[config.name] = base
                    else:
                        result.forced[config.name] = forced(trainer, result.runs[first.name].states)
                    if group is not None:
                        _require_same_bits(group, result.runs[config.name].run)
            except SamebitsError as error:
                if config is first:
                    raise
                result.runs.pop(config.name, None)
                result.problems.append(_problem(config, error))
        _compare(result, root)
    result.clusters = clusters([recorded.run for recorded in result.runs.values()])
    result.seconds = time.perf_counter() - begin
    return result


def one_device(config: Config) -> Config:
    """Return the same training on a mesh of one device."""
    return config.on_one_device(f"{config.name}_one_device")


def other_training(envelope: Envelope) -> list[Problem]:
    """Say that the first run is not what it is on one device, where that is so: its mesh changes the mathematics."""
    why = envelope.left_out.get(ONE_DEVICE)
    if why is None:
        return []
    text = f"config '{envelope.config}' is another training on one device: {why}; the others are held against its mesh"
    return [Problem(pair=envelope.config, message=text, exit_code=COULD_NOT_TELL)]


def _require_same_bits(group: LockstepGroup, run: RunRecord) -> None:
    """Hold a run against the same run in the other processes, also where each has its mesh to itself."""
    everywhere = group.share("bits", run.bits)
    for number, bits in enumerate(everywhere):
        if bits != everywhere[0]:
            raise CouldNotRun(f"process {number} comes to other bits than process 0")


def _trainers(
    model: Model,
    matrix: Matrix,
    root: Path,
    threads: ThreadPoolExecutor,
    result: MatrixResult,
    group: LockstepGroup | None,
) -> dict[str, Trainer]:
    trainers = {}
    for config in matrix.runs:
        try:
            trainers[config.name] = Trainer(model, config, root, threads, group=group)
        except SamebitsError as error:
            if config is matrix.runs[0] or error.exit_code == 2:
                raise
            result.problems.append(_problem(config, error))
    return trainers


def _compare(result: MatrixResult, root: Path) -> None:
    assert result.envelope is not None
    for a, b in compared_runs(result.matrix):
        if a.name in result.runs and b.name in result.runs:
            expected, reason = expected_verdict(a, b, root)
            result.comparisons.append(
                judge_runs(
                    result.runs[a.name].run,
                    result.runs[b.name].run,
                    distances(result.forced[a.name], result.forced[b.name]),
                    result.envelope,
                    expected,  # type: ignore[arg-type]
                    reason,
                )
            )


def _problem(config: Config, error: SamebitsError) -> Problem:
    return Problem(pair=config.name, message=str(error), exit_code=error.exit_code)
