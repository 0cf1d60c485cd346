"""The control group of a process and those above it, in both versions, also in a container that sees its own alone."""

from pathlib import Path

import pytest

from samebits.host.processors import control_groups

VERSION_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
VERSION_1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct"


@pytest.mark.parametrize(
    ("groups", "mounts", "folders"),
    [
        ("0::/job/step", VERSION_2, [("", 2), ("job", 2), ("job/step", 2)]),
        ("4:cpu,cpuacct:/job", VERSION_1.format(root="/"), [("cpu", 1), ("cpu/job", 1)]),
        ("4:cpu,cpuacct:/docker/a", VERSION_1.format(root="/docker/a"), [("cpu", 1)]),
        ("9:memory:/job", VERSION_1.format(root="/").replace("cpu", "memory"), []),
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
