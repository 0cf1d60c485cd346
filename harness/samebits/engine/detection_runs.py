"""The runs of `samebits train --detection` as items: healthy rows in bfloat16, and the model with one defect each.

Gates are applied in the driver: the runs with a defect travel as records, and its single steps as distances.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from samebits.engine.check_work import from_text, to_text
from samebits.engine.matrix_runs import MatrixRuns, TrainedRun, Wanted, guarded, not_run, other_bits
from samebits.engine.work import Item
from samebits.errors import CouldNotRun
from samebits.schema.model import Config, Defect, Matrix
from samebits.schema.result import Problem

if TYPE_CHECKING:
    from samebits.train.detection import Detection, PlantedRun
    from samebits.train.matrix import MatrixResult


def key_of_planted(defect: Defect) -> str:
    """Return the key of the run with a defect, as reports call it: `sparse_ep8 with 'router weights all 1/k'`."""
    return f"{defect.run.name} with '{defect.name}'"


def key_of_narrow(row: Config) -> str:
    """Return the key of a healthy row."""
    return f"{row.name} in {row.dtype}"


def detection_items(
    matrix: Matrix, defects: Sequence[Defect], again: Mapping[str, str], again_narrow: Mapping[str, str]
) -> list[Item]:
    """Return one per healthy row in bfloat16, and one per defect.

    Args:
        matrix: that the defects are planted into.
        defects: in the order of the table.
        again, again_narrow: by name of a run, the command that makes it again, in float32 and in bfloat16.
    """
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


class DetectionRuns:
    """Healthy rows in bfloat16 and runs with a defect, in one process.

    Args:
        runs: of the matrix, for the single steps of its first run.
    """

    def __init__(self, runs: MatrixRuns) -> None:
        self.runs = runs

    def narrow(self, name: str) -> Iterator[str | TrainedRun]:
        """Return stages in words, and at the end the row of a healthy run in bfloat16."""
        return guarded(name, self._narrow(name))

    def planted(self, name: str, defect: str) -> Iterator[str | TrainedRun]:
        """Return stages in words, and at the end the row of the runs with a defect."""
        return guarded(name, self._planted(name, defect))

    def _narrow(self, name: str) -> Iterator[str | TrainedRun]:
        yield "compiling and running it"
        with self.runs.trainer(self.runs.matrix.run(name).having(dtype="bfloat16")) as trainer:
            run = trainer.run(self.runs.count).run
        yield TrainedRun(config=name, run=to_text(run))

    def _planted(self, name: str, named: str) -> Iterator[str | TrainedRun]:
        from samebits.train.envelope import distances, forced

        (defect,) = (known for known in self.runs.model.defects() if known.name == named)
        yield f"running '{self.runs.matrix.runs[0].name}', which the others are compared with"
        (_, recorded), base = self.runs.base(), self.runs.base_steps()
        yield "planting it, and compiling and running the model with it"
        with (
            self.runs.trainer(defect.config, defect) as wide,
            self.runs.trainer(defect.config.having(dtype="bfloat16"), defect) as thin,  # compiles meanwhile
        ):
            run = wide.run(self.runs.count).run
            yield "running single steps with it"
            apart = distances(base, forced(wide, recorded.states))
            yield "running the model with it in bfloat16"
            narrow = thin.run(self.runs.count).run
        yield TrainedRun(
            config=name,
            run=to_text(run),
            narrow=to_text(narrow),
            apart=to_text(apart),
            first_bits=recorded.run.bits,
        )


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
