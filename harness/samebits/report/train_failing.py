"""What is not as expected of training runs, grouped by where runs first part, with the command that narrows it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from samebits.report.failing import Failing
from samebits.report.train import TrainDocument, nearest
from samebits.report.words import plural
from samebits.train.compare import Pairing
from samebits.train.distance import FAR, SCALARS

_LISTED = 6
"""Names that are listed; more are counted."""


def failing_runs(document: TrainDocument) -> list[Failing]:
    """The comparisons below what is expected, then the planted defects that were not seen."""
    groups: dict[tuple[object, ...], list[Pairing]] = {}
    for comparison in document.comparisons:
        if not comparison.ok:
            key = (comparison.verdict, comparison.first_step, comparison.first_leaf)
            groups.setdefault(key, []).append(comparison)
    ordered = sorted(groups.values(), key=lambda group: (group[0].verdict != "different", -len(group)))
    failing = [_failing(document, group) for group in ordered]
    missed = [defect for defect in document.detection.defects if not defect.seen[-1]] if document.detection else []
    if missed and document.detection is not None:
        count = len(document.detection.defects)
        failing.append(
            Failing(
                title=f"{len(missed)} of {plural(count, 'planted defect')} not seen",
                likely="the bounds of the comparison are too wide for them",
                where=_listed([defect.defect for defect in missed]),
            )
        )
    return failing


def bisection(document: TrainDocument, comparison: Pairing) -> str | None:
    """The search for the pair at fault, where both runs are of the same matrix."""
    names = {run.config for run in document.results}
    if not {comparison.a, comparison.b} <= names or document.matrix in names:
        return None
    a, b = (f"{document.matrix}/{name}" for name in (comparison.a, comparison.b))
    steps = str(len(document.results[0].steps))
    return shlex.join(["samebits", "bisect", "pairs", "--config", b, "--against", a, "--steps", steps])


def _failing(document: TrainDocument, group: Sequence[Pairing]) -> Failing:
    first = group[0]
    likely = "more than rounding" if first.verdict != "rounding" else "other bits, and the same were expected"
    return Failing(
        title=f"{len(group)} of {plural(len(document.comparisons), 'comparison')} {first.verdict}, first at step "
        f"{first.first_step} in {first.first_leaf}",
        likely=f"{likely}; expected {first.expected}: {first.reason}",
        where=_listed([f"{comparison.b} beside {comparison.a}" for comparison in group]),
        example=f"{first.b} beside {first.a}{_far(first)}",
        next_command=next(filter(None, (bisection(document, comparison) for comparison in group)), None),
    )


def _far(comparison: Pairing) -> str:
    """How far the loss is off, and what else is beyond its bound."""
    if comparison.max_ulp >= FAR:
        return ": the loss of one of them is not finite"
    text = f": the loss is up to {plural(comparison.max_ulp, 'ulp')} away, {comparison.envelope} are allowed"
    other = comparison.verdict == "different" and comparison.worst_leaf not in (None, *SCALARS)
    return f"{text}; {nearest(comparison)}" if other else text


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
