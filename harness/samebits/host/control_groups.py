"""The control groups of this process, by which containers and Slurm limit memory and processors.

psutil reads the machine, not them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def control_groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    """The folders of this process's control group and of all above it, each with the version of its files, 1 or 2.

    Args:
        controller: such as `memory` or `cpu`.
        root: where `proc` and `sys` are mounted.
    """
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
    """The folders of a control group and of those above it, as far as they are mounted here."""
    path = PurePosixPath(group)
    # In a container the mount may begin at the container's own group, while the path is that of the host.
    path = path.relative_to(mounted) if path.is_relative_to(mounted) else PurePosixPath()
    for part in (path, *path.parents):
        if ".." not in part.parts:
            yield point / part.as_posix().lstrip("/")


def lines_of(file: Path) -> list[str]:
    """The lines of a file of the system; none where there is no such file: not Linux, or a group without a limit."""
    try:
        return file.read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:  # as said above
        return []
