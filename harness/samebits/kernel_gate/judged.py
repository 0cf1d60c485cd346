"""A kernel beside its reference: compared as any two functions are, at the given sizes and at others."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from samebits.errors import SamebitsError
from samebits.functions.compare import check, prove
from samebits.host.isolation import take_notes
from samebits.interpret.inner_equations import equations
from samebits.interpret.kernels import interpreted_on_cpu
from samebits.kernel_gate.alone import Alone, program_text, tpu_by_default
from samebits.kernel_gate.arguments import Arguments, nearby_sizes, of_arrays, others, output_types
from samebits.kernel_gate.request import GateRequest
from samebits.programs.implementations import function_named
from samebits.schema.finding import Finding
from samebits.schema.gate_row import GateRow, GateState, Kind
from samebits.user_errors import one_line

Sides = tuple[Callable[..., Any], Callable[..., Any]]
"""The reference and the kernel."""

SIZES = 12
"""How many other sizes are tried at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What was seen of a kernel beside its reference.

    Args:
        rows: one for each kind that was tried here.
        leaves: the verdicts on outputs and gradients.
        notes: what else to know.
    """

    rows: tuple[GateRow, ...]
    leaves: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def judged(request: GateRequest, values: Arguments, alone: Alone, end: float) -> Judged:
    """Compare a kernel with its reference on these inputs, on variations of them and at other sizes, until `end`."""
    reference, kernel = function_named(request.reference), function_named(request.kernel)
    try:
        text, traced = program_text(kernel, values)
    except BaseException as error:
        return Judged(
            rows=(GateRow(kind="aware", state="refuted", words=f"beside its reference it {one_line(error)}"),)
        )
    if text != alone.program:
        return Judged(rows=(GateRow(kind="reference", state="refuted", words="another program beside its reference"),))
    rows = [GateRow(kind="reference", state="holds", words="the same program where its reference is absent")]
    form = _form(alone.types, output_types(reference, values))
    rows.append(form)
    if form.state == "refuted":
        return Judged(rows=tuple(rows))
    gradient = request.gradient is not False and _differentiable(reference, values)
    if gradient and not _differentiable(kernel, values):
        if request.gradient:
            rows.append(GateRow(kind="gradient", state="refuted", words="it cannot be differentiated"))
        gradient = False
    outcome = check(reference, kernel, *values, gradients=gradient)
    rows += _ruled(outcome.leaves, (reference, kernel), values, traced.jaxpr)
    if not gradient and not any(row.kind == "gradient" for row in rows):
        why = "not asked for" if request.gradient is False else "it has none"
        rows.append(GateRow(kind="gradient", state="not tried", words=why))
    if alone.on_tpu:
        rows.append(_on_tpu(reference, kernel, values))
    refuted = any(row.state == "refuted" for row in rows)
    if request.sizes != "given" and not refuted:
        rows.append(_at_other_sizes(reference, kernel, values, request, end))
    elif not refuted:
        rows.append(GateRow(kind="structure", state="not tried", words="other sizes were not asked for"))
    return Judged(rows=tuple(rows), leaves=outcome.leaves, notes=(*outcome.notes, *take_notes()))


def _on_tpu(reference: Callable[..., Any], kernel: Callable[..., Any], values: Arguments) -> GateRow:
    """Compare the program that a kernel is where jax's default backend is a TPU."""
    where = "where jax's default backend is a TPU"

    @functools.wraps(kernel)
    def there(*arguments: Any) -> Any:
        with tpu_by_default():
            return kernel(*arguments)

    try:
        leaves = prove(reference, there, *values, gradients=False).leaves
    except SamebitsError as error:
        return GateRow(kind="aware", state="undecided", words=f"another program {where}: {error}")
    wrong = next((leaf for leaf in leaves if not leaf.ruling.ok), None)
    if wrong is None:
        return GateRow(kind="aware", state="holds", words=f"another program {where}, and right there too")
    state: GateState = "refuted" if wrong.ruling.verdict == "different" else "undecided"
    return GateRow(kind="aware", state=state, words=f"another program {where}: {_reason(wrong)}")


