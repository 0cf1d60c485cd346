"""The meshes of a `Pair`: their canonical names, and the axes that its arguments and static values name.

In: a pair that is being declared. Out: nothing, or a `DeclarationError` that says what was got and what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from samebits.errors import DeclarationError, MeshError
from samebits.schema.argument_trees import ArgTree
from samebits.schema.case import Arg, AxisSize, Case, ContextMesh
from samebits.schema.meshes import MeshSpec
from samebits.schema.target import fixed_part
from samebits.schema.validate import expected

Declaration = Any
"""A `Pair`, whose module imports this one."""

MISSPELT = 0.8
"""How alike a name must be to an axis to count as that axis misspelt: `dta` is `data`, and `fsdp` is not `dp`."""

WIDEST = 8
"""The devices of the largest mesh that runs wherever there are CPU devices; larger ones are wide meshes."""


def canonical_meshes(pair: str, meshes: Iterable[str]) -> tuple[str, ...]:
    """Return each mesh by the id that results, filters and replays have."""
    try:
        return tuple(MeshSpec.parse(mesh).id for mesh in meshes)
    except MeshError as error:
        raise DeclarationError(f"pair '{pair}': {error}") from error


def with_canonical_meshes(cases: Iterable[Case]) -> Iterator[Case]:
    """Normalise the mesh ids of each case; leave malformed ids for the validator to report."""
    for case in cases:
        meshes = None if case.meshes is None else tuple(map(_canonical, case.meshes))
        yield case if meshes == case.meshes else replace(case, meshes=meshes)


def check_meshes(pair: Declaration) -> None:
    """Reject meshes that are too large for every machine, and axes that are those of a mesh misspelt."""
    for mesh in pair.meshes:
        devices = MeshSpec.parse(mesh).devices
        if devices > WIDEST:
            raise DeclarationError(
                f"pair '{pair.name}': mesh '{mesh}' needs {devices} devices; above {WIDEST} write it in wide_meshes"
            )
    known = _axes(pair)
    for case in (*pair.cases, *(real.case for real in pair.compiled)):
        for static, value in case.statics.items():
            if isinstance(value, ContextMesh) and not known:
                raise DeclarationError(
                    f"pair '{pair.name}', case '{case.id}': {static} is the mesh, and the pair has none; "
                    "declare meshes with axes, as in meshes=('dp2_tp4',)"
                )
            if isinstance(value, AxisSize) and value.axis not in known:
                raise DeclarationError(
                    f"pair '{pair.name}', case '{case.id}': {static} is the size of axis '{value.axis}', which no mesh "
                    f"of the pair has; {expected(value.axis, known) if known else 'its meshes have no axes'}"
                )
    if isinstance(pair.args, Mapping):
        for name, declared in pair.args.items():
            leaves = declared.leaves(name) if isinstance(declared, ArgTree) else {name: declared}
            check_spec_axes(pair, {path: arg for path, arg in leaves.items() if isinstance(arg, Arg)})


def check_spec_axes(pair: Declaration, args: Mapping[str, Arg]) -> None:
    """Reject an axis of a spec that no mesh has and that is spelt almost like one: it would split nothing, unseen.

    Other axes that no mesh of the pair has are left out, as those are that one mesh lacks.
    """
    known = _axes(pair)
    for name, arg in args.items():
        for axis in (axis for entry in arg.spec for axis in (entry if isinstance(entry, tuple) else (entry,))):
            if axis is None or axis in known:
                continue
            near = difflib.get_close_matches(axis, known, n=1, cutoff=MISSPELT)
            if near and near[0].rstrip("0123456789") != axis.rstrip("0123456789"):
                raise DeclarationError(
                    f"pair '{pair.name}', argument '{name}': axis '{axis}' of spec is in no mesh of the pair; "
                    f"{expected(axis, known)}"
                )


def require_axes(pair: Declaration, mesh: MeshSpec) -> None:
    """Reject a mesh with an axis that the pair does not have."""
    for axis in mesh.names:
        if axis not in pair.axes:
            near = difflib.get_close_matches(axis, pair.axes, n=1)
            raise MeshError(
                f"mesh '{mesh.id}': pair '{pair.name}' has no axis '{axis}'; "
                f"it has {', '.join(pair.axes) or 'none'}" + (f"; did you mean '{near[0]}'?" if near else "")
            )


def _axes(pair: Declaration) -> tuple[str, ...]:
    """Return the axes of all meshes, those of production layouts included."""
    compiled = (axis for real in pair.compiled for axis in fixed_part(real.layout).names)
    return tuple(dict.fromkeys((*pair.axes, *compiled)))


def _canonical(mesh: str) -> str:
    try:
        return MeshSpec.parse(mesh).id
    except MeshError:  # the check of cases names it
        return mesh
