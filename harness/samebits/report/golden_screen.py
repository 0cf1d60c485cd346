"""The end of `samebits golden check` in a terminal: every golden where there is room, else what does not hold."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console

from samebits.report.failing import WORST, Failing, explained, next_command
from samebits.report.golden import WIDTH, checked_sentence, show_checked, show_goldens
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import line
from samebits.report.words import plural
from samebits.train.golden.check import CheckedGolden

_LISTED = 6
"""Names that are listed; more are counted."""

_LIKELY = {
    "missing": "no golden is recorded for this run here; `samebits golden accept` records it",
    "unused": "a golden of a run that the model does not have any more",
    "damaged": "the file is damaged",
    "not run": "the run could not be made",
}


def failing_goldens(results: Sequence[CheckedGolden]) -> list[Failing]:
    """What does not hold: goldens that change first at one place together, those that changed before all others."""
    groups: dict[tuple[object, ...], list[CheckedGolden]] = {}
    for result in results:
        if not result.ok:
            groups.setdefault((result.status, result.lane, result.first_step, result.first_leaf), []).append(result)
    ordered = sorted(groups.values(), key=lambda group: (group[0].exit_code, -len(group)))
    return [_failing(group, len(results)) for group in ordered]


def show_golden_check(
    to: Console, results: Sequence[CheckedGolden], *, verbose: bool = False, notes: Sequence[str] = ()
) -> None:
    """The report of a check.

    Args:
        to: where it is printed.
        results: in the order of the document.
        verbose: whether every golden is shown, however many there are; otherwise one screen.
        notes: of the document, as what was not checked.
    """
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    failing = failing_goldens(results)
    command = next_command(failing)
    end: list[Styled] = [*((note, "yellow") for note in notes), (checked_sentence(results), "")]
    end += [] if command is None else [(f"next: {command}", "")]
    forms: list[Form] = [lambda console: show_checked(console, results)]
    if not verbose:
        short = [result for result in results if not result.ok]
        few = [explained(failing, count) for count in range(min(WORST, len(failing)), 0, -1)] or [in_turn()]
        listed = short or results
        forms += [in_turn(lambda console: show_goldens(console, listed), form) for form in few]
        forms += few if short else [_first_by_evidence(results)]
    show_fitted(to, forms, end, "--verbose prints every golden")


def _first_by_evidence(results: Sequence[CheckedGolden]) -> Form:
    """What goldens of another environment say, of the first one."""

    def form(to: Console) -> None:
        first = next((result for result in results if result.lane == "evidence"), None)
        if first is not None:
            line(to, f"{first.name}: {first.message}")

    return form


def _failing(group: Sequence[CheckedGolden], count: int) -> Failing:
    first = group[0]
    place = "" if first.first_step is None else f", first at step {first.first_step} in {first.first_leaf}"
    names = [result.name for result in group]
    listed = ", ".join(names[:_LISTED])
    return Failing(
        title=f"{len(group)} of {plural(count, 'golden')} {first.status}{place}",
        likely=_LIKELY.get(first.status, first.message),
        where=listed if len(names) <= _LISTED else f"{listed} and {len(names) - _LISTED} more",
        example=f"{first.name}: {first.message}" if len(group) > 1 or first.status in _LIKELY else "",
        next_command=_next(first, alone=count == 1),
    )


def _next(result: CheckedGolden, *, alone: bool) -> str | None:
    """What to type: the run alone, then what its golden records; a file that is damaged or unused needs no run."""
    name = shlex.quote(result.name)
    if result.status == "missing":
        return f"samebits golden accept --config {name} --reason '...'"
    if result.status == "changed":
        return f"samebits golden {'show' if alone else 'check'} --config {name}"
    return f"samebits golden check --config {name}" if result.status == "not run" and not alone else None
