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
    words += ["--sizes", locator.sizes] if locator.sizes else []
    if command == "check" and MeshSpec.parse(point.mesh).devices > environment.DEVICES:
        words += ["--devices", str(MeshSpec.parse(point.mesh).devices)]
    return shlex.join([*words, *(of_tree(Path(locator.root), here) if locator.root else ())])


def of_tree(tree: Path, here: Path | None = None) -> list[str]:
    """The option that names a tree; none for the folder in which a command is typed.

    Args:
        tree: the tree.
        here: the folder; the current one by default.
    """
    if tree == (here or Path.cwd()):
        return []
    return ["--builtin"] if tree == builtin_tree() else ["--root", str(tree)]


def without_group(test: str) -> str:
    """The id of a test as pytest takes it, without `@GROUP`, which `--dist loadgroup` of pytest-xdist appends to it.

    Args:
        test: `FILE::NAME` or `FILE::NAME[PARAMETERS]`, perhaps with the group.
    """
    file, names, name = test.partition("::")
    end = name.rindex("]") if "]" in name else 0  # parameters may have an @ of their own
    return file + names + name[:end] + name[end:].partition("@")[0]


def replay_together(text: str, processes: int) -> str:
    """A replay command for the processes whose mesh a result is of: started here on the CPU, else by their launcher.

    Args:
        text: the command for a process of its own.
        processes: how many there are.
    """
    import jax

    words = text.removeprefix("samebits ")
    if jax.default_backend() != "cpu":
        return f"samebits {words} --distributed"
    return f"samebits launch -n {processes} --devices {jax.local_device_count()} -- {words}"
