"""A variant on meshes with other numbers of devices, where a missing collective or a number written out shows.

Interpretation needs no devices. It is asked of programs that are divided by `shard_map`, at one point of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from samebits.errors import CouldNotRun, DeclarationError
from samebits.interpret.float64_differences import differences
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question
from samebits.interpret.real_programs import real_program
from samebits.programs.captured_values import equations
from samebits.programs.shared_state import standing_for
from samebits.programs.sides import Site, TracedSides
from samebits.prove.problem import traced_program
from samebits.schema.meshes import MeshSpec

SIZES = (1, 2, 3, 4)
"""The numbers of devices that are tried on each axis."""

_APART = 1e-6
"""How far apart values in float64 are, in units of the largest of a leaf, that no order of sums explains."""


def on_other_meshes(
    sides: TracedSides, direction: str, alone: Site, variant: tuple[str, Site], question: Question
) -> dict[str, Counterexample]:
    """Find, by leaf, another number of devices at which a variant differs from the reference on one device.

    Args:
        sides: the programs.
        direction: of both.
        alone: where the reference is.
        variant: the side, and where it is.
        question: of their programs, at inputs that hold on any mesh.
    """
    name, site = variant
    if not is_divided(question.variant):
        return {}
    shown: dict[str, Counterexample] = {}
    declared = _declared(sides)
    for mesh in _others(site.mesh, declared):
        there = replace(site, mesh=mesh, built=mesh.abstract(site.mode))
        ends = (sides.pair.reference_name, replace(alone, mesh=mesh)), (name, there)
        try:
            with standing_for(sides.functions[name], site.built, there.built):  # where it has a mesh of its own
                first, second = (real_program(traced_program(sides, direction, *end).traced.jaxpr) for end in ends)
        except (CouldNotRun, DeclarationError):  # these shapes, or this code, are not for that mesh
            continue
        moved = replace(question, reference=first, variant=second)
        if moved.uneven is None and [aval.shape for aval in first.in_avals] == [
            argument.values.shape for argument in question.inputs
        ]:
            rest = [leaf for leaf in question.outputs if leaf not in shown]
            for leaf, words in differences(moved, rest, _APART).items():
                text = f"{words}, in float64, on mesh '{mesh.id}'"
                shown[leaf] = Counterexample(text, mesh in declared, f"mesh '{mesh.id}'")
    return shown


def is_divided(program: Any) -> bool:
    """Whether a program is divided by `shard_map`, so that other meshes are tried."""
    return any(equation.primitive.name == "shard_map" for equation in equations(program))


def _declared(sides: TracedSides) -> list[MeshSpec]:
    return [*map(MeshSpec.parse, (*sides.pair.meshes, *sides.pair.wide_meshes))]


def _others(mesh: MeshSpec, declared: Sequence[MeshSpec]) -> Iterator[MeshSpec]:
    """Yield the mesh with other sizes of each axis, except of axes that the pair declares in several sizes."""
    for axis, size in mesh.axes:
        if len({each.size(axis) for each in declared if axis in each.names} - {1}) < 2:
            yield from (mesh.with_devices(axis, number) for number in SIZES if number != size)


def is_first(sides: TracedSides, site: Site) -> bool:
    """Tell whether a point tries other meshes: it is of the first case and dtype, on the first mesh of its axes."""
    several = (mesh for mesh in _declared(sides) if mesh.names == site.mesh.names and mesh.devices > 1)
    pair = sides.pair
    return site.case is pair.cases[0] and site.dtype == pair.dtypes[0] and site.mesh == next(several, None)
