"""Which runs of a matrix are compared with which, and what is said of those that say nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from samebits.host import environment
from samebits.train.compare import Uncompared
from samebits.train.matrix import compared_runs, uncompared_runs
from tests.report.html.run_samples import run, trained
from tests.support.invoke import samebits
from tests.support.toy_model import MATRIX, write_tree

environment.prepare()


def test_a_run_without_a_twin_is_compared_with_the_first() -> None:
    assert [(a.name, b.name) for a, b in compared_runs(MATRIX)] == [("one", "two")]


def test_runs_in_no_comparison_are_named_with_the_reason() -> None:
    """But the first one, which the others are held against."""
    runs = tuple(run.having(dtype="bfloat16") for run in MATRIX.runs)
    matrix = replace(
        MATRIX, runs=(*runs, runs[0].having(name="again"), runs[0].having(name="x", shard_mode="explicit"))
    )
    (pairing,) = trained(run("one"), run("two")).comparisons
    names = [run.name for run in matrix.runs]
    assert uncompared_runs(matrix, names, [replace(pairing, b="again")]) == [
        Uncompared(run="two", reason="bfloat16 on another mesh"),
        Uncompared(run="x", reason="bfloat16 in another shard mode"),
    ]
    assert uncompared_runs(matrix, ["one", "x"], [replace(pairing, a="x of earlier", b="x")]) == []
    assert uncompared_runs(MATRIX, ["one", "two"], []) == [
        Uncompared(run="two", reason="the comparison with one could not be made")
    ]
    assert uncompared_runs(MATRIX, ["one"], []) == []


@pytest.mark.slow
def test_a_configuration_that_is_its_reference_says_so(tmp_path: Path) -> None:
    """Its comparison is one of the bits of a run with those of the same run."""
    done = samebits("train", "--config", "toy/one", "--steps", "2", "--no-cache", "--root", write_tree(tmp_path))
    assert done.code == 0, done.out + done.err
    assert "bitwise 1 (1 of the same configuration, run twice); " in done.out
    assert "one is reference once more: that shows that its bits repeat, and nothing else" in done.out
    wide = samebits("train", "--config", "toy/two", "--steps", "2", "--no-cache", "--root", tmp_path)
    assert wide.code == 0 and "run twice" not in wide.out and "once more" not in wide.out
