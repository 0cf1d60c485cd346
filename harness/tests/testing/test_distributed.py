"""pytest in two processes: `pair_test` works over both, process 0 reports, and xdist is rejected."""

import subprocess
import sys
from pathlib import Path

import pytest

from samebits.testing.distributed import agreed_end
from tests.support.foreign import AXES, PLANTED, write_pair
from tests.support.invoke import clean_environment, samebits_process


@pytest.mark.slow
def test_pair_tests_run_over_two_processes(tmp_path: Path) -> None:
    axes = AXES.replace('"data2"', '"data4"')
    write_pair(tmp_path, "good", axes=axes)
    write_pair(tmp_path, "planted", optimized=PLANTED, axes=axes)
    ended = samebits_process(
        "run",
        "launch",
        "--devices",
        "2",
        "--wait",
        "60",
        "--",
        "pytest",
        "suites",
        "-q",
        "-p",
        "no:cacheprovider",
        cwd=tmp_path,
    )
    assert ended.code == 1, ended.err
    assert ended.out.count(" failed, ") == 1, "process 0 reports once"
    assert "planted" in ended.out and "out[1, 2]" in ended.out


def test_xdist_is_rejected(tmp_path: Path) -> None:
    write_pair(tmp_path, "good")
    words = [sys.executable, "-m", "pytest", "suites", "-n", "2", "--samebits-distributed", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        words, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 4
    assert "every process runs all tests in one order, and xdist deals them out: leave out -n" in ended.stderr


@pytest.mark.parametrize(
    ("others", "ended"),
    [
        ((0, {}), (0, [])),
        ((1, {"test_it": "wrong here"}), (1, ["process 1: test_it: wrong here"])),
        ((2, {}), (3, ["process 1 ends with exit code 2, and process 0 with 0"])),
        ((0, {"test_it": "torn down wrong"}), (0, ["process 1: test_it: torn down wrong"])),
    ],
)
def test_what_fails_elsewhere_alone_counts(others: tuple[int, dict[str, str]], ended: tuple[int, list[str]]) -> None:
    assert agreed_end([(0, {}), others]) == ended


def test_what_fails_everywhere_is_said_once() -> None:
    failed = (1, {"test_it": "wrong"})
    assert agreed_end([failed, failed]) == (1, [])
    assert agreed_end([failed, (0, {})]) == (1, ["process 1 ends with exit code 0, and process 0 with 1"])


@pytest.mark.slow
def test_an_ordinary_test_that_fails_in_process_1(tmp_path: Path) -> None:
    text = "import jax\n\ndef test_it(): assert jax.process_index() == 0\ndef test_other(): pass\n"
    (tmp_path / "test_plain.py").write_text(text)
    ended = samebits_process("run", "launch", "--wait", "60", "--", "pytest", "-p", "no:cacheprovider", cwd=tmp_path)
    assert ended.code == 1, ended.out + ended.err
    assert "samebits: process 1: test_plain.py::test_it: assert 1 == 0" in ended.out


@pytest.mark.slow
def test_a_process_that_is_gone_ends_the_session(tmp_path: Path) -> None:
    """Not as a failure of the pair, with all the tests after it."""
    write_pair(tmp_path, "good", axes=AXES.replace('"data2"', '"data4"'))
    ends = "def gone():\n    jax.process_index() == 0 or os._exit(1)\n"
    (tmp_path / "conftest.py").write_text(f"import jax, os, pytest\n\n@pytest.fixture(autouse=True)\n{ends}")
    ended = samebits_process("run", "launch", "--devices", "2", "--wait", "60", "--", "pytest", "suites", cwd=tmp_path)
    assert ended.code == 3, ended.out + ended.err
    assert "Exit: samebits: the run ends here: process 1 has ended" in ended.out and "could not run" not in ended.out
