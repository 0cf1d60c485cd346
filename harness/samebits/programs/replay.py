"""The command that reproduces a result."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from samebits.host import environment
from samebits.host.installed import builtin_tree
from samebits.programs.catalogue import Locator
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import Point

CALL = "the call in "
"""How the replay of a call in a script begins."""

SETTINGS = {
    "jax_enable_x64": False,
    "jax_default_matmul_precision": None,
    "jax_threefry_partitionable": True,
    "jax_default_prng_impl": "threefry2x32",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
}
"""The settings of jax that programs depend on, with their defaults; others are part of a replay."""


def replay(
    locator: Locator,
    point: Point,
    command: str = "check",
    here: Path | None = None,
    *,
    assuming: bool = True,
    platform: str | None = None,
) -> str:
    """Write `samebits check PAIR` with every axis of the sweep pinned to one value; `prove` needs no devices.

    Args:
        here: the folder in which it is typed; the current one by default.
        assuming: whether a verdict may rest on assumptions beyond shapes and rounding.
        platform: the target of a proof, where it is another one than that of this process.
    """
    if locator.rerun is not None:
        return with_settings(locator.rerun)
    if locator.target:  # the name of a program says on which mesh, in which dtype and direction
        name, how = ("prove", "--compiled") if command == "prove" else ("compile", "--run")
        words = ["samebits", name, locator.name, how, "--target", locator.target, "--case", point.case]
        words += ["--products", locator.products] if locator.products != "full" else []
    else:
        words = ["samebits", command, locator.name]
        for name in ("variant", "case", "dtype", "mesh", "mode", "direction"):
            words += [f"--{name}", getattr(point, name)]
    words += ["--sizes", locator.sizes] if locator.sizes else []
    if command == "check" and MeshSpec.parse(point.mesh).devices > environment.DEVICES:
        words += ["--devices", str(MeshSpec.parse(point.mesh).devices)]
    words += ["--platform", platform] if platform else []
    words += [] if assuming else ["--no-assumptions"]
    return with_settings(shlex.join([*words, *(of_tree(Path(locator.root), here) if locator.root else ())]))


def with_settings(text: str) -> str:
    """Add the settings of jax and XLA that are not the defaults to a replay: a command, or a call in a file."""
    import jax

    here = {name: getattr(jax.config, name, default) for name, default in SETTINGS.items()}
    words = [f"{name.upper()}={_variable(here[name])}" for name in SETTINGS if here[name] != SETTINGS[name]]
    flags = environment.without_device_count(os.environ.get("XLA_FLAGS", ""))
    words += [f"XLA_FLAGS={shlex.quote(flags)}"] if flags else []
    if not words:
        return text
    return f"{text}, with {' '.join(words)}" if text.startswith(CALL) else f"{' '.join(words)} {text}"


def _variable(value: object) -> str:
    """Write the value of a setting as its environment variable has it."""
    return str(int(value)) if isinstance(value, bool) else shlex.quote(str(value))


def of_tree(tree: Path, here: Path | None = None) -> list[str]:
    """Return the option that names a tree; none for the folder in which a command is typed."""
    if tree == (here or Path.cwd()):
        return []
    return ["--builtin"] if tree == builtin_tree() else ["--root", str(tree)]


def without_group(test: str) -> str:
    """Return the id of a test as pytest takes it, without `@GROUP`, which pytest-xdist appends (`--dist loadgroup`)."""
    file, names, name = test.partition("::")
    end = name.rindex("]") if "]" in name else 0  # parameters may have an @ of their own
    return file + names + name[:end] + name[end:].partition("@")[0]


def replay_together(text: str, processes: int) -> str:
    """Write a replay for the processes whose mesh a result is of: started here on the CPU, else by their launcher."""
    import jax

    settings, _, words = text.partition("samebits ")
    if jax.default_backend() != "cpu":
        return f"{settings}samebits {words} --distributed"
    return f"{settings}samebits run launch -n {processes} --devices {jax.local_device_count()} -- {words}"
