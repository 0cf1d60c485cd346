"""The goldens of the project: one for every run of every matrix, complete, and of current configurations."""

import pytest

from samebits.train.golden.check import other_configuration
from samebits.train.golden.record import read_golden
from samebits.train.request import load_model
from tests.support.invoke import REPOSITORY

MODEL = load_model(REPOSITORY)
FOLDER = MODEL.origin / "goldens" / "cpu"
RUNS = [(matrix.name, run.name) for matrix in MODEL.matrices for run in matrix.runs]


@pytest.mark.parametrize(("matrix", "run"), RUNS)
def test_every_run_of_every_matrix_has_a_golden_of_its_own(matrix: str, run: str) -> None:
    golden = read_golden(FOLDER / f"{matrix}__{run}.json")
    config = next(one for one in MODEL.matrices if one.name == matrix).run(run)
    assert not other_configuration(golden, config)
    assert golden.window >= 20 and golden.accepted.reason and golden.accepted.author and golden.accepted.commit


def test_no_golden_is_unused() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{matrix}__{run}.json" for matrix, run in RUNS}
