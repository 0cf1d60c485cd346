"""The gates, applied to defects of a model of two parameters: which sees what, and what is no defect."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import CouldNotRun, RequestError
from samebits.host import environment
from samebits.schema.model import Config, Defect
from samebits.train.detection import GATES
from samebits.train.matrix import run_matrix
from tests.support.defective_model import detected_here
from tests.support.toy_model import MATRIX, toy, training

environment.prepare()

HERE = Path(__file__).parent


def test_which_gate_sees_which_defect() -> None:
    """A gradient a thousandth too large: no printed loss and no bound of eight ulps need see it; this gate does."""

    def scaled(parts: Any) -> Any:
        return {"scale": 1.001}

    def build(config: Config, parts: Any) -> Any:
        return training(config, {}, parts.get("scale", 1.0))

    model = replace(
        toy(HERE), build=build, defects=lambda: (Defect(name="too large", run=MATRIX.runs[1], plant=scaled),)
    )
    found = run_matrix(model, MATRIX, HERE, 20)
    table = detected_here(model, found, HERE)
    (one,) = table.defects
    assert dict(zip(GATES, one.seen, strict=True))["samebits"]
    assert (one.step, one.first_loss_equal) == (1, True)
    assert table.false_alarms[-1] == 0 < table.healthy[-1]
    nothing = replace(model, defects=lambda: (Defect(name="none at all", run=MATRIX.runs[1]),))
    with pytest.raises(CouldNotRun, match="the defect 'none at all' changes no bit of two, so it is not a defect"):
        detected_here(nothing, found, HERE)
    with pytest.raises(RequestError, match="no defect is planted into a run of 'toy'"):
        detected_here(toy(HERE), found, HERE)
