"""Where a side runs alone on one device, and the meshes that functions bring along themselves.

A function that only computes needs no mesh. One that constrains shardings by axis names, or takes its mesh as an
argument, needs one: then it gets a mesh of one device with the axes of the point. One whose `shard_map` is on a mesh
object of the user's own runs on those devices or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import Mesh

from samebits.errors import CouldNotRun
from samebits.programs.captured_values import equations
from samebits.programs.shared_state import values_around
from samebits.programs.sides import Site, TracedSides
from samebits.schema.meshes import MeshSpec


def sites_alone(sides: TracedSides, site: Site) -> Iterator[Site]:
    """Yield the ways to have a side on one device: without a mesh, then under a mesh of one device.

    That has the axes of the site, or of the pair where it has no mesh: first with their types, then all of type auto.
    """
    axes = site.mesh.names or sides.pair.axes
    if not axes or not site.case.context_meshes:
        yield replace(site, built=None, alone=True)
    single, first = site.mesh.having(tuple((axis, 1) for axis in axes)), jax.local_devices()[:1]
    for mesh in dict.fromkeys((single.build(site.mode, first), single.untyped.build("auto", first))):
        if mesh is not None:
            yield replace(site, built=mesh, alone=True)


def site_alone(sides: TracedSides, side: str, site: Site) -> Site:
    """Return the first of these at which a side can be traced; the last where it cannot, for its error."""
    candidate = site
    for candidate in sites_alone(sides, site):
        if sides.forward(side, candidate).error is None:
            break
    return candidate


def on_mesh_of(sides: TracedSides, variant: str, site: Site) -> Site:
    """Return where the reference and a variant run on the mesh of a point: on the mesh that one of them brings along.

    A point without a mesh is on one device, as the reference alone is.

    Raises:
        CouldNotRun: a side's own mesh has other axes than the point.
    """
    for side in dict.fromkeys((sides.pair.reference_name, variant)):
        site = on_own_mesh(sides, side, site)
    return site if site.mesh.axes else site_alone(sides, variant, site)


def baseline(sides: TracedSides, on_mesh: Site, *, runs: bool = True) -> tuple[Site, str | None]:
    """Return where the reference runs that others are compared with, and a remark where that is not one device.

    Where it need not run there, it suffices that it can be traced.
    """
    reference = sides.pair.reference_name
    alone = site_alone(sides, reference, on_mesh)
    own = own_mesh(sides, reference, alone)
    if own is None or (not runs and sides.forward(reference, alone).error is None):
        return alone, None
    return on_mesh, (
        f"the reference '{reference}' is bound to a mesh of {own.size} devices of its own and cannot run on one; "
        "the baseline is the reference on that mesh"
    )


def own_mesh(sides: TracedSides, side: str, site: Site) -> Mesh | None:
    """Return the first mesh of several devices that a side brings along: of its program, else of its variables."""
    program = sides.forward(side, site)
    if program.error is not None:
        return next(filter(_is_of_several, values_around(sides.functions[side])), None)
    for equation in equations(program.traced.jaxpr):
        for value in equation.params.values():
            for mesh in map(_mesh_of, value if isinstance(value, tuple | list) else (value,)):
                if _is_of_several(mesh) and mesh is not site.built:
                    return mesh  # type: ignore[no-any-return]
    return None


def on_own_mesh(sides: TracedSides, side: str, site: Site) -> Site:
    """Return the site on the very mesh that a side brings along, where that has the axes of the point; else the site.

    Its devices can be in another order, and jax holds an abstract mesh against its kind of devices.

    Raises:
        CouldNotRun: the side's own mesh has other axes than the point.
    """
    here = site.built is not None and sides.forward(side, site).error is None
    own = own_mesh(sides, side, site if here else replace(site, built=None, alone=True))
    if own is None:
        return site
    spec = MeshSpec.of(own)
    if site.built is not None and spec == MeshSpec.of(site.built):
        return replace(site, built=own)
    if here:
        return site
    raise CouldNotRun(
        f"{sides.pair.name}: '{side}' is bound to a mesh of its own, '{spec.id}', and the mesh here is "
        f"'{site.mesh.id}' ({site.mode}); run it there: meshes=('{spec.id}',) in a Pair, or mesh='{spec.id}' in a "
        "call; or let it take the mesh as an argument: statics={'mesh': ContextMesh()}"
    )


def _mesh_of(value: Any) -> Any:
    return value if isinstance(value, Mesh) else getattr(value, "mesh", None)


def _is_of_several(mesh: Any) -> bool:
    return isinstance(mesh, Mesh) and mesh.size > 1
