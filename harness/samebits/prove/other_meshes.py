"""A variant on meshes with other numbers of devices, where a missing collective or a number written out shows.

Interpretation needs no devices. It is asked of programs that are divided by `shard_map`, at one point of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from samebits.errors import CouldNotRun, DeclarationError, NotCovered
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question, first_place
from samebits.interpret.real_programs import real_program
from samebits.interpret.rounding_error.estimate import ideal_values
from samebits.programs.captured_values import equations
from samebits.programs.inputs import Array
from samebits.programs.shared_state import standing_for
from samebits.programs.sides import Site, TracedSides
from samebits.prove.other_numbers import with_devices
from samebits.prove.problem import traced_program
from samebits.schema.meshes import MeshSpec

SIZES = (1, 2, 3, 4)
"""The numbers of devices that are tried on each axis."""

SEVERAL = 2
"""From how many declared sizes of an axis on, besides 1, these show what other sizes would."""

_APART = 1e-6
"""How far apart values in float64 are, in units of the largest of a leaf, that no order of sums explains."""


def on_other_meshes(
    sides: TracedSides, direction: str, alone: Site, variant: tuple[str, Site], question: Question
) -> dict[str, Counterexample]:
    """By leaf, another number of devices at which a variant is not what the reference is on one device.

    Args:
        sides: the programs.
        direction: of both.
        alone: where the reference is.
        variant: the side, and where it is.
        question: of their programs, at inputs that hold on any mesh.
    """
    name, site = variant
    if not any(equation.primitive.name == "shard_map" for equation in equations(question.variant)):
        return {}
    shown: dict[str, Counterexample] = {}
    declared = [*map(MeshSpec.parse, (*sides.pair.meshes, *sides.pair.wide_meshes))]
    for mesh in _others(site.mesh, declared):
        there = replace(site, mesh=mesh, built=mesh.abstract(site.mode))
        try:
            with standing_for(sides.functions[name], site.built, there.built):  # where it has a mesh of its own
                programs = [
                    real_program(traced_program(sides, direction, *side).traced.jaxpr)
                    for side in ((sides.pair.reference_name, replace(alone, mesh=mesh)), (name, there))
                ]
            moved = replace(question, reference=programs[0], variant=programs[1])
            if moved.uneven is None and [v.aval.shape for v in programs[0].jaxpr.invars] == [
                np.shape(argument.values) for argument in question.inputs
            ]:
                first, second = (ideal_values(each, moved, [i.values for i in moved.inputs]) for each in programs)
                for leaf in first.keys() & second.keys() - shown.keys():
                    words = _difference(leaf, first[leaf], second[leaf])
                    if words is not None:
                        words = f"{words}, in float64, on mesh '{mesh.id}'"
                        shown[leaf] = Counterexample(words, mesh in declared, f"mesh '{mesh.id}'")
        except (CouldNotRun, DeclarationError, NotCovered):  # these shapes, or this code, are not for that mesh
            continue
    return shown


def _others(mesh: MeshSpec, declared: Sequence[MeshSpec]) -> Iterator[MeshSpec]:
    """The mesh with other sizes of each axis, but of those that the pair is checked at in several sizes anyway."""
    for axis, size in mesh.axes:
        if len({each.size(axis) for each in declared if axis in each.names} - {1}) >= SEVERAL:
            continue
        yield from (with_devices(mesh, axis, number) for number in SIZES if number != size)


def is_first(sides: TracedSides, site: Site) -> bool:
    """Whether other meshes are tried at a point: at one of the first case and dtype, on the first mesh of its axes."""
    names = site.mesh.names
    meshes = (MeshSpec.parse(text) for text in (*sides.pair.meshes, *sides.pair.wide_meshes))
    first = next((mesh for mesh in meshes if mesh.names == names and mesh.devices > 1), None)
    pair = sides.pair
    return site.case is pair.cases[0] and site.dtype == pair.dtypes[0] and site.mesh == first


def _difference(leaf: str, first: Array, second: Array) -> str | None:
    """Where two leaves are apart, in words."""
    with np.errstate(invalid="ignore"):
        apart = ~(np.abs(first - second) <= _APART * np.max(np.abs(first), initial=0, where=np.isfinite(first)))
    apart &= ~((first == second) | (np.isnan(first) & np.isnan(second)))
    if not apart.any():
        return None
    at = first_place(apart)
    place = f"{leaf}[{', '.join(map(str, at))}]" if at else leaf
    return f"{place} is {first[at]:.6g} in the reference, {second[at]:.6g} here"
