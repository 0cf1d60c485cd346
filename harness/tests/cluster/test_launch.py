"""Two processes of four devices on one machine: the document of one process, a death, a hang, and what is rejected.

The lines that end a run are those of docs/guides/many_hosts.md.
"""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from samebits.cluster.launch import LaunchRequest, launch
from samebits.engine.distributed_request import take_request
from samebits.errors import RequestError
from tests.cluster.slurm_cluster import PROGRAMS, cluster, installed
from tests.support import failing_device
from tests.support.findings import flat_rows
from tests.support.foreign import HONEST, PLAIN, PLANTED, write_pair
from tests.support.invoke import Ended, clean_environment, command, samebits, samebits_process

MESHES = 'cases=(Case(id="small", sizes={"rows": 8}),), dtypes=("float32",), meshes=("data8", "data2"),'

SUMLESS = "gradients=False,"
"""Sums over devices are in another order with gloo than within a process."""

WHERE = """
    import os
    import time

    import jax
    from jax.sharding import PartitionSpec


    def on_host(x):
        if jax.process_index() == 1:
            {what}
        return x + x


    def fast(x):
        if x.shape[0] != 8 or not jax.sharding.get_abstract_mesh().axis_names:
            return x + x
        call = lambda part: jax.pure_callback(on_host, jax.ShapeDtypeStruct(part.shape, part.dtype), part)
        return jax.shard_map(call, in_specs=PartitionSpec("data"), out_specs=PartitionSpec("data"))(x)
    """
ON_ONE_MESH = (
    'cases=(Case(id="small", sizes={"rows": 8}),), dtypes=("float32",), meshes=("data8",), modes=("auto",), '
    "gradients=False,"
)

MAX_OF_ROWS = """
    import jax.numpy as jnp


    def plain(x):
        return x - jnp.max(x, axis=0, keepdims=True)
    """
MAX_FIRST = """
    import jax.numpy as jnp


    def fast(x):
        return -(jnp.max(x, axis=0, keepdims=True) - x)
    """


def launched(tree: Path, *words: str, wait: int = 60) -> tuple[int, str, str]:
    """A check of a tree in two processes: exit code, output and errors."""
    ended = samebits_process("run", "launch", "--timeout", "110", "--wait", str(wait), "--", *words, cwd=tree)
    return ended.code, ended.out, ended.err


