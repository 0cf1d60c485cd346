"""No room grows without a reason in the table of weights, and few modules are loaded for small questions."""

from pathlib import Path

import pytest

from tests.project.import_graph import ROOT
from tests.project.weight import (
    CORE_FILES,
    CORE_LINES,
    LOADED,
    PACKAGE_FILES,
    PACKAGE_LINES,
    TEST_LINES,
    WEIGHTS,
    Weight,
    lines_of_tests,
    sums,
    table,
    too_heavy,
    weights,
)
from tests.support.child import value_of

COUNT = 'print(sum(f"{name}.".startswith("samebits.") for name in sys.modules))'

QUESTIONS = {
    "assert_same": """
import sys
import jax.numpy as jnp
import samebits
samebits.assert_same(lambda x: x + x, lambda x: 2 * x, jnp.ones((2, 3)))
""",
    "check rms_norm": """
import sys
from samebits.cli import main
try:
    main(["check", "rms_norm", "--case", "default", "--mesh", "data1", "--in-process"])
except SystemExit as end:
    assert not end.code
""",
}


def test_no_room_is_too_heavy() -> None:
    found = weights(ROOT)
    core, every = sums(found)
    if wrong := [*too_heavy(found, WEIGHTS)]:
        pytest.fail("\n".join(wrong), pytrace=False)
    assert core.files <= CORE_FILES and core.lines <= CORE_LINES
    assert every.files <= PACKAGE_FILES and every.lines <= PACKAGE_LINES
    assert found.keys() == WEIGHTS.keys(), "a room of the table is gone"


def test_the_tests_are_not_too_heavy(tmp_path: Path) -> None:
    lines = lines_of_tests(ROOT)
    assert lines <= TEST_LINES, f"{lines} lines of tests, {TEST_LINES} at most: say in weight.py why it needs more"
    (tmp_path / "harness" / "tests").mkdir(parents=True)
    (tmp_path / "harness" / "tests" / "test_planted.py").write_text("pass\n" * 3)
    assert lines_of_tests(tmp_path) == 3


def test_a_room_that_grows_is_found() -> None:
    most = {"check": Weight(2, 100)}
    assert [*too_heavy({"check": Weight(2, 100)}, most)] == []
    (longer,) = too_heavy({"check": Weight(2, 101)}, most)
    assert "has 2 files with 101 lines, 2 with 100 at most" in longer
    assert len([*too_heavy({"check": Weight(3, 9)}, most)]) == 1
    assert "rogue is not in WEIGHTS" in next(too_heavy({"rogue": Weight(1, 1)}, most))


def test_the_table_has_every_room_and_the_sums() -> None:
    found = weights(ROOT)
    lines = table(found).splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["core", "package"]
    assert len(lines) == len(found) + 3


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_small_question_loads_few_modules(question: str) -> None:
    loaded = int(value_of(f"{QUESTIONS[question]}\n{COUNT}"))
    assert 100 < loaded <= LOADED[question], f"{loaded} modules of ours: import what few calls need where they need it"
