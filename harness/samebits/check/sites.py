"""Where the sides of a point run: alone and on the mesh, and what is said where a side cannot run there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.errors import DeclarationError, NoExplicitForm
from samebits.host.cache_keys import digest_of
from samebits.host.isolation import note
from samebits.interpret.equation import type_of
from samebits.programs.captured_values import calls_python, constants_of, equations
from samebits.programs.program_cache import Program, shown
from samebits.programs.sides import Site, TracedSides, baseline, on_mesh_of, sites_alone
from samebits.prove.same_program import with_primal
from samebits.schema.case import Refusal
from samebits.schema.point import Point
from samebits.user_errors import one_line

# Rejects sides that share state in Python, or in jax's caches of what was traced, so that one decides the other.
_REMEDY = "give each side state of its own"


class TraceOrder:
    """Traces each side once before all others, variants first, and compares with how it is traced in a check."""

    def __init__(self, sides: TracedSides) -> None:
        self._sides = sides
        self._compared: set[str] = set()
        self._arrays = {side: _arrays_of(function) for side, function in sides.functions.items()}
        self._wrong: dict[str, str] = {}

    def before(self, sites: Mapping[str, Site]) -> dict[str, Any]:
        """Trace sides that were not compared so far, each as if nothing had been traced before, to what they compute.

        Args:
            sites: where each side runs, in the order in which they are traced here: the variant before the reference.
        """
        import jax

        new = [side for side in sites if side not in self._compared]
        alone, changed = {}, {}
        if new:
            traces = [partial(self._sides.traced_alone, side, site) for side, site in sites.items()]
            self._sides.state.drop_what_is_cached(traces)
        for side in new:
            jax.clear_caches()
            alone[side] = self._traced(side, sites[side])
            changed[side] = self._sides.state.changed
        self._compared |= set(new)
        if any(changed.values()):
            self._note(alone, sites, [name for names in changed.values() for name in names])
        reference = self._sides.pair.reference_name
        if new:
            jax.clear_caches()
            if reference not in new:  # it is not traced again, and a check of this point alone would trace it first
                self._sides.traced_alone(reference, sites[reference])
        return alone

    def require_same(self, alone: Mapping[str, Any], sites: Mapping[str, Site]) -> None:
        """Compare with the programs of the check.

        Raises:
            DeclarationError: one of these sides traces to a different program there; raised again at its later points.
        """
        for side, text in alone.items():
            why = self._why(side, sites[side], text)
            if why is not None:
                self._wrong[side] = f"{self._sides.pair.name}: '{side}' {why}; {_REMEDY}"
        for side in sites:
            if side in self._wrong:
                raise DeclarationError(self._wrong[side])

    def _traced(self, side: str, site: Site) -> Any:
        program = self._sides.traced_alone(side, site)
        return None if program is None else _shown(program.lower, program.jaxpr, site)

    def _note(self, alone: Mapping[str, Any], sites: Mapping[str, Site], changed: Sequence[str]) -> None:
        """Note which sides would compute something else after the others, if what these change were not put back."""
        names = self._sides.pair.reference_name
        together: dict[str, list[Any]] = {}
        with self._sides.state.put_back():
            for side in sorted(sites, key=lambda side: side == names, reverse=True) * 2:
                together.setdefault(side, []).append(self._traced(side, sites[side]))
        others = [side for side in alone if any(text not in (None, alone[side]) for text in together[side])]
        if others and None not in alone.values():
            note(
                f"pair '{self._sides.pair.name}': {' and '.join(map(repr, others))} would compute something else "
                f"after the other sides, since tracing these changes {', '.join(dict.fromkeys(changed))}; each was "
                f"traced as if by itself: {_REMEDY}"
            )

    def _why(self, side: str, site: Site, text: Any) -> str | None:
        now = _arrays_of(self._sides.functions[side])
        changed = [name for name, digest in self._arrays[side].items() if now.get(name) != digest]
        if changed:
            return f"uses the array {changed[0]}, which is changed in place while a side is traced"
        program = self._sides.by_itself(side, site)
        if text is None or program.error is not None or f"'{side}', case '{site.case.id}'" not in program.label:
            return None
        if constants_of(program.traced.jaxpr) != program.constants:
            return "captures an array that is changed in place after it was traced"
        here = _shown(program.lower, program.traced.jaxpr, site)
        if here is None or here == text or calls_python(program.traced.jaxpr, here[0]):
            return None
        return (
            "traces to a different program when it is traced before the other sides: it shares state with them, such "
            "as a global, a cache or an array"
        )


def _shown(lower: Callable[[], Any], jaxpr: Any, site: Site) -> tuple[str, str] | None:
    """Return what a traced program computes, lowered under the contexts of its site; None where that raises."""
    try:
        with site.setup.active():
            return shown(lower(), jaxpr)
    except Exception:  # its point says so
        return None


def _arrays_of(function: Any) -> dict[str, str]:
    """Digest the NumPy arrays that a function sees by a name of its module."""
    names = getattr(inspect.unwrap(function), "__globals__", {})
    arrays = {name: value for name, value in list(names.items()) if isinstance(value, np.ndarray)}
    return {name: digest_of([value]) for name, value in arrays.items() if value.dtype != object}


# The precision of the products of two programs, which decides their bits on a TPU or with TF32 and not on a CPU.
_PRODUCTS = frozenset({"dot_general", "ragged_dot_general", "conv_general_dilated"})

_LEVELS = frozenset({"DEFAULT", "HIGH", "HIGHEST"})
"""Names of precisions; any other one is that of an algorithm, which is prescribed in place of a precision."""

_WIDTH = 4
"""Bytes of a real number from which the precision counts: hardware multiplies the shorter floats as they are."""


def precision_remark(reference: Any, variant: Any) -> str | None:
    """Say that products of the variant have another precision, algorithm or dtype of their sums; else None."""
    (first, sums), (second, own) = _precisions(reference), _precisions(variant)
    if sums and own and sums != own:
        names = [" and ".join(sorted(each)) for each in (own, sums)]
        return f"its products are summed in {names[0]}, the reference's in {names[1]}: other bits on other hardware"
    changed = {*first} ^ {*second}
    if not first or not second or not (changed or (len(first) == len(second) and first != second)):
        return None  # a side without products has none of another precision
    if changed:
        subject, names = "its products have", [" and ".join(dict.fromkeys(each)) for each in (second, first)]
    else:
        subject = "one of its products has"
        names = next([own, other] for own, other in zip(second, first, strict=True) if own != other)
    where = (
        "equal on a CPU, not on a TPU or with TF32" if changed <= _LEVELS else "other bits where hardware follows that"
    )
    return f"{subject} precision {names[0]}, the reference's {names[1]}: {where}"


def _precisions(jaxpr: Any) -> tuple[list[str], set[str]]:
    """List the precisions of products of wide floats, in order, and the dtypes of sums of products of shorter ones."""
    wide: list[str] = []
    sums: set[str] = set()
    for equation in equations(jaxpr):
        if equation.primitive.name not in _PRODUCTS:
            continue
        if any(_is_wide(var.aval) for var in equation.invars[:2]):
            precision = equation.params["precision"]
            levels = dict.fromkeys(precision if isinstance(precision, tuple) else (precision,))
            wide += ["DEFAULT" if level is None else str(getattr(level, "name", level)) for level in levels]
        elif type_of(equation.outvars[0].aval).is_float:
            sums.add(str(equation.outvars[0].aval.dtype))
    return wide, sums


def _is_wide(aval: Any) -> bool:
    """Tell whether a value holds floats, or complex numbers, that hardware shortens where the precision is low."""
    kind = type_of(aval)
    return (kind.is_float and kind.dtype.itemsize >= _WIDTH) or kind.is_complex


# Expected errors: the errors that the sides raise for a case that they must reject, observed while tracing.
def errors_raised(sides: TracedSides, point: Point, refusal: Refusal, built: Any) -> dict[str, BaseException | None]:
    """Return what each side that must reject a case raised while it was traced, by side; None where it gave a result.

    The variant is traced on the mesh, and the reference alone and on the mesh.

    Args:
        point: of the case that must be rejected.
        built: the mesh, which may be abstract.
    """
    reference, on_mesh = sides.pair.reference_name, sides.site_of(point, built)
    errors: dict[str, BaseException | None] = {}
    for side in dict.fromkeys((reference, point.variant)):
        if refusal.variants and side not in refusal.variants:
            continue
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


def sites_of(sides: TracedSides, point: Point) -> PendingPoint:
    """Return where the reference alone and the variant are traced.

    Raises:
        CouldNotRun: a side is bound to another mesh than that of the point.
        NoExplicitForm: the point is of the reference itself, which cannot be traced on explicit axes.
    """
    reference, job = sides.pair.reference_name, traced_sites(sides, point)
    for remark in job.remarks:
        note(f"pair '{sides.pair.name}': {remark}")
    if point.variant == reference and sides.forward(reference, job.alone).error is None:
        missing = no_explicit_form(sides, point, job.on_mesh)
        if missing is not None:
            raise NoExplicitForm(missing)
    return job


def traced_sites(sides: TracedSides, point: Point) -> PendingPoint:
    """Return the same of a point that need not be one of a check."""
    on_mesh = on_mesh_of(sides, point.variant, sides.site_of(point))
    on_mesh = with_primal(sides, point.direction, point.variant, on_mesh)
    alone, remark = baseline(sides, on_mesh, runs=False)
    return PendingPoint(point, alone, on_mesh, remarks=() if remark is None else (remark,))


def traced_point(execution: Execution, point: Point, on_mesh: Site, order: TraceOrder) -> PendingPoint:
    """Return a point with its programs traced: of the reference alone, of the reference and of the variant on the mesh.

    Args:
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