def rows(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """The results of a document by their keys, without times, commands and the numbers of the devices."""
    names = ("pair", "variant", "case", "dtype", "mesh", "mode", "direction", "leaf")
    results = flat_rows(json.loads(path.read_text(encoding="utf-8")))
    dropped = ("seconds", "replay", "device_order", *names)
    for row in results:
        if row["picture"] is not None:
            row["picture"]["devices"] = list(row["picture"]["devices"].values())
    return {tuple(row[n] for n in names): {k: v for k, v in row.items() if k not in dropped} for row in results}


@pytest.mark.slow
def test_two_processes_give_the_document_of_one(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", reference=PLAIN, optimized=HONEST, axes=MESHES)
    write_pair(tmp_path, "planted", reference=PLAIN, optimized=PLANTED, axes=MESHES)
    write_pair(tmp_path, "over_devices", reference=MAX_OF_ROWS, optimized=MAX_FIRST, axes=MESHES + SUMLESS)
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    code, out, err = launched(tmp_path, "check", "--json", str(two))
    alone = samebits_process("check", "--in-process", "--devices", "8", "--json", one, cwd=tmp_path)
    assert (code, alone.code) == (1, 1), err
    assert rows(two) == rows(one)
    assert out.count("of 3 pairs") == 1, "process 0 reports once"
    replays = [row["replay"] for row in flat_rows(json.loads(two.read_text(encoding="utf-8")))]
    assert all(replay.startswith("samebits run launch -n 2 --devices 4 -- check ") for replay in replays)
    assert "peer ranks" not in out + err
    orders = {row["mesh"]: row["device_order"] for row in flat_rows(json.loads(two.read_text(encoding="utf-8")))}
    assert (orders["data8"], orders["data2"]) == ([], [0, 4]), "a mesh of two devices has one of each process"


def test_a_process_that_dies_is_named_with_the_point(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", axes=ON_ONE_MESH)
    write_pair(tmp_path, "mortal", optimized=WHERE.format(what="os._exit(7)"), axes=ON_ONE_MESH)
    path = tmp_path / "two.json"
    code, _, err = launched(tmp_path, "check", "good", "mortal", "--json", str(path))
    assert code == 3
    line = next(line for line in err.splitlines() if "has ended" in line)
    assert line.startswith(
        "samebits: pair 'mortal': the run ends here: process 1 has ended; it was last at 'mortal: "
    ), err
    assert "fast-small-float32-data8-auto-forward" in line
    assert "process 1 ended with exit code 7" in err
    assert {key[0] for key in rows(path)} >= {"good"}, "what was known is reported"


@pytest.mark.slow
def test_a_process_that_hangs_is_named_with_the_point(tmp_path: Path) -> None:
    write_pair(tmp_path, "asleep", optimized=WHERE.format(what="time.sleep(1000)"), axes=ON_ONE_MESH)
    code, _, err = launched(tmp_path, "check", "asleep", wait=8)
    assert code == 3
    assert "did not come" in err and "process 1" in err and "asleep: fast-small-float32-data8-auto-forward" in err


def test_a_process_understands_how_long_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest reads the variables itself."""
    requests: list[LaunchRequest] = []

    def start(request: LaunchRequest, say: object) -> int:
        requests.append(request)
        return 0

    monkeypatch.setattr("samebits.cluster.launch.launch", start)
    assert samebits("run", "launch", "--wait", "60s", "--", "pytest").code == 0
    request = take_request(requests[0].environment(1, 1234, tmp_path / "report"))
    assert request is not None and (request.process_id, request.seconds) == (1, 60)
    assert "'1.5' is not an integer number of seconds" in samebits("run", "launch", "--wait", "1.5", "--", "pytest").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "launch: give the command after --, such as -- check rms_norm; it starts check, train and pytest"),
        (("prove", "x"), "launch: 'prove' does not run in several processes; check, train and pytest do"),
    ],
)
def test_other_commands_are_rejected(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(RequestError) as error:
        LaunchRequest(words=words, processes=2, devices=4, seconds=None, wait=60)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("samebits: no such pair\n@ 0x7f01 (unknown)\nExtension modules: numpy", ": samebits: no such pair"),
        ("F0000 client.h:80] Terminating\n    @ 0x7f01 (unknown)\n", ": F0000 client.h:80] Terminating"),
        ("@ 0x7f01 (unknown)", ""),
    ],
)
def test_the_last_line_that_says_why_is_shown(tmp_path: Path, printed: str, shown: str) -> None:
    (tmp_path / "pytest.py").write_text(  # in place of the command
        f"import os, sys\nsys.stderr.write({printed!r}) if os.environ['SAMEBITS_PROCESS_ID'] == '1' else None\n"
        "sys.exit(int(os.environ['SAMEBITS_PROCESS_ID']))\n"
    )
    said: list[str] = []
    with contextlib.chdir(tmp_path):
        code = launch(LaunchRequest(words=["pytest"], processes=2, devices=1, seconds=60, wait=5), said.append)
    assert code == 3
    assert said == [
        f"the processes did not end alike: process 0 ended with exit code 0; process 1 ended with exit code 1{shown}"
    ]


def test_one_signal_for_all_is_told(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("import os\nos.abort()\n")
    said: list[str] = []
    with contextlib.chdir(tmp_path):
        code = launch(LaunchRequest(words=["pytest"], processes=2, devices=1, seconds=60, wait=5), said.append)
    assert (code, said) == (3, ["all processes were ended by SIGABRT; nothing was reported"])


NO_REPORT = "samebits: process 0 ended with exit code {} and without a report: the code that it ran ended it\n"


@pytest.mark.parametrize("code", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_end_without_a_report_is_no_verdict(code: int, tmp_path: Path) -> None:
    """User code may end every process with exit code 0 or 1 before anything was compared."""
    (tmp_path / "conftest.py").write_text(f"import os\nos._exit({code})\n")
    ended, _, err = launched(tmp_path, "pytest")
    assert (ended, err) == (3, NO_REPORT.format(code))


def test_a_process_that_cannot_be_started_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.py").write_text("import time\ntime.sleep(600)\n")
    started: list[subprocess.Popen[bytes]] = []
    really = subprocess.Popen

    def start(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        if started:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(really(*words, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start)
    request = LaunchRequest(words=["pytest"], processes=2, devices=1, seconds=60, wait=5)
    with contextlib.chdir(tmp_path), pytest.raises(RequestError) as raised:
        launch(request, print)
    assert str(raised.value) == "launch: process 1 cannot be started: Resource temporarily unavailable"
    assert started[0].returncode == -signal.SIGKILL


def test_an_interrupt_between_two_starts_reaches_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.py").write_text("import time\ntime.sleep(600)\n")
    really, started = subprocess.Popen, []

    def start(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(really(*words, **options))
        if len(started) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    request = LaunchRequest(words=["pytest"], processes=3, devices=1, seconds=60, wait=5)
    said: list[str] = []
    with contextlib.chdir(tmp_path):
        assert launch(request, said.append) == 3
    assert said == ["all processes were ended by SIGTERM; nothing was reported"]


def test_what_user_code_has_started_ends_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text(
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(os.environ['SAMEBITS_PROCESS_ID'], 'w').write(str(child.pid))\n"
    )
    with contextlib.chdir(tmp_path):
        launch(LaunchRequest(words=["pytest"], processes=2, devices=1, seconds=60, wait=5), print)
    for name in ("0", "1"):
        pid = int((tmp_path / name).read_text())
        assert psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)[1] == []


@pytest.mark.slow
def test_a_check_that_ends_without_a_report(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", optimized="import os\ndef fast(x):\n    os._exit(0)\n", axes=ON_ONE_MESH)
    code, _, err = launched(tmp_path, "check")
    assert code == 3 and err.endswith(NO_REPORT.format(0))


@pytest.mark.slow
def test_a_process_that_ends_while_it_is_imported(tmp_path: Path) -> None:
    """At once: neither its silence of a minute nor jax's own end is waited for."""
    ends = "import os, jax\nif jax.process_index() == 1:\n    os._exit(0)\n"
    write_pair(tmp_path, "good", optimized=ends + textwrap.dedent(HONEST), axes=ON_ONE_MESH)
    code, _, err = launched(tmp_path, "check")
    assert code == 3 and err.splitlines() == [
        "samebits: process 1 has ended; it was last at 'starting'",
        "samebits: the processes did not end alike: process 0 ended with exit code 3; process 1 ended with exit code 0",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--help"),
        pytest.param(("pytest", "--help"), marks=pytest.mark.slow),
        pytest.param(("pytest", "--version"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_help_needs_no_report(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert launched(tmp_path, *words)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_a_device_that_fails_in_one_process_ends_the_run(tmp_path: Path, number: int) -> None:
    write_pair(tmp_path, "a_good", axes=ON_ONE_MESH)
    there = f"import jax\n    if jax.process_index() == {number}:\n        fail()\n    return"
    variant = textwrap.dedent(HONEST).replace("return", there)
    write_pair(tmp_path, "b_bad", optimized=failing_device.SOURCE + variant, axes=ON_ONE_MESH)
    path = tmp_path / "two.json"
    code, out, err = launched(tmp_path, "check", "--json", str(path))
    assert code == 3, out + err
    assert "samebits: pair 'b_bad': the run ends here: " in err, err
    assert f"process {number}: b_bad: " in err and " failed: INTERNAL" in err, "the device is named"
    assert {key[0] for key in rows(path)} >= {"a_good"}, "what was known is reported"


# --- under real launchers, where they are installed: Open MPI, and Slurm with two nodes on this machine --------------

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
