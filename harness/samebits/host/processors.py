"""The processors of this machine: how many this process may use, and their instruction sets."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


# The control groups of this process, by which containers and Slurm limit memory and processors.
def control_groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folders of this process's control group and of all above it, with the version of their files."""
    groups = {}
    for line in lines_of(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))  # version 2 has no controllers: the name is empty
    for line in lines_of(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        if not after.startswith(("cgroup ", "cgroup2 ")):
            continue
        mounted, point = before.split()[3:5]
        version = 2 if after.startswith("cgroup2 ") else 1
        if version == 1 and controller not in after.split()[-1].split(","):
            continue
        group = groups.get("" if version == 2 else controller, "/")
        for folder in _folders(root / point.lstrip("/"), mounted, group):
            yield folder, version


def _folders(point: Path, mounted: str, group: str) -> Iterator[Path]:
    """Yield the folders of a control group and of those above it, as far as they are mounted here."""
    path = PurePosixPath(group)
    # In a container the mount may begin at the container's own group, while the path is that of the host.
    path = path.relative_to(mounted) if path.is_relative_to(mounted) else PurePosixPath()
    for part in (path, *path.parents):
        if ".." not in part.parts:
            yield point / part.as_posix().lstrip("/")


def lines_of(file: Path) -> list[str]:
    """Read the lines of a file of the system; none where there is no such file: not Linux, or no limit."""
    try:
        return file.read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:  # as said above
        return []


NAMED = "SAMEBITS_PROCESSOR"
"""The variable that names an emulated processor: what it reads in `/proc/cpuinfo` is of the host."""


def usable_processors(root: Path = Path("/")) -> int:
    """Count those that this process may run on, or fewer where its container may use less of their time; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min([allowed, *(math.ceil(quota) for quota in _quotas(root))]), 1)


def instruction_sets() -> tuple[str, ...]:
    """Return those of AVX, AVX2, FMA, AVX-512 and AMX that the processor has; empty where the system does not say."""
    named = os.environ.get(NAMED)
    if named:
        return (named,)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            words = set(re.findall(r"\w+", next(line for line in file if line.startswith(("flags", "Features")))))
    except (OSError, StopIteration):
        return ()
    return tuple(
        name for name in ("avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve") if name in words
    )


def _quotas(root: Path) -> Iterator[float]:
    """Yield the processors' worth of time that control groups allow; `max` or -1 means all of it."""
    for folder, version in control_groups("cpu", root):
        if version == 2:
            words = [line.split() for line in lines_of(folder / "cpu.max")]
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            words = [[text for name in names for text in lines_of(folder / name)]]
        for quota, period in (pair for pair in words if len(pair) == 2):
            if quota.isdigit() and period.isdigit() and int(period) > 0:
                yield int(quota) / int(period)
