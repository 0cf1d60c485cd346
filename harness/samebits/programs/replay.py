"""The command that reproduces a result."""

from __future__ import annotations

import shlex
from pathlib import Path

from samebits.host import environment
from samebits.host.package import builtin_tree
from samebits.programs.catalogue import Locator
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import Point


def replay(locator: Locator, point: Point, command: str = "check", here: Path | None = None) -> str:
    """`samebits check PAIR` with every axis of the sweep pinned to one value; `prove` needs no devices.

    Args:
        locator: of the pair.
        point: the result's.
        command: of samebits.
        here: the folder in which it is typed; the current one by default.
    """
    if locator.rerun is not None:
        return locator.rerun
    words = ["samebits", command, locator.name]
    for name in ("variant", "case", "dtype", "mesh", "mode", "direction"):
        words += [f"--{name}", getattr(point, name)]
    if command == "check" and MeshSpec.parse(point.mesh).devices > environment.DEVICES:
        words += ["--devices", str(MeshSpec.parse(point.mesh).devices)]
    if locator.root and Path(locator.root) != (here or Path.cwd()):
        words += ["--builtin"] if Path(locator.root) == builtin_tree() else ["--root", locator.root]
    return shlex.join(words)
