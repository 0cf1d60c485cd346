"""The runs that the options of `samebits train` select."""

from pathlib import Path

from samebits.train.request import TrainRequest, select
from tests.support.toy_model import write_tree

CALLED_REFERENCE = """
from dataclasses import replace

from samebits import Config

MODEL = replace(MODEL, configs=(Config(name="reference", mesh="data2"), Config(name="other", mesh="data2")))
"""


def test_a_configuration_may_be_called_reference(tmp_path: Path) -> None:
    """It is held against all references on one device, as any other, whose run then has another name."""
    root = write_tree(tmp_path)
    file = root / "suites" / "model" / "__init__.py"
    file.write_text(file.read_text() + CALLED_REFERENCE)
    for name, first in (("reference", "reference_on_one_device"), ("other", "reference")):
        _, matrix = select(TrainRequest(config=name, root=root))
        assert [(run.name, run.mesh) for run in matrix.runs] == [(first, "data1"), (name, "data2")]
