"""A kernel where it may not have been tried: other sizes, integers, magnitudes and backends, beside its reference."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from samebits.kernel_gate.alone import Alone, on_tpus
from samebits.kernel_gate.arguments import (
    Arguments,
    OtherArguments,
    executed,
    near,
    nearby_sizes,
    other_integers,
    output_types,
    shifted_floats,
)
from samebits.kernel_gate.request import GateRequest
from samebits.schema.finding import Finding, breakable
from samebits.schema.gate_row import GateRow, GateState, refuted

Sides = tuple[Callable[..., Any], Callable[..., Any]]
"""The reference and the kernel."""

SIZES = 12
"""How many other sizes are tried at most."""

RIGHT, WRONG = 1e-3, 1e-1
"""Errors of elements, relative to each."""

MAGNITUDE = 1e6
"""Up to which inputs a kernel must be right where its reference is; beyond, it limits what is claimed."""


def elsewhere(sides: Sides, values: Arguments, request: GateRequest, alone: Alone, end: float) -> Iterator[GateRow]:
    """Execute both sides on other arguments, until `end`."""
    if alone.on_tpu:
        yield _on_tpus(sides, values)
    yield _among(sides, [*other_integers(values)], end)
    yield _among(sides, [*shifted_floats(values)], end, exactly=False)
    if request.sizes == "given":
        yield GateRow(kind="structure", state="not tried", words="other sizes were not asked for")
        return
    every = request.sizes == "all"
    near_by = [replace(each, required=each.required or every) for each in islice(nearby_sizes(values), SIZES)]
    yield _among(sides, near_by, end)


def at_other_magnitudes(leaves: Sequence[Finding]) -> list[GateRow]:
    """Look from which inputs on the kernel is wrong where its reference is right, and at NaNs and infinities."""
    for leaf in leaves:
        for row in leaf.accuracy.magnitudes:
            if row.reference is not None and row.reference < RIGHT and (row.optimized is None or row.optimized > WRONG):
                words = f"{leaf.place.what()}: wrong for inputs up to {row.size:.3g}, where its reference is right"
                state = "refuted" if row.size <= MAGNITUDE else "limited"
                return [GateRow(kind="structure", state=state, words=words)]  # type: ignore[arg-type]
    seen = [each.counterexample for each in breakable(leaves) if each.counterexample]
    return [GateRow(kind="structure", state="limited", words=text) for text in seen[:1]]


def _on_tpus(sides: Sides, values: Arguments) -> GateRow:
    """Compare the program that a kernel is where jax says that there are TPUs."""

    @functools.wraps(sides[1])
    def there(*arguments: Any) -> Any:
        with on_tpus():
            return sides[1](*arguments)

    state, why = _at((sides[0], there), values)
    words = f"another program where jax says that there are TPUs, {state} there{': ' if why else ''}{why}"
    states: dict[str, GateState] = {"right": "holds", "wrong": "refuted"}
    return GateRow(kind="aware", state=states.get(state, "limited"), words=words)


def _among(sides: Sides, tried: Sequence[OtherArguments], end: float, *, exactly: bool = True) -> GateRow:
    """Execute both sides on each: the kernel is right or rejects them, or is refuted where it must be right."""
    seen: dict[str, list[str]] = {"right": [], "rejected": [], "not tried": [], "wrong": []}
    for other in tried:
        state, why = ("not tried", "") if time.monotonic() > end else _at(sides, other.values, exactly=exactly)
        if state == "wrong" and other.required:
            return refuted("structure", f"wrong with {other.words}: {why}")
        seen.setdefault(state, []).append(other.words)
    words = "; ".join(
        f"{state} with {', '.join(dict.fromkeys(each))}" for state, each in seen.items() if each and state != "no input"
    )
    if seen["wrong"]:
        return GateRow(kind="structure", state="limited", words=words)
    return GateRow(kind="structure", state="holds" if seen["right"] or seen["rejected"] else "not tried", words=words)


def _finite_alike(got: Any, expected: Any) -> bool:
    """Return whether there are numbers where there should be."""
    return got.dtype.kind in "iub" or not np.any(np.isfinite(np.float64(expected)) & ~np.isfinite(np.float64(got)))


def _at(sides: Sides, values: Arguments, *, exactly: bool = True) -> tuple[str, str]:
    """Return what a kernel is on some arguments, and why where it is wrong; else only whether it gives numbers."""
    outputs: list[list[Any]] = []
    for work in (output_types, executed):  # what one of both rejects is not executed
        outputs = []
        for side, state in zip(sides, ("no input", "rejected"), strict=True):
            try:
                outputs.append(work(side, values))
            except Exception:  # whatever it raises
                return state, ""
    for number, (expected, got) in enumerate(zip(*outputs, strict=False)):
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return "wrong", f"output {number} has another shape or dtype"
        if not (near(got, expected) if exactly else _finite_alike(got, expected)):
            return "wrong", f"output {number} differs beyond rounding"
    return ("right", "") if len(outputs[0]) == len(outputs[1]) else ("wrong", "another number of outputs")
