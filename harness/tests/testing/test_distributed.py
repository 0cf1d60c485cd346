"""pytest in two processes: `pair_test` works over both, process 0 reports, and xdist is rejected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.foreign import AXES, PLANTED, write_pair
from tests.support.invoke import clean_environment, samebits_process


def test_pair_tests_run_over_two_processes(tmp_path: Path) -> None:
    axes = AXES.replace('"data2"', '"data4"')
    write_pair(tmp_path, "good", axes=axes)
    write_pair(tmp_path, "planted", optimized=PLANTED, axes=axes)
    ended = samebits_process(
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
