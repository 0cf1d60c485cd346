"""Where the sides of a point run: alone and on the mesh, and what is said where a side cannot run there."""

from __future__ import annotations

from samebits.check.execution import Execution, PendingPoint
from samebits.check.product_precision import precision_remark
from samebits.check.trace_order import TraceOrder
from samebits.errors import NoExplicitForm
from samebits.programs.alone import baseline, on_mesh_of
from samebits.programs.captured_values import equations
from samebits.programs.program_cache import Program
from samebits.programs.sides import Site, TracedSides
from samebits.prove.same_program import with_primal
from samebits.schema.point import Point
from samebits.user_errors import one_line


def traced_point(execution: Execution, point: Point, on_mesh: Site, order: TraceOrder) -> PendingPoint:
    """Return a point with its programs traced: of the reference alone, of the reference and of the variant on the mesh.

    Args:
        execution: where programs are traced.
        point: with its variant.
        on_mesh: where that runs.
        order: what was compared of the sides traced in another order.

    Raises:
        CouldNotRun: a side is bound to another mesh than that of the point.
        NoExplicitForm: the point is of the reference itself, which cannot be traced on explicit axes.
        DeclarationError: the sides share state.
    """
    sides, reference = execution.sides, execution.pair.reference_name
    sites = dict.fromkeys((point.variant, reference), on_mesh)
    first = order.before(sites)
    on_mesh = with_primal(sides, point.direction, point.variant, on_mesh_of(sides, point.variant, on_mesh))
    order.require_same(first, sites)
    alone, remark = baseline(sides, on_mesh)
    job = PendingPoint(point, alone=alone, on_mesh=on_mesh, remarks=() if remark is None else (remark,))
    job.programs["alone"] = execution.program(reference, alone, point.direction)
    missing = None if job.programs["alone"].error is not None else no_explicit_form(sides, point, on_mesh)
    if missing is None:
        job.programs["reference"] = execution.program(reference, on_mesh, point.direction)
    elif point.variant == reference:
        raise NoExplicitForm(missing)
    else:
        job.remarks = (*job.remarks, f"{missing}; compared with it on one device only")
    job.programs["variant"] = execution.program(point.variant, on_mesh, point.direction)
    counts = [_effects(job.programs[name]) for name in ("alone", "variant")]
    if counts[0] != counts[1]:
        job.remarks = (
            *job.remarks,
            f"'{point.variant}' calls `io_callback` at {counts[1]} places, '{reference}' at {counts[0]}: "
            "side effects are not compared",
        )
    compared = [job.programs[name] for name in ("alone", "variant")]
    if all(program.error is None for program in compared):
        precision = precision_remark(*(program.traced.jaxpr for program in compared))
        job.remarks = job.remarks if precision is None else (*job.remarks, f"'{point.variant}': {precision}")
    return job


def _effects(program: Program) -> int:
    """Count the calls of a program for their side effects alone, `io_callback`; none where it does not trace."""
    if program.error is not None or not program.traced.jaxpr.effects:
        return 0
    return sum(equation.primitive.name == "io_callback" for equation in equations(program.traced.jaxpr))


def no_explicit_form(sides: TracedSides, point: Point, on_mesh: Site) -> str | None:
    """Explain why the reference cannot be traced at a point with explicit axes, where that is so; None elsewhere."""
    if not on_mesh.mesh.explicit_axes(point.mode):
        return None
    reference = sides.pair.reference_name
    program = sides.forward(reference, on_mesh)
    if program.error is None and point.direction == "gradient":
        program = sides.gradient(reference, on_mesh)
    if program.error is None:
        return None
    return f"the reference '{reference}' has no form for explicit axes ({one_line(program.error)})"
