"""Processes that are started by hand: one that differs is named, and one without the others says what to give."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.foreign import AXES, write_pair
from tests.support.forked import run_module
from tests.support.invoke import Ended, clean_environment, command, samebits_process


def beside(tree: Path, *words: tuple[str, ...]) -> list[Ended]:
    """Processes of one mesh, each with its own words."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = ("--distributed", "--coordinator", f"127.0.0.1:{port}", "--num-processes", str(len(words)), "--devices", "2")
    processes = [
        subprocess.Popen(
            command("check", *own, *said, "--process-id", str(number), "--wait", "60"),
            cwd=tree,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, own in enumerate(words)
    ]
    ended = []
    for process in processes:
        out, err = process.communicate(timeout=110)
        ended.append(Ended(code=process.returncode, out=out, err=err))
    return ended


def test_a_process_that_differs_is_named_before_the_first_point(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", axes=AXES)
    first, second = beside(tmp_path, ("good",), ("good", "--direction", "forward"))
    assert (first.code, second.code) == (2, 2)
    assert "samebits: process 1 differs from process 0 in what it runs: point 2 (missing, not good/" in first.err
    assert "start all processes from the same files and settings" in first.err
    assert second.out + second.err == "", "only process 0 prints"


@pytest.mark.slow
def test_a_wrong_request_is_said_once(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", axes=AXES)
    first, second = beside(tmp_path, ("good", "--case", "smal"), ("good", "--case", "smal"))
    assert (first.code, second.code) == (2, 2)
    assert "has no case 'smal'" in first.err and second.out + second.err == ""


def test_without_a_launcher_it_is_said_what_to_give(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", axes=AXES)
    ended = samebits_process("check", "good", "--distributed", cwd=tmp_path)
    assert ended.code == 2
    (line,) = ended.lines
    assert line.startswith("samebits: --distributed: jax.distributed detects no launcher here (")
    assert "give --coordinator HOST:PORT --process-id I --num-processes N" in line and "pod" not in line


@pytest.mark.skipif(importlib.util.find_spec("kubernetes") is not None, reason="jax asks a cluster then")
def test_in_a_pod_the_missing_package_is_named(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", axes=AXES)
    words, pod = ("check", "good", "--distributed"), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    ended = run_module("samebits", *words, cwd=tmp_path, variables=pod)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "in a Kubernetes pod it needs the package 'kubernetes', which is missing: pip install 'jax[k8s]'" in line
    assert "give --coordinator HOST:PORT" in line


def test_options_of_a_process_of_its_own_are_rejected(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", axes=AXES)
    ended = samebits_process("check", "good", "--distributed", "--timeout", "5", cwd=tmp_path)
    assert ended.lines == [
        "samebits: --timeout does not go with --distributed; --wait SECONDS limits each point; leave it out"
    ]
    ended = samebits_process("check", "good", "--process-id", "1", cwd=tmp_path)
    assert ended.lines == ["samebits: --process-id goes with --distributed; add it"]
