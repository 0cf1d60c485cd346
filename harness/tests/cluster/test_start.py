"""Processes that are started by hand: one that differs is named, and one without the others says what to give."""

import importlib.util
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.foreign import AXES, HONEST, write_pair
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
    first, second = beside(tmp_path, ("good",), ("good", "--direction", "forward", "--repeat", "3"))
    assert (first.code, second.code) == (2, 2)
    assert "samebits: process 1 differs from process 0 in what it runs: " in first.err
    assert "directions (('forward',), not ())" in first.err and "repeats (3, not 2)" in first.err
    assert "start all processes from the same files and settings" in first.err
    assert second.out + second.err == "", "only process 0 prints"


@pytest.mark.slow
def test_the_implementations_are_compared_too(tmp_path: Path) -> None:
    """Two trees whose text is the same but for one line of one implementation; their folders may differ."""
    for name, optimized in (("one", HONEST), ("two", HONEST.replace("2 * x", "x * 2"))):
        write_pair(tmp_path / name, "good", axes=AXES, optimized=optimized)
    roots = [("good", "--direction", "forward", "--root", str(tmp_path / name)) for name in ("one", "two")]
    first, second = beside(tmp_path, *roots)
    assert (first.code, second.code) == (2, 2), first.err
    assert "process 1 differs from process 0 in its sources: optimized_impls_good (good.py): start all" in first.err


def alone(tmp_path: Path, number: int, port: int, wait: int) -> Ended:
    write_pair(tmp_path, "good", axes=AXES)
    said = ("--coordinator", f"127.0.0.1:{port}", "--process-id", str(number), "--num-processes", "2")
    return samebits_process("check", "good", "--distributed", *said, "--wait", str(wait), cwd=tmp_path)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    """XLA would abort the process."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = alone(tmp_path, 0, port, 60)
    assert ended.code == 2
    assert ended.err == (
        f"samebits: --coordinator 127.0.0.1:{port}: process 0 cannot listen there: Address already in use; give a "
        "free port\n"
    )


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (0, 3, "samebits: the start of jax.distributed took longer than 4 s; a process is missing"),
        (
            1,
            2,
            "process 1 finds no process listening there within 4 s (Connection refused); "
            "start process 0, or give its address",
        ),
    ],
)
def test_a_process_without_the_others_ends(tmp_path: Path, number: int, code: int, message: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ended = alone(tmp_path, number, port, 4)
    assert (ended.code, message in ended.err) == (code, True), ended.err


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
