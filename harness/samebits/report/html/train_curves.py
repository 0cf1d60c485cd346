"""The curves of training runs as rows for charts and tables: values, distances, and which runs have equal bits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.report.train import TrainDocument
from samebits.train.compare import Pairing
from samebits.train.distance import first_parting, loss_ulps
from samebits.train.record import RunRecord, StepRecord

Row = dict[str, Any]

STEP_HEADS = ("run", "step", "loss", "exactly", "norm of all gradients")


@dataclass(frozen=True, slots=True)
class Split:
    """A run that leaves the runs whose bits it had.

    Args:
        run: that leaves.
        step: the first step with other bits.
        leaf: the first array with other bits there, in the order of computation.
        others: the first of the runs that it leaves.
    """

    run: str
    step: int
    leaf: str
    others: str


@dataclass(frozen=True, slots=True)
class ClusterCell:
    """One run at one step.

    Args:
        leader: the first run, in the order of the document, with the same bits up to this step.
        split: whether the run had the bits of another leader one step before.
    """

    run: str
    step: int
    leader: str
    split: bool


def value_rows(document: TrainDocument) -> list[Row]:
    """The loss and the norm of all gradients of each run at each step; what is not finite is left out."""
    return [
        {
            "run": run.config,
            "step": step.step,
            "loss": _finite(step.loss),
            "exactly": step.loss_hex,
            "norm": _finite(step.grad_norm),
        }
        for run in document.results
        for step in run.steps
    ]


def step_table(document: TrainDocument) -> list[list[str]]:
    """A row for each step of each run, as `STEP_HEADS` names the cells."""
    return [
        [run.config, str(step.step), f"{step.loss:.9g}", step.loss_hex, f"{step.grad_norm:.9g}"]
        for run in document.results
        for step in run.steps
    ]


def distance_rows(document: TrainDocument) -> list[Row]:
    """The distance of each compared run at each step: of the loss in ulps, of the gradients' norm relative to it."""
    runs = {run.config: run for run in document.results}
    rows = []
    for comparison in document.comparisons:
        a, b = runs.get(comparison.a), runs.get(comparison.b)
        # Documents of before have no distances; they hold the runs.
        ulps = comparison.loss_distances or (loss_ulps(a, b) if a is not None and b is not None else ())
        for step, far in enumerate(ulps, 1):
            rows.append(
                {
                    "run": comparison.b,
                    "pair": f"{comparison.b} beside {comparison.a}",
                    "step": step,
                    "ulps": far,
                    "norm": None if a is None or b is None else _norm_distance(a.steps[step - 1], b.steps[step - 1]),
                    "first": step == comparison.first_step,
                    "ok": comparison.ok,
                }
            )
    return rows


def bound_rows(document: TrainDocument) -> list[Row]:
    """The envelope of the loss at each step: how far rounding alone moved it, and how far it may be."""
    envelope = document.envelope
    if envelope is None:
        return []
    pairs = zip(envelope.loss_noise, envelope.loss_bound, strict=True)
    return [{"step": step, "noise": noise, "bound": bound} for step, (noise, bound) in enumerate(pairs, 1)]


def headroom_rows(document: TrainDocument) -> list[Row]:
    """How much of its bound each comparison uses, where it uses most; a distance of 0 uses nothing."""
    return [
        {
            "pair": f"{comparison.b} beside {comparison.a}",
            "used": comparison.distance / comparison.bound,
            "leaf": comparison.worst_leaf,
            "verdict": comparison.verdict,
        }
        for comparison in document.comparisons
        if comparison.distance is not None and comparison.bound
    ]


def clusters_by_step(runs: Sequence[RunRecord]) -> list[ClusterCell]:
    """Which runs have had the same bits up to each step, all runs being equal before the first."""
    if not runs:
        return []
    leaders = {run.config: runs[0].config for run in runs}
    cells = []
    for place in range(max(len(run.steps) for run in runs)):
        first: dict[tuple[str, str], str] = {}
        before = leaders
        leaders = {}
        for run in runs:
            if place >= len(run.steps):
                continue
            leader = first.setdefault((before[run.config], _bits(run.steps[place])), run.config)
            leaders[run.config] = leader
            cells.append(ClusterCell(run.config, place + 1, leader, leader != before[run.config]))
    return cells


def splits(runs: Sequence[RunRecord]) -> list[Split]:
    """Where runs leave the runs whose bits they had, in the order of the document."""
    by_name = {run.config: run for run in runs}
    before: dict[str, str] = {run.config: runs[0].config for run in runs}
    parted = []
    for cell in clusters_by_step(runs):
        others = before[cell.run]
        parting = first_parting(by_name[others], by_name[cell.run]) if cell.split and others != cell.run else None
        if parting is not None and parting[0] == cell.step:
            parted.append(Split(cell.run, parting[0], parting[1], others))
        before[cell.run] = cell.leader
    return parted


def failing(document: TrainDocument) -> Iterator[Pairing]:
    """The comparisons below what is expected."""
    return (comparison for comparison in document.comparisons if not comparison.ok)


def _bits(step: StepRecord) -> str:
    return " ".join([step.loss_hex, *(f"{name}={leaf.digest}" for name, leaf in sorted(step.digests.items()))])


def _norm_distance(first: StepRecord, second: StepRecord) -> float | None:
    if not (math.isfinite(first.grad_norm) and math.isfinite(second.grad_norm)):
        return None
    return abs(first.grad_norm - second.grad_norm) / abs(first.grad_norm or 1)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
