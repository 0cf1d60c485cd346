"""Expected errors: the errors that the sides raise for a case that they must reject, observed while tracing."""

from __future__ import annotations

from typing import Any

from samebits.programs.sides import Site, TracedSides
from samebits.schema.case import Refusal
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import Point


def errors_raised(sides: TracedSides, point: Point, refusal: Refusal, built: Any) -> dict[str, BaseException | None]:
    """What each side that must reject a case raised while it was traced, by side; None where it gave a result.

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
        for alone, where in {True: None, False: built}.items():
            if alone and side != reference:
                continue
            site = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=where)
            errors[f"{side} (one device)" if alone else side] = sides.forward(side, site).error
    return errors
