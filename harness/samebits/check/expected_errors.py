"""Expected errors: the errors that the sides raise for a case that they must reject, observed while tracing."""

from __future__ import annotations

from typing import Any

from samebits.programs.alone import sites_alone
from samebits.programs.sides import Site, TracedSides
from samebits.schema.case import Refusal
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import Point


def errors_raised(sides: TracedSides, point: Point, refusal: Refusal, built: Any) -> dict[str, BaseException | None]:
    """Return what each side that must reject a case raised while it was traced, by side; None where it gave a result.

    The variant is traced on the mesh, and the reference alone and on the mesh.

    Args:
        sides: the programs.
        point: of the case that must be rejected.
        refusal: what the declaration promises.
        built: the mesh, which may be abstract.
    """
    case, mesh = sides.pair.case(point.case), MeshSpec.parse(point.mesh)
    reference = sides.pair.reference_name
    errors: dict[str, BaseException | None] = {}
    for side in dict.fromkeys((reference, point.variant)):
        if refusal.variants and side not in refusal.variants:
            continue
        on_mesh = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=built)
        if side == reference:
            errors[f"{side} (one device)"] = _raised_alone(sides, side, on_mesh, refusal)
        errors[side] = sides.forward(side, on_mesh).error
    return errors


def _raised_alone(sides: TracedSides, side: str, on_mesh: Site, refusal: Refusal) -> BaseException | None:
    """Return what a side raised on one device: without a mesh, or under a small one if that was about the mesh."""
    first: BaseException | None = None
    for site in sites_alone(sides, on_mesh):
        error = sides.forward(side, site).error
        if error is None or type(error).__name__ == refusal.error:
            return error
        first = first or error
    return first
