"""The limits of control groups count, those above included, also in a container; ended processes hold nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from samebits.host import memory
from samebits.host.processors import control_groups

MIB = 2**20
PARENT = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
VERSION_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
VERSION_1 = "32 31 0:29 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
OTHERS = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"


def machine(folder: Path, group: str, mounts: str, limits: dict[str, str]) -> Path:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(f"{group}\n")
    (folder / "proc/self/mountinfo").write_text(f"{OTHERS}\n{mounts}\n")
    for name, limit in limits.items():
        file = folder / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n")
    return folder


CASES: dict[str, tuple[str, str, dict[str, str], int | None]] = {
    "version 2": ("0::/job", VERSION_2, {"job/memory.max": str(300 * MIB)}, 300),
    "a group above": (
        "0::/slurm/job/step",
        VERSION_2,
        {"slurm/job/step/memory.max": "max", "slurm/job/memory.max": str(200 * MIB)},
        200,
    ),
    "the lowest": ("0::/a/b", VERSION_2, {"a/memory.max": str(300 * MIB), "a/b/memory.max": str(400 * MIB)}, 300),
    "no limit": ("0::/job", VERSION_2, {"job/memory.max": "max"}, None),
    "version 1": ("4:memory:/job\n3:cpu:/other", VERSION_1, {"memory/job/memory.limit_in_bytes": str(250 * MIB)}, 250),
    "version 1 without": ("4:memory:/", VERSION_1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    "version 1, container": (
        "4:cpu,memory:/docker/abc",
        VERSION_1.replace(" / ", " /docker/abc ").replace("rw,memory", "rw,cpu,memory"),
        {"memory/memory.limit_in_bytes": str(128 * MIB)},
        128,
    ),
    "version 2, container with the host's path": (
        "0::/kubepods/pod1/abc",
        VERSION_2.replace(" / ", " /kubepods/pod1/abc "),
        {"memory.max": str(128 * MIB)},
        128,
    ),
    "version 2, a path that is not mounted": ("0::/../../x", VERSION_2, {"memory.max": str(64 * MIB)}, 64),
}


@pytest.mark.parametrize("name", CASES)
def test_limits_of_control_groups(name: str, tmp_path: Path) -> None:
    group, mounts, limits, mebibytes = CASES[name]
    root = machine(tmp_path, group, mounts, limits)
    physical = psutil.virtual_memory().total
    assert memory.total_memory(root) == (physical if mebibytes is None else min(physical, mebibytes * MIB))


def test_a_system_without_control_groups(tmp_path: Path) -> None:
    assert memory.total_memory(tmp_path) == psutil.virtual_memory().total


def test_workers_share_what_there_is(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/job", VERSION_2, {"job/memory.max": str(1000 * MIB)})
    assert memory.memory_limit_per_worker(1, root) == 800 * MIB
    assert memory.memory_limit_per_worker(4, root) == 200 * MIB


def test_the_memory_of_a_process() -> None:
    own = memory.resident_bytes(os.getpid())
    assert own is not None and own > MIB
    block = bytearray(64 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    grown = memory.resident_bytes(os.getpid())
    assert grown is not None and grown > own + 32 * MIB


def test_a_process_that_has_ended_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert memory.resident_bytes(process.pid) is None  # ended, and not yet waited for
    process.wait()
    assert memory.resident_bytes(process.pid) is None


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="not Linux")
def test_a_worker_is_ended_before_its_parent() -> None:
    code = "from samebits.host.memory import end_first; end_first(); print(open('/proc/self/oom_score_adj').read())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == 500


def test_a_size_in_words() -> None:
    assert memory.gibibytes(int(9.44 * memory.GIB)) == "9.4 GiB"


def test_children_are_ended_with_their_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            child = psutil.Process(int(parent.stdout.readline()))
            memory.kill_children(parent.pid)
            until = time.monotonic() + 30
            while (
                child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until
            ):  # its parent does not wait for it
                time.sleep(0.02)
            assert child.status() == psutil.STATUS_ZOMBIE
            assert parent.poll() is None
        finally:
            parent.kill()
    memory.kill_children(parent.pid)  # which has ended


def test_where_proc_is_not_mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/meminfo")

    there = memory.total_memory(tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", missing)
    assert 0.9 < memory.total_memory(tmp_path) / there < 1.1


PROCESSORS_1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct"


@pytest.mark.parametrize(
    ("groups", "mounts", "folders"),
    [
        ("0::/job/step", VERSION_2, [("", 2), ("job", 2), ("job/step", 2)]),
        ("4:cpu,cpuacct:/job", PROCESSORS_1.format(root="/"), [("cpu", 1), ("cpu/job", 1)]),
        ("4:cpu,cpuacct:/docker/a", PROCESSORS_1.format(root="/docker/a"), [("cpu", 1)]),
        ("9:memory:/job", PROCESSORS_1.format(root="/").replace("cpu", "memory"), []),
        ("0::/", "30 23 0:26 / / rw - ext4 /dev/sda1 rw", []),
    ],
    ids=["version 2", "version 1", "container", "another controller", "none"],
)
def test_the_groups(groups: str, mounts: str, folders: list[tuple[str, int]], tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{groups}\n")
    (tmp_path / "proc/self/mountinfo").write_text(f"{mounts}\n")
    found = {(folder, version) for folder, version in control_groups("cpu", tmp_path)}
    assert found == {(tmp_path / "sys/fs/cgroup" / name, version) for name, version in folders}
