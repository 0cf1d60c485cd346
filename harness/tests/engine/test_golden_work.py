"""The runs of `samebits golden check` as work; that a crash costs one run is shown by `cli/test_golden.py`."""

import pickle
from pathlib import Path

import msgspec

from samebits.engine.model_work import GoldenWork, golden_items
from samebits.engine.work import Finished, ProcessExit, Reached, Started, Trouble
from samebits.train.golden.check import CheckedGolden
from tests.support.toy_model import write_tree


def test_a_run_is_compared_with_its_golden(tmp_path: Path) -> None:
    """Wherever it is sent; here there is none, which its row says."""
    root = write_tree(tmp_path)
    work = pickle.loads(pickle.dumps(GoldenWork(root)))
    started, reached, end = work.run(golden_items(root, ["toy/one"]), 0)
    assert isinstance(started, Started) and isinstance(reached, Reached) and isinstance(end, Finished)
    row = msgspec.json.decode(end.rows[0], type=CheckedGolden)
    assert (row.name, row.status) == ("toy/one", "missing")


def test_a_configuration_that_is_gone_is_trouble(tmp_path: Path) -> None:
    """As where the model was edited while the command ran."""
    root = write_tree(tmp_path)
    (trouble,) = [
        event for event in GoldenWork(root).run(golden_items(root, ["gone"]), 0) if isinstance(event, Trouble)
    ]
    assert trouble.pair == "gone"


def test_a_lost_run_was_not_made() -> None:
    """Exit code 3, with the command that makes it."""
    item = golden_items(Path("/elsewhere"), ["toy/one"])[0]
    row = GoldenWork(Path("/elsewhere")).lost(item, ProcessExit(kind="signal", text="SIGSEGV"), "running it")
    assert (row.status, row.exit_code) == ("not run", 3)
    assert "its process ended while running it: SIGSEGV; again: samebits golden check --config toy/one" in row.message
