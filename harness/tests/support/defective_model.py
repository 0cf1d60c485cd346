"""The toy model under three runs, with three defects in a tree; a line is planted where one of them is put into it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from samebits.schema.model import Config, Defect, Matrix, Model, Parts, Training
from samebits.train.detection import Detection, PlantedRun, apply_gates, healthy_rows, planted, table_of
from samebits.train.envelope import Forced, distances, forced
from samebits.train.matrix import MatrixResult
from samebits.train.record import Recorded
from samebits.train.trainer import Trainer, pool
from tests.support.toy_model import toy, training, write_tree

INIT = '''"""A model for tests."""

import os
import time
from pathlib import Path

from tests.support.defective_model import defective

HERE = Path(__file__).parent


def planted(name):
    {planted}


MODEL = defective(HERE, planted)
'''

MATRIX = Matrix(
    name="toy",
    about="one device, and two twins",
    runs=(
        Config(name="one", mesh="data1"),
        Config(name="two", mesh="data2"),
        Config(name="twin", mesh="data2", shard_mode="explicit"),
    ),
    twins=(("two", "twin"),),
)
SCALES = {"slightly too large": 1.00001, "negated": -1.0, "far too large": 1.5}
"""By name of a defect, what it makes of the gradients; see `RUNS`."""
RUNS = {"slightly too large": "two", "negated": "two", "far too large": "twin"}
"""By name of a defect, the run that it is planted into."""


def defective(origin: Path, planted: Callable[[str], Any] = lambda name: None) -> Model:
    """The model."""

    def build(config: Config, parts: Parts) -> Training:
        scale: Any = parts.get("scale", 1.0)
        return training(config, {}, scale * (0.5 if config.dtype == "bfloat16" else 1.0))  # two different trainings

    def plant(name: str) -> Callable[[Parts], Parts]:
        def put(parts: Parts) -> Parts:
            planted(name)
            return {**parts, "scale": SCALES[name]}  # type: ignore[dict-item]

        return put

    defects = tuple(Defect(name=name, run=MATRIX.run(run), plant=plant(name)) for name, run in RUNS.items())
    return replace(toy(origin, matrix=MATRIX), build=build, defects=lambda: defects)


def write_defective(root: Path, planted: str = "pass") -> Path:
    """A tree with the model; the line runs where the defect called `name` is planted."""
    write_tree(root)
    (root / "suites" / "model" / "__init__.py").write_text(INIT.format(planted=planted))
    return root


def run_defect(model: Model, defect: Defect, result: MatrixResult, root: Path, steps: int) -> tuple[Recorded, Forced]:
    """A run with a planted defect, and its single steps from the states of the matrix's first run."""
    threads = pool()
    try:
        trainer = Trainer(model, defect.config, root, threads, defect)
        recorded = trainer.run(steps)
        return recorded, forced(trainer, result.runs[result.matrix.runs[0].name].states)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def detected_here(model: Model, found: MatrixResult, root: Path) -> Detection:
    """The detection table of a matrix that has run in this process, from its states and arrays as they are."""
    first, defects = found.matrix.runs[0].name, planted(model, found.matrix)
    steps, threads, detected = len(found.runs[first].run.steps), pool(), []
    rows = healthy_rows(found.matrix, defects)
    healthy = {row.name: Trainer(model, row, root, threads).run(steps).run for row in rows}
    for defect in defects:
        recorded, alone = run_defect(model, defect, found, root, steps)
        narrow = Trainer(model, defect.config.having(dtype="bfloat16"), root, threads, defect).run(steps).run
        ran = PlantedRun(run=recorded.run, narrow=narrow, apart=distances(found.forced[first], alone))
        detected.append(apply_gates(defect, ran, found, healthy))
    threads.shutdown()
    return table_of(detected, found, healthy)
