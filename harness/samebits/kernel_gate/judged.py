"""A kernel beside its reference: compared as any two functions are, at the given sizes and at others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from samebits.errors import BrokenPromise
from samebits.functions.compare import check
from samebits.host.isolation import take_notes
from samebits.interpret.equation import Step
from samebits.interpret.inner_equations import equations
from samebits.kernel_gate.alone import ARITHMETIC, Alone, program_text
from samebits.kernel_gate.arguments import Arguments, executed, near, of_arrays, others, output_types, same
from samebits.kernel_gate.elsewhere import Sides, at_other_magnitudes, elsewhere
from samebits.kernel_gate.request import GateRequest
from samebits.programs.implementations import function_named
from samebits.schema.finding import Finding
from samebits.schema.gate_row import GateOutcome, GateRow, Kind, holds, refuted
from samebits.user_errors import one_line


def judged(request: GateRequest, values: Arguments, alone: Alone, end: float) -> Iterator[GateOutcome]:
    """Compare a kernel with its reference on these inputs, on variations of them and at other sizes, until `end`.

    Yields:
        What is known so far, as soon as it is.
    """
    reference, kernel = function_named(request.reference), function_named(request.kernel)
    sides = reference, kernel
    try:
        text, traced = program_text(kernel, values)
    except BaseException as error:
        yield GateOutcome(rows=(refuted("aware", f"beside its reference it {one_line(error)}"),))
        return
    if text != alone.program:
        yield GateOutcome(rows=(refuted("reference", "another program beside its reference"),))
        return
    rows = [holds("reference", "the same program where its reference is absent")]
    form = _form(alone.types, output_types(reference, values))
    rows.append(form)
    yield GateOutcome(rows=tuple(rows))
    if form.state == "refuted":
        return
    gradient = request.gradient is not False and _differentiable(reference, values)
    if gradient and not _differentiable(kernel, values):
        if request.gradient:
            rows.append(refuted("gradient", "it cannot be differentiated"))
        gradient = False
    narrow = _narrow_arithmetic(reference, traced.jaxpr, values)
    if narrow:
        yield GateOutcome(rows=(*rows, *narrow))
        return
    with contextlib.suppress(Exception):  # which the comparison says
        if _all_near(sides, values):
            words = "equal up to rounding where both were executed with the given inputs"
            yield GateOutcome(rows=(*rows, GateRow(kind="formula", state="limited", words=words)))
    outcome = check(reference, kernel, *values, gradients=gradient, accuracy=request.accuracy)
    rows += _ruled(outcome.leaves, sides, values, traced.jaxpr)
    if not gradient and not any(row.kind == "gradient" for row in rows):
        why = "not asked for" if request.gradient is False else "it has none"
        rows.append(GateRow(kind="gradient", state="not tried", words=why))
    rows += at_other_magnitudes(outcome.leaves)
    notes = (*outcome.notes, *take_notes())
    yield GateOutcome(rows=tuple(rows), leaves=outcome.leaves, notes=notes)
    if not any(row.state == "refuted" for row in rows):
        for row in elsewhere(sides, values, request, alone, end):
            rows.append(row)
            yield GateOutcome(rows=tuple(rows), leaves=outcome.leaves, notes=(*notes, *take_notes()))


def elsewhere_alone(request: GateRequest, values: Arguments, alone: Alone, end: float) -> Iterator[GateOutcome]:
    """Execute a kernel beside its reference at other arguments, where comparing it took too long."""
    sides = function_named(request.reference), function_named(request.kernel)
    rows: list[GateRow] = []
    if program_text(sides[1], values)[0] == alone.program:
        for row in elsewhere(sides, values, request, alone, end):
            rows.append(row)
            yield GateOutcome(rows=tuple(rows))


def _form(got: Sequence[tuple[tuple[int, ...], str]], expected: Sequence[tuple[tuple[int, ...], str]]) -> GateRow:
    shown = [", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in each) for each in (got, expected)]
    if [*got] == [*expected]:
        return holds("form", shown[0])
    return refuted("form", f"returns {shown[0]}; expected {shown[1]}")


def _differentiable(function: Callable[..., Any], values: Arguments) -> bool:
    """Return whether jax can differentiate a function with respect to its float arrays."""
    call, arrays = of_arrays(function, values)
    places = tuple(place for place, array in enumerate(arrays) if _is_float(array))

    def total(*arrays: Any) -> Any:
        return sum(jax.numpy.sum(out).astype("float32") for out in jax.tree.leaves(call(*arrays)) if _is_float(out))

    try:
        jax.eval_shape(jax.grad(total, argnums=places), *arrays)
    except Exception:  # a kernel without a rule, or an output without floats
        return False
    return bool(places)


def _is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, np.floating)


def _ruled(leaves: Sequence[Finding], sides: Sides, values: Arguments, program: Any) -> list[GateRow]:
    """Return rows for what a comparison gave: what fails by its kind, and what holds."""
    rows: list[GateRow] = []
    failing = [leaf for leaf in leaves if not leaf.ruling.ok]
    forward = [leaf for leaf in failing if leaf.place.direction != "gradient"]
    for leaf in forward or failing:
        reason = leaf.ruling.evidence or leaf.proof.refutation or leaf.ruling.reason or leaf.ruling.verdict
        words, where = (
            ": ".join(filter(None, (leaf.place.what(), reason))),
            next((line.variant for line in leaf.named.lines), None),
        )
        if leaf.ruling.verdict in ("error", "skipped") and (not forward or _all_near(sides, values)):
            rows.append(GateRow(kind="formula" if forward else "gradient", state="undecided", words=words))
            continue
        kind: Kind = "gradient" if not forward else _kind(leaf, sides, values, program)
        rows.append(refuted(kind, words, where or ""))
        break
    wrong = {row.kind for row in rows}
    verdicts = sorted({leaf.ruling.verdict for leaf in leaves if leaf.place.direction != "gradient"})
    if not forward and leaves:
        rows.append(holds("formula", f"outputs: {', '.join(verdicts)}"))
        rows.append(holds("independent", "it reads what its reference reads"))
        rows.append(holds("precision", "rounding explains what differs"))
    gradients = sorted({leaf.ruling.verdict for leaf in leaves if leaf.place.direction == "gradient"})
    if gradients and "gradient" not in wrong:
        rows.append(holds("gradient", f"gradients: {', '.join(gradients)}"))
    return rows


def _all_near(sides: Sides, values: Arguments) -> bool:
    return all(map(near, *(executed(side, values) for side in sides)))


def _kind(leaf: Finding, sides: Sides, values: Arguments, program: Any) -> Kind:
    """Return what a kernel is refuted for whose output differs."""
    if (leaf.ruling.evidence or "").startswith(BrokenPromise.WORD):
        return "memory"
    if _ignored(sides, values):
        return "independent"
    if not all(map(_close, *(executed(side, values) for side in sides))):
        return "formula"
    return "precision" if _narrows(program) else "structure"


def _ignored(sides: Sides, values: Arguments) -> bool:
    """Return whether other values of an argument move the reference and not the kernel."""
    changed = others(values)
    for place in range(len(values)):
        mixed = (*values[:place], changed[place], *values[place + 1 :])
        moved = [not all(map(same, executed(side, values), executed(side, mixed))) for side in sides]
        if moved[0] and not moved[1]:
            return True
    return False


def _close(first: Any, second: Any) -> bool:
    """Return whether a usual test would find no difference."""
    largest = float(np.max(np.abs(second), initial=0.0))
    return bool(np.allclose(first, second, rtol=1e-2, atol=1e-2 * largest, equal_nan=True))


def _narrows(program: Any) -> bool:
    """Return whether a program converts floats to narrower ones."""
    return any(
        eqn.primitive.name == "convert_element_type"
        and _is_float(eqn.invars[0].aval)
        and eqn.outvars[0].aval.dtype.itemsize < eqn.invars[0].aval.dtype.itemsize
        for eqn in equations(program)
    )


def _narrow_arithmetic(reference: Callable[..., Any], program: Any, values: Arguments) -> list[GateRow]:
    """Look where a kernel computes with floats narrower than any of its reference; a CPU may compute them wider."""
    call, arrays = of_arrays(reference, values)
    least = min(_widths(jax.make_jaxpr(call)(*arrays)), default=0)
    for eqn in equations(program):
        narrow = [var.aval.dtype for var in eqn.invars if _width(var) < least]
        if eqn.primitive.name in ARITHMETIC and narrow:
            words = f"computes with {narrow[0]} ({eqn.primitive.name}), and its reference with nothing as narrow"
            return [refuted("precision", words, Step.of(eqn).place)]
    return []


def _widths(program: Any) -> list[int]:
    variables = [*program.jaxpr.invars, *(var for eqn in equations(program) for var in eqn.outvars)]
    return [_width(var) for var in variables if _is_float(var.aval)]


def _width(var: Any) -> int:
    return int(var.aval.dtype.itemsize) if _is_float(var.aval) else 8
