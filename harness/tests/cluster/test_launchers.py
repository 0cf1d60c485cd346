"""Under real launchers, where they are installed: Open MPI, and Slurm with two nodes on this machine."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurm_cluster import PROGRAMS, cluster, installed
from tests.support.findings import flat_rows
from tests.support.foreign import write_pair
from tests.support.invoke import Ended, clean_environment, command, samebits_process

AXES = 'cases=(Case(id="small", sizes={"rows": 8}),), dtypes=("float32",), meshes=("data8",), modes=("auto",),'

ENDS = """
    import os

    import jax


    def fast(x):
        if jax.process_index() == 1:
            os.abort()
        return x + x
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """How two processes are started, and the variables that this takes."""

    words: tuple[str, ...]
    variables: Mapping[str, str]

    def run(self, tree: Path, words: list[str]) -> Ended:
        """A command in two processes of four devices each."""
        ended = subprocess.run(
            [*self.words, *words],
            cwd=tree,
            env=clean_environment(JAX_NUM_CPU_DEVICES="4", **self.variables),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Launcher]:
    if not installed():
        pytest.skip(f"Slurm is not installed: {', '.join(PROGRAMS)}")
    with tempfile.TemporaryDirectory(prefix="slurm") as folder, cluster(Path(folder)) as variables:
        yield Launcher(words=("srun", "-N2", "-n2", "--kill-on-bad-exit"), variables=variables)


@pytest.fixture(scope="module")
def open_mpi() -> Launcher:
    if shutil.which("mpirun") is None or "Open MPI" not in _version("mpirun"):
        pytest.skip("Open MPI is not installed: mpirun")
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{suffix}": "1" for suffix in ("", "_CONFIRM")}
    return Launcher(words=("mpirun", "--oversubscribe", "-n", "2"), variables=allowed)


def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


@pytest.fixture(params=["slurm", "open_mpi"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    found: Launcher = request.getfixturevalue(request.param)
    return found


def _results(document: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = flat_rows(json.loads(document.read_text()))
    return [{name: value for name, value in row.items() if name not in ("seconds", "replay")} for row in rows]


@pytest.mark.slow
def test_a_check_is_that_of_one_process(launcher: Launcher, tmp_path: Path) -> None:
    """Found without a word about coordinators; process 0 alone reports."""
    write_pair(tmp_path, "good", axes=AXES)
    ended = launcher.run(tmp_path, command("check", "--distributed", "--wait", "60", "--json", "two.json"))
    assert ended.code == 0, ended.out + ended.err
    assert ended.out.count("all contracts hold") == 1
    words = ("check", "--in-process", "--fresh", "--devices", "8", "--json", "one.json")
    one = samebits_process(*words, cwd=tmp_path)
    assert one.code == 0, one.err
    assert _results(tmp_path / "two.json") == _results(tmp_path / "one.json") != []


@pytest.mark.slow
def test_a_process_that_ends_is_named_in_bounded_time(launcher: Launcher, tmp_path: Path) -> None:
    write_pair(tmp_path, "ends", optimized=ENDS, axes=AXES)
    ended = launcher.run(tmp_path, command("check", "--distributed", "--wait", "60", "--json", "two.json"))
    assert ended.code != 0
    assert "all contracts hold" not in ended.out
    assert "Abort" in ended.err or "process 1 has ended" in ended.err, ended.err


@pytest.mark.slow
def test_so_do_the_tests_of_a_suite(launcher: Launcher, tmp_path: Path) -> None:
    """By one variable, which the launcher hands on."""
    write_pair(tmp_path, "good", axes=AXES)
    words = ["env", "SAMEBITS_DISTRIBUTED=1", "SAMEBITS_WAIT=60", sys.executable, "-m", "pytest", "-q"]
    ended = launcher.run(tmp_path, [*words, "-p", "no:xdist", "-p", "no:cacheprovider", "suites"])
    assert ended.code == 0, ended.out + ended.err
    assert " passed" in ended.out and "skipped" not in ended.out, "four devices alone have no mesh of eight"