def _form(got: Sequence[tuple[tuple[int, ...], str]], expected: Sequence[tuple[tuple[int, ...], str]]) -> GateRow:
    shown = [", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in each) for each in (got, expected)]
    if [*got] == [*expected]:
        return GateRow(kind="form", state="holds", words=shown[0])
    return GateRow(kind="form", state="refuted", words=f"returns {shown[0]}; expected {shown[1]}")


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
        reason, where = _reason(leaf), next((line.variant for line in leaf.named.lines), None)
        if leaf.ruling.verdict in ("error", "skipped"):
            rows.append(
                GateRow(
                    kind="formula" if forward else "gradient", state="undecided", words=f"{leaf.place.what()}: {reason}"
                )
            )
            continue
        kind: Kind = "gradient" if not forward else _kind(leaf, sides, values, program)
        rows.append(GateRow(kind=kind, state="refuted", words=f"{leaf.place.what()}: {reason}", where=where or ""))
        break
    refuted = {row.kind for row in rows}
    verdicts = sorted({leaf.ruling.verdict for leaf in leaves if leaf.place.direction != "gradient"})
    if not forward and leaves:
        rows.append(GateRow(kind="formula", state="holds", words=f"outputs: {', '.join(verdicts)}"))
        rows.append(GateRow(kind="independent", state="holds", words="it reads what its reference reads"))
        rows.append(GateRow(kind="precision", state="holds", words="rounding explains what differs"))
    gradients = sorted({leaf.ruling.verdict for leaf in leaves if leaf.place.direction == "gradient"})
    if gradients and "gradient" not in refuted:
        rows.append(GateRow(kind="gradient", state="holds", words=f"gradients: {', '.join(gradients)}"))
    return rows


def _reason(leaf: Finding) -> str:
    return leaf.ruling.evidence or leaf.proof.refutation or leaf.ruling.reason or leaf.ruling.verdict


def _kind(leaf: Finding, sides: Sides, values: Arguments, program: Any) -> Kind:
    """Return what a kernel is refuted for whose output differs."""
    if _ignored(sides, values):
        return "independent"
    if not all(map(_close, *(_run(side, values) for side in sides))):
        return "formula"
    return "precision" if _narrows(program) else "structure"


def _ignored(sides: Sides, values: Arguments) -> bool:
    """Return whether other values of an argument move the reference and not the kernel."""
    changed = others(values)
    for place in range(len(values)):
        mixed = (*values[:place], changed[place], *values[place + 1 :])
        moved = [not all(map(_same, _run(side, values), _run(side, mixed))) for side in sides]
        if moved[0] and not moved[1]:
            return True
    return False


def _same(first: Any, second: Any) -> bool:
    return bool(np.array_equal(first, second, equal_nan=True))


def _run(function: Callable[..., Any], values: Arguments) -> list[Any]:
    call, arrays = of_arrays(function, values)
    with interpreted_on_cpu():
        out = jax.jit(call)(*arrays)
    return [np.asarray(leaf, np.float64) if _is_float(leaf) else np.asarray(leaf) for leaf in jax.tree.leaves(out)]


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


def _at_other_sizes(
    reference: Callable[..., Any], kernel: Callable[..., Any], values: Arguments, request: GateRequest, end: float
) -> GateRow:
    """Compare at other sizes: a kernel is right at twice a size or rejects it; others only limit what is claimed."""
    seen: dict[str, list[str]] = {"right": [], "rejected": [], "undecided": [], "not tried": [], "wrong": []}
    for number, near in enumerate(nearby_sizes(values)):
        late = number >= SIZES or time.monotonic() > end
        state, why = ("not tried", "") if late else _at(reference, kernel, near.values)
        if state == "wrong" and (near.doubled or request.sizes == "all"):
            return GateRow(kind="structure", state="refuted", words=f"wrong with {near.words}: {why}")
        seen.setdefault(state, []).append(near.words)
    said = "; ".join(f"{state} with {', '.join(each)}" for state, each in seen.items() if each and state != "no input")
    if seen["wrong"]:
        return GateRow(kind="structure", state="limited", words=said)
    tried = seen["right"] or seen["rejected"]
    return GateRow(kind="structure", state="holds" if tried else "not tried", words=said or "no other sizes are inputs")


def _at(reference: Callable[..., Any], kernel: Callable[..., Any], values: Arguments) -> tuple[str, str]:
    """Return what a kernel is on some arguments, and why where it is wrong."""
    forms = []
    for function, state in ((reference, "no input"), (kernel, "rejected")):
        try:
            forms.append(output_types(function, values))
        except Exception:  # whatever it raises
            return state, ""
    form = _form(*reversed(forms))
    if form.state == "refuted":
        return "wrong", form.words
    try:
        leaves = prove(reference, kernel, *values, gradients=False).leaves
        if any(leaf.ruling.verdict == "error" for leaf in leaves):  # of NaNs, for one, which no formula has
            leaves = check(reference, kernel, *values, gradients=False).leaves
    except SamebitsError:
        return "undecided", ""
    wrong = next((leaf for leaf in leaves if leaf.ruling.verdict == "different"), None)
    if wrong is not None:
        return "wrong", _reason(wrong)
    return "right" if all(leaf.ruling.ok for leaf in leaves) else "undecided", ""
