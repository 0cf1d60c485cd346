"""Which pass of a compiler makes a program wrong: its modules between passes are run, by bisection.

Compilers write the module after each pass on request (`xla_dump_hlo_pass_re`). From the partitioner on, each of them is
a program of all partitions that can be run (`samebits.hlo.as_jax`); the first that is wrong follows the pass that made
it so. The program is then compiled without that pass: whether that heals it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
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

IsWrong = Callable[[HloModule], bool]
"""Tells whether a module gives wrong outputs; raises where it cannot be run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuiltyPass:
    """The pass after which a program is wrong.

    Args:
        name: of the pass; the pipeline in which it runs where the module is written before it only.
        pipeline: in which it runs.
        before: the last pass after which the program is right; None where it is wrong from the partitioner on.
        ran: how many modules were run, of `written`.
        heals: whether the program is right without the pass; None where it does not compile without it, or is the same.
    """

    name: str
    pipeline: str
    before: str | None
    ran: int
    written: int
    heals: bool | None

    def __str__(self) -> str:
        since = "wrong from the partitioner on" if self.before is None else f"right after {self.before}"
        cure = {
            True: f"right without it: compiler option {DISABLE}={self.name}",
            False: "still wrong without it",
            None: "it cannot be left out",
        }[self.heals]
        return f"the pass '{self.name}' makes it wrong ({since}; {self.ran} of {self.written} modules run); {cure}"


def guilty_pass(program: Lowered, options: dict[str, str], is_wrong: IsWrong) -> GuiltyPass | None:
    """Find the pass that makes a program wrong.

    Args:
        options: under which it is wrong.
        is_wrong: judges a module of all partitions.

    Returns:
        None where no module between passes is written, or none of them is both runnable and wrong.

    Raises:
        CouldNotRun: the program cannot be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        compile_lowered(program, {**options, "xla_dump_to": folder, **_DUMPS})  # type: ignore[dict-item]
        snapshots = sorted(_snapshots(Path(folder)), key=lambda snapshot: snapshot[0])
        modules = [(name, path) for _, name, path in snapshots]
        ran, first = _first_wrong([path for _, path in modules], is_wrong)
    if first is None:
        return None
    (pipeline, name), before = modules[first][0], modules[first - 1][0][1] if first else None
    heals = _heals(program, options, name, is_wrong)
    return GuiltyPass(name=name, pipeline=pipeline, before=before, ran=ran, written=len(modules), heals=heals)


def _snapshots(folder: Path) -> Iterator[tuple[int, tuple[str, str], Path]]:
    """Yield the modules of the program in the order in which they were written, each with its pipeline and pass."""
    for path in folder.iterdir():
        match = _SNAPSHOT.search(path.name)
        if match is not None:
            after = match["after"] if match["after"] != "pipeline-start" else match["pipeline"]
            yield int(match[1]), (match["pipeline"], after), path


def _first_wrong(paths: Sequence[Path], is_wrong: IsWrong) -> tuple[int, int | None]:
    """Bisect to the first wrong module; those that cannot be run count as not wrong, for they are not partitioned."""
    ran, low, high = 0, 0, len(paths)
    while low < high:
        middle = (low + high) // 2
        ran += 1
        try:
            wrong = is_wrong(HloModule.of_dump(paths[middle].read_bytes()))
        except SamebitsError:
            wrong = False
        low, high = (low, middle) if wrong else (middle + 1, high)
    return ran, low if low < len(paths) else None


def _heals(program: Lowered, options: dict[str, str], name: str, is_wrong: IsWrong) -> bool | None:
    disabled = ",".join(filter(None, (options.get(DISABLE), name)))
    try:
        compiled: Any = compile_lowered(program, {**options, DISABLE: disabled})
        return not is_wrong(HloModule(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()))
    except SamebitsError:
        return None
