"""`dataclasses.replace(PAIR, ...)` keeps name and origin: under pytest it is another declaration all the same."""

from __future__ import annotations

from pathlib import Path

from tests.support.foreign import write_pair
from tests.testing.test_plugin import run_pytest

SUITE = """
import dataclasses
from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="copied",
    reference="plain",
    variants=("fast",),
    args={"x": Arg(shape=("rows", 5), spec=("data",))},
    out_spec={"out": ("data",)},
    cases=(Case(id="small", sizes={"rows": 4}),),
    dtypes=("float32",),
    meshes=("data1",),
    modes=("auto",),
    gradients=False,
)
test_copied = pair_test(PAIR)


def wrong(x):
    return 3 * x


test_wrong = pair_test(dataclasses.replace(PAIR, variants={"fast": wrong}))
test_case = pair_test(dataclasses.replace(PAIR, cases=(Case(id="tall", sizes={"rows": 8}),)))
test_again = pair_test(dataclasses.replace(PAIR))
"""


def test_each_copy_of_a_declaration_is_run_as_it_is(tmp_path: Path) -> None:
    write_pair(tmp_path, "copied", suite=SUITE)
    done = run_pytest(tmp_path, "-v", "suites")
    lines = [line.split() for line in done.stdout.splitlines() if line.endswith("%]")]
    said = {words[0].split("::")[1].split("[")[0]: words[1] for words in lines}  # of each, the variant comes last
    expected = {"test_copied": "PASSED", "test_wrong": "FAILED", "test_case": "PASSED", "test_again": "PASSED"}
    assert said == expected, done.stdout
    assert "StopIteration" not in done.stdout
