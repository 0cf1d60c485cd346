"""The processors of this machine: how many this process may use, and their instruction sets."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from samebits.host.control_groups import control_groups, lines_of

NAMED = "SAMEBITS_PROCESSOR"
"""The variable that names an emulated processor: what it reads in `/proc/cpuinfo` is of the host."""


def usable_processors(root: Path = Path("/")) -> int:
    """Those that this process may run on, or fewer where its container may use less of their time; at least 1.

    Args:
        root: where `proc` and `sys` are mounted.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min([allowed, *(math.ceil(quota) for quota in _quotas(root))]), 1)


def instruction_sets() -> tuple[str, ...]:
    """Those of AVX, AVX2, FMA, AVX-512 and AMX that the processor has; empty where the system does not say."""
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
    """Processors' worth of time that control groups allow; version 2 writes `max`, version 1 -1, for all of it."""
    for folder, version in control_groups("cpu", root):
        if version == 2:
            words = [line.split() for line in lines_of(folder / "cpu.max")]
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            words = [[text for name in names for text in lines_of(folder / name)]]
        for quota, period in (pair for pair in words if len(pair) == 2):
            if quota.isdigit() and period.isdigit() and int(period) > 0:
                yield int(quota) / int(period)
