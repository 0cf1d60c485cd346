"""A container that may use less time of the processors than there are has fewer worker processes."""

import os
from pathlib import Path

import pytest

from samebits.host.processors import usable_processors

MOUNT_2 = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
MOUNT_1 = "31 20 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.fixture(autouse=True)
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of sixteen processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        ("max 100000\n", 16),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("1000 100000\n", 1),
        ("9000000 100000\n", 16),
    ],
)
def test_the_quota_of_a_container(quota: str, count: int, tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": MOUNT_2, "sys/fs/cgroup/cpu.max": quota}
    assert usable_processors(write(tmp_path, files)) == count


def test_a_quota_above_the_group(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/job/step\n",
        "proc/self/mountinfo": MOUNT_2,
        "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
        "sys/fs/cgroup/job/cpu.max": "300000 100000\n",
    }
    assert usable_processors(write(tmp_path, files)) == 3


@pytest.mark.parametrize(("quota", "count"), [("-1\n", 16), ("400000\n", 4)])
def test_version_1(quota: str, count: int, tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/a\n",
        "proc/self/mountinfo": MOUNT_1.replace(" / ", " /docker/a ", 1),
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": quota,
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    assert usable_processors(write(tmp_path, files)) == count


def test_without_control_groups(tmp_path: Path) -> None:
    assert usable_processors(tmp_path) == 16
