"""A program called in this process, or in all processes that its mesh spans, each with its own part of the arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from samebits.host.process_group import ProcessGroup
from samebits.numerics.bits import Comparison
from samebits.programs.host_trees import HostTree, named_leaves, to_host
from samebits.programs.placement import as_taken
from samebits.programs.program_cache import Program
from samebits.programs.spanning import agreed, fetch, in_step, spans
from samebits.schema.contract import Direction


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a program gave.

    Args:
        outputs: on the devices.
        tree: on the host, whole.
        replicas: copies of a piece that differ between devices; None where that was not looked for.
    """

    outputs: Any
    tree: HostTree
    replicas: list[Comparison] | None = None


def run_program(program: Program, call: tuple[Any, ...]) -> Any:
    """Run a compiled program to its end.

    Raises:
        CouldNotRun: it does not compile.
    """
    import jax

    compiled = program.result()
    with program.setup.active():
        return jax.block_until_ready(compiled(*jax.tree.map(as_taken, call)))


def called_together(
    group: ProcessGroup, program: Program, call: tuple[Any, ...], direction: Direction, like: HostTree | None
) -> Fetched:
    """Run a program; where its mesh spans processes, only if all have it compiled, and up to a time limit.

    Args:
        group: the processes.
        program: what runs.
        call: its arguments; of arrays that span processes, each has its part.
        direction: of the point.
        like: what to expect; None where nothing is known.

    Raises:
        CouldNotRun: it does not compile, here or in another process.
        RunEnded: a process does not come, or does not come out of it.
    """
    mesh = program.setup.mesh
    if spans(mesh):
        agreed(group, f"{program.label} compiled", program.result)
    outputs = in_step(group, mesh, program.label, lambda: run_program(program, call))
    if not spans(mesh):
        return Fetched(outputs, to_host(outputs, program, direction))
    leaves = {
        path: value
        for path, value in named_leaves(outputs, direction).items()
        if not getattr(value, "is_fully_addressable", True)
    }
    expected = {} if like is None else {path: leaf.array for path, leaf in like.leaves.items()}
    fetched, replicas = fetch(group, program.label, leaves, expected)
    return Fetched(outputs, to_host(outputs, program, direction, fetched), replicas)
