"""`samebits.gate`: a kernel refuted by name, or shown to be its reference, by processes that it cannot harm."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samebits.errors import CouldNotRun, RequestError, SamebitsError
from samebits.host.subprocesses import run_process, samebits_environment
from samebits.kernel_gate.processes import forked
from samebits.kernel_gate.reaches import reaches
from samebits.kernel_gate.request import GateRequest, split
from samebits.schema.gate_row import KINDS, GateOutcome, GateRow, refuted

if TYPE_CHECKING:
    from samebits.report.gate import GateDocument


def gate(kernel: str | Path, reference: str | Path, **options: Any) -> GateDocument:
    """Refute a kernel by name, or say what may be claimed of it; it runs in processes that it cannot harm.

    Equivalent to `samebits gate KERNEL.py --reference REFERENCE.py --json FILE` and reading that file.

    Args:
        kernel: `FILE.py:FUNCTION`; of a file alone, its function `kernel` or `workload`.
        reference: the same of what is right by definition, `reference` or `workload`.
        options: `inputs="FILE.py:FUNCTION"`, `arg=("x=f32[8,128]",)`, `gradient=False`, `sizes="all"` and
            `seconds=30`, as in `GateRequest`.

    Returns:
        The document of the command: a row for each kind of refutation, `refuted`, and the `claim` that may be made.

    Raises:
        RequestError: a file, function or option is wrong.
        CouldNotRun: the command ended without a document.
    """
    from samebits.report.document import read_as
    from samebits.report.gate import GateDocument

    known = [field.name for field in fields(GateRequest)][2:]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise RequestError(f"samebits.gate takes no {unknown[0]!r}; it takes {', '.join(known)}")
    request = GateRequest(kernel=str(kernel), reference=str(reference), **options).resolved()
    with tempfile.TemporaryDirectory(prefix="samebits-gate-") as folder:
        path = Path(folder) / "document.json"
        words = [sys.executable, "-m", "samebits", "gate", *request.words(), "--json", str(path)]
        environment = {**samebits_environment(os.environ), "JAX_PLATFORMS": "cpu"}
        ended = run_process(words, Path.cwd(), environment, request.seconds * 4 + 60)
        if not path.exists():
            kind = RequestError if ended.code == RequestError.exit_code else CouldNotRun
            raise kind(ended.last or f"samebits gate ended with exit code {ended.code}")
        return read_as(path, GateDocument)


def gated(request: GateRequest) -> GateOutcome:
    """Judge a kernel; jax's backend must not have started in this process, which executes nothing of the user's.

    Raises:
        RequestError: a file, function or argument of the request is wrong, or what makes the inputs raises.
        CouldNotRun: the inputs did not come within the time.
    """
    request = request.resolved()
    source = tuple(
        refuted(reach.kind, reach.words, where=reach.where)  # type: ignore[arg-type]
        for reach in reaches(*split(request.kernel), *split(request.reference))
    )
    if source:
        return GateOutcome(rows=_whole(source))
    from samebits.kernel_gate.alone import watched_alone  # once, for all processes
    from samebits.kernel_gate.judged import judged

    seconds = request.seconds
    inputs = forked(lambda: _inputs(request), seconds)
    if inputs.trouble:
        raise CouldNotRun(f"the inputs: it {inputs.trouble}")
    values, stand_in, wrong = inputs.value
    if wrong:
        raise RequestError(wrong)
    notes = (f"smaller sizes stand for large ones, at which the programs are the same: {stand_in}",) if stand_in else ()
    alone = forked(lambda: watched_alone(request.kernel, values), seconds)
    seen = [] if alone.value is None else [*alone.value.rows]
    if alone.trouble and not seen:
        slow = stand_in and alone.is_late  # a CPU may take long where inputs are large, which says nothing
        row = GateRow(kind="tampering", state="undecided" if slow else "refuted", words=f"it {alone.trouble}")
        return GateOutcome(rows=_whole([row]), notes=notes)
    if any(row.state == "refuted" for row in seen):
        return GateOutcome(rows=_whole(seen), notes=notes)
    beside = forked(lambda: judged(request, values, alone.value, time.monotonic() + seconds / 2), seconds)
    outcome = beside.value or GateOutcome(rows=())
    rows = [*seen, *outcome.rows]
    if beside.trouble:
        rows += _in_less_time(request, values, alone.value, outcome, f"comparing it {beside.trouble}")
    return GateOutcome(rows=_whole(rows), leaves=outcome.leaves, notes=(*notes, *outcome.notes))


def _in_less_time(request: GateRequest, values: Any, alone: Any, outcome: GateOutcome, why: str) -> list[GateRow]:
    """Return what is known where a comparison did not end: how far it came, and what other inputs say."""
    formula = next((row for row in outcome.rows if row.kind == "formula"), None)
    if formula is None:
        return [GateRow(kind="formula", state="undecided", words=why)]
    if outcome.leaves:  # so that other sizes took too long
        return [GateRow(kind="structure", state="limited", words=why)]
    from samebits.kernel_gate.judged import elsewhere_alone

    end = time.monotonic() + request.seconds / 4
    late = forked(lambda: elsewhere_alone(request, values, alone, end), request.seconds / 2)
    return [GateRow(kind="formula", state="limited", words=why), *(late.value or GateOutcome(rows=())).rows]


def _whole(rows: Sequence[GateRow]) -> tuple[GateRow, ...]:
    """Return a row for each kind: what is refuted before what holds, and what was not come to."""
    order = ("refuted", "undecided", "limited", "holds", "not tried")
    whole = []
    for kind in KINDS:
        own = sorted((row for row in rows if row.kind == kind), key=lambda row: order.index(row.state))
        alike = [row for row in own if row.state == own[0].state and row.words]
        words = "; ".join(dict.fromkeys(row.words for row in alike))
        where = next((row.where for row in alike if row.where), "")
        whole.append(GateRow(kind=kind, state=own[0].state if own else "not tried", words=words, where=where))
    return tuple(whole)


def _inputs(request: GateRequest) -> tuple[Any, str, str]:
    """Return the inputs, what stands for what, and what is wrong with them."""
    from samebits.kernel_gate.arguments import arguments, drawn_arguments
    from samebits.programs.implementations import function_named

    try:
        function_named(request.reference)
        make = functools.partial(drawn_arguments, request.arg)
        if request.inputs is not None:
            make = function_named(request.inputs)  # type: ignore[assignment]
        # The kernel is imported where smaller sizes are looked for alone: inputs may not depend on it.
        return *arguments(make, lambda: [*map(function_named, (request.reference, request.kernel))]), ""
    except SamebitsError as error:
        return (), "", str(error)
