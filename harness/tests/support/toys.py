"""Small pairs for samebits' own tests; each side is a plain function, jax is imported when it runs."""

import dataclasses
from collections.abc import Callable
from typing import Any

from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.case import Arg, Case
from samebits.schema.finding import Finding
from samebits.schema.meshes import Mode
from samebits.schema.pair import Pair
from samebits.schema.point import USUAL, Effort
from tests.support.findings import having

AUTO: tuple[Mode, ...] = ("auto",)
EVERY = Request(full=True)


def double(x: Any, *, factor: float = 2.0) -> Any:
    """The honest component: exact in every dtype for a power of two."""
    return x * factor


def twice(x: Any, *, factor: float = 2.0) -> Any:
    """An honest variant: the same product, the other way round."""
    return factor * x


def toy(reference: Callable[..., Any] = double, **sides: Callable[..., Any]) -> Pair:
    """A pair over `x[8, 16]` split over `data`; `sides` are its variants, by default the honest `twice`."""
    return Pair(
        name="toy",
        reference=reference,
        variants=sides or {"twice": twice},
        args={"x": Arg(shape=("rows", "columns"), spec=("data", "tensor"))},
        cases=(Case(id="small", sizes={"rows": 8, "columns": 16}, statics={"factor": 4.0}),),
        dtypes=("float32",),
        meshes=("data4",),
        modes=AUTO,
    )


def run(pair: Pair, asked: Request = EVERY, **changes: Any) -> list[Finding]:
    """Every result of a pair's whole product, with fields of the declaration replaced; `effort` is that of the run.

    `asked` leaves out points at which a test does not look.
    """
    effort: Effort = changes.pop("effort", USUAL)
    pair = dataclasses.replace(pair, **changes)
    programs = Programs(threads=1)
    try:
        points = plan(pair, asked, devices=8).points
        return list(run_points(pair, Locator(name=pair.name), points, programs, effort))
    finally:
        programs.close()


def alone(variant: str, direction: str = "forward") -> Request:
    """One variant in one direction, and neither the other one nor the reference on the mesh."""
    return Request(variants=(variant,), directions=(direction,), full=True)


def of(results: list[Finding], **where: str) -> list[Finding]:
    """The results with these fields."""
    return having(results, **where)
