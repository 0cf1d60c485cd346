"""Which pass of a compiler makes a program wrong: its modules between passes are run, by bisection.

Compilers write the module after each pass on request (`xla_dump_hlo_pass_re`). From the partitioner on, each of them is
a program of all partitions that can be run (`samebits.hlo.as_jax`); the first that is wrong follows the pass that made
it so. The program is then compiled without that pass: whether that heals it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.compile.compiler import Lowered, compile_lowered
from samebits.errors import SamebitsError
from samebits.hlo.module import HloModule

DISABLE = "xla_disable_hlo_passes"
"""The option of XLA that leaves passes out, by their names."""

_SNAPSHOT = re.compile(r"\.(\d{4})\.(?P<pipeline>.+)\.after_(?P<after>[^.]+?)(\.before_[^.]+)?\.hlo\.pb$")

_DUMPS = {"xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": False}

LAST = "the last one"
"""In place of a pass where every module between passes is right."""

IsWrong = Callable[[HloModule], bool]
"""Tells whether a module gives wrong outputs; raises where it cannot be run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultyPass:
    """The pass after which a program is wrong.

    Args:
        name: of the pass, or of the pipeline where a module is written only at its start.
        before: the last pass after which the program is right; None where the module before cannot be run.
        ran: how many modules were run, of `written`.
        heals: whether the program is right with the pass disabled; None where it does not compile so.
        modules: the last that is right, and the first that is wrong; None where nothing is known to be right.
    """

    name: str
    before: str | None
    ran: int
    written: int
    heals: bool | None
    modules: tuple[HloModule, HloModule] | None = None

    def __str__(self) -> str:
        counted = f"{self.ran} of {self.written} modules run"
        if self.before is None:
            return f"it is wrong in the first module that can be run, after the pass '{self.name}' ({counted})"
        if self.name == LAST:
            return f"it is right after '{self.before}', the last pass with a module, and wrong in the end ({counted})"
        option = f"compiler option {DISABLE}={self.name}"
        cure = {True: f"right with {option}", False: f"still wrong with {option}", None: "it cannot be disabled"}
        return f"the pass '{self.name}' makes it wrong (right after {self.before}; {counted}); {cure[self.heals]}"


def faulty_pass(program: Lowered, options: Mapping[str, str], is_wrong: IsWrong, final: HloModule) -> FaultyPass | None:
    """Find the pass that makes a program wrong.

    Args:
        options: under which it is wrong.
        is_wrong: judges a module of all partitions.
        final: the wrong module that the compiler returns.

    Returns:
        None where no module between passes is written, or none of them is both runnable and wrong.

    Raises:
        CouldNotRun: the program cannot be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        compile_lowered(program, {**options, "xla_dump_to": folder, **_DUMPS})  # type: ignore[dict-item]
        snapshots = sorted(_snapshots(Path(folder)), key=lambda snapshot: snapshot[0])
        paths = [path for _, _, path in snapshots]
        ran, first, follows = _first_wrong(paths, is_wrong)
        if first is None and not follows:
            return None
        wrong = final if first is None else _module(paths[first])
        last = len(paths) - 1 if first is None else first - 1
        modules = (_module(paths[last]), wrong) if follows else None
    name, before = LAST if first is None else snapshots[first][1], snapshots[last][1] if follows else None
    heals = None if before is None or first is None else _heals(program, options, name, is_wrong)
    return FaultyPass(name=name, before=before, ran=ran, written=len(paths), heals=heals, modules=modules)


def _module(path: Path) -> HloModule:
    return HloModule.of_dump(path.read_bytes())


def _snapshots(folder: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield the modules that were written, each with its number and the pass that it follows."""
    for path in folder.iterdir():
        match = _SNAPSHOT.search(path.name)
        if match is not None:
            after = match["after"] if match["after"] != "pipeline-start" else match["pipeline"]
            yield int(match[1]), after, path


def _first_wrong(paths: Sequence[Path], is_wrong: IsWrong) -> tuple[int, int | None, bool]:
    """Bisect to the first wrong module; those that cannot be run lie before it, for they are not partitioned.

    Returns:
        How many were run, the number of the wrong one or None, and whether the one before it was run and is right.
    """
    judged: dict[int, bool | None] = {}
    low, high = 0, len(paths)
    while low < high:
        middle = (low + high) // 2
        try:
            judged[middle] = is_wrong(_module(paths[middle]))
        except SamebitsError:
            judged[middle] = None
        low, high = (low, middle) if judged[middle] else (middle + 1, high)
    return len(judged), low if low < len(paths) else None, judged.get(low - 1) is False


def without_pass(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the option that disables a pass besides those that other options disable."""
    return {DISABLE: ",".join(filter(None, (options.get(DISABLE), name)))}


def _heals(program: Lowered, options: Mapping[str, str], name: str, is_wrong: IsWrong) -> bool | None:
    try:
        compiled: Any = compile_lowered(program, {**options, **without_pass(options, name)})
        return not is_wrong(HloModule(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()))
    except SamebitsError:
        return None
