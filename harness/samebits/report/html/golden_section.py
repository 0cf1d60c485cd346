"""Goldens on a page: which hold, and of each the recorded and the new curves, and what changed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.report.golden import GoldenDocument, GoldenRow, state_of_golden, state_of_goldens
from samebits.report.html.run_charts import Row, bounds_used, curves, distances
from samebits.report.html.section import Section, render
from samebits.report.words import State, plural, problems_sentence, some
from samebits.train.distance import FAR
from samebits.train.golden.accept import AcceptedGolden
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.curve import GoldenCurveStep

OPEN = 3
"""So many goldens are shown unfolded; of more, only those that do not hold."""

_CHECK_HEADS = ("golden", "status", "basis", "first change", "ulps", "relative", "allowed", "seen in")
_ACCEPT_HEADS = ("golden", "change", "old last loss", "new last loss", "first changed step", "max relative", "arrays")
_LIST_HEADS = (
    "golden",
    "platform",
    "steps",
    "last loss",
    "bound",
    "seen in",
    "accepted",
    "refreshes",
    "drift",
    "reason",
)


@dataclass(frozen=True, slots=True)
class GoldenView:
    """One golden: what became of it, its curves, and the arrays that changed."""

    name: str
    state: State
    line: str
    charts: tuple[str, ...]
    steps: list[list[str]]
    changed: list[list[str]]
    more: int
    open: bool


def golden_section(document: GoldenDocument) -> Section:
    """The section of a golden command.

    Args:
        document: of `samebits golden check`, `accept`, `list` or `show`.
    """
    checked = [result for result in document.results if isinstance(result, CheckedGolden)]
    accepted = [result for result in document.results if isinstance(result, AcceptedGolden)]
    rows = [result for result in document.results if isinstance(result, GoldenRow)]
    charts: dict[str, Mapping[str, Any]] = {}
    views = [_checked_view(result, place, charts, len(checked)) for place, result in enumerate(_failed_first(checked))]
    views += [_accepted_view(result, place, charts, len(accepted)) for place, result in enumerate(accepted)]
    used = used_rows(checked)
    if len(used) > 1:
        charts["used"] = bounds_used(used)
    headline, state = _headline(document, checked, accepted), state_of_goldens(document)
    return Section(
        command=document.command,
        state=state,
        headline=headline,
        next_command=_next_command(checked),
        body=render(
            "golden.html.j2",
            document=document,
            table=_table(checked, accepted, rows),
            views=views,
            step_heads=STEP_HEADS,
            charts=charts,
        ),
        charts=charts,
        styles=("compile.css",),
    )


def _failed_first(results: Sequence[CheckedGolden]) -> list[CheckedGolden]:
    return sorted(results, key=lambda result: result.ok)


def _checked_view(result: CheckedGolden, place: int, charts: dict[str, Mapping[str, Any]], count: int) -> GoldenView:
    changed = [
        [change.leaf, f"step {change.step}", _short(change.relative), _short(change.bound)] for change in result.changed
    ]
    return GoldenView(
        name=result.name,
        state=state_of_golden(result),
        line=result.message,
        charts=_add_charts(charts, place, result.steps, ("recorded", "today")),
        steps=step_table(result.steps),
        changed=changed,
        more=result.changed_count - len(result.changed),
        open=count <= OPEN or not result.ok,
    )


def _accepted_view(result: AcceptedGolden, place: int, charts: dict[str, Mapping[str, Any]], count: int) -> GoldenView:
    return GoldenView(
        name=result.name,
        state="passed",
        line=result.change,
        charts=_add_charts(charts, place, result.steps, ("before", "accepted")),
        steps=step_table(result.steps),
        changed=[[leaf, "", "", ""] for leaf in result.leaves],
        more=0,
        open=count <= OPEN or result.change == "changed",
    )


def _add_charts(
    charts: dict[str, Mapping[str, Any]], place: int, steps: Sequence[GoldenCurveStep], names: tuple[str, str]
) -> tuple[str, ...]:
    """The charts of one golden, added to all; their names."""
    if not steps:
        return ()
    values, apart = value_rows(steps, names), distance_rows(steps, names)
    first = next((row["step"] for row in apart if row["first"]), None)
    mark = None if first is None else (first, "first split of the loss")
    drawn = {
        f"loss-{place}": curves(values, "loss", "loss", names),
        f"distance-{place}": distances(apart, bound_rows(steps), names, first=mark),
        f"norm-{place}": curves(values, "norm", "norm of all gradients", names),
    }
    charts.update(drawn)
    return tuple(drawn)


def _table(
    checked: Sequence[CheckedGolden], accepted: Sequence[AcceptedGolden], rows: Sequence[GoldenRow]
) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads and a row per golden."""
    if checked:
        return _CHECK_HEADS, [
            [
                result.name,
                result.status,
                result.lane or "",
                "" if result.first_step is None else f"step {result.first_step}, {result.first_leaf}",
                _short(result.ulps if result.ulps is not None else result.max_ulp),
                _short(result.relative),
                _short(result.bound or None),
                "" if result.machines is None else plural(result.machines, "environment"),
            ]
            for result in _failed_first(checked)
        ]
    if accepted:
        return _ACCEPT_HEADS, [_accepted_row(result) for result in accepted]
    return _LIST_HEADS, [_listed_row(row) for row in rows]


def _accepted_row(result: AcceptedGolden) -> list[str]:
    arrays = some(result.leaves, 3)
    old = "" if result.old_loss is None else repr(float.fromhex(result.old_loss))
    new, relative = repr(float.fromhex(result.new_loss)), _short(result.max_relative)
    return [result.name, result.change, old, new, _short(result.first_step), relative, arrays]


def _listed_row(row: GoldenRow) -> list[str]:
    seen, accepted = plural(row.environments, "environment"), f"{row.accepted} {row.commit[:9]}"
    figures = [str(row.steps), repr(row.last_loss), f"{row.bound} ulps", seen, accepted, str(row.refreshes)]
    return [row.name, row.environment, *figures, _short(row.drift) or "0", row.reason]


def _short(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.2g}"


def _headline(document: GoldenDocument, checked: Sequence[CheckedGolden], accepted: Sequence[AcceptedGolden]) -> str:
    """What changed, and where; else how many hold."""
    wrong = [result for result in _failed_first(checked) if not result.ok]
    if wrong:
        first, more = wrong[0], f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        count = f"{len(wrong)} of {plural(len(checked), 'golden')} not as recorded"
        return f"{count}: {first.name}: {first.message}{more}"
    if document.problems:
        return problems_sentence(document.problems)
    if accepted:
        counts = Counter(result.change for result in accepted)
        return (
            f"{plural(len(accepted), 'golden')}: {', '.join(f'{count} {change}' for change, count in counts.items())}"
        )
    if not checked:
        return f"{plural(len(document.results), 'golden')}"
    by_evidence = sum(result.lane == "evidence" for result in checked)
    text = "the golden holds" if len(checked) == 1 else f"all {len(checked)} goldens hold"
    if not by_evidence:
        return f"{text}, bit for bit"
    some = "" if by_evidence == len(checked) else f", {by_evidence} of them"
    return f"{text}{some} by evidence: the environment is not the recorded one"


def _next_command(checked: Sequence[CheckedGolden]) -> str | None:
    """The check of the first golden that does not hold."""
    wrong = next((result for result in _failed_first(checked) if not result.ok), None)
    return None if wrong is None else shlex.join(["samebits", "golden", "check", "--config", wrong.name])


STEP_HEADS = ("step", "old loss", "new loss", "ulps", "allowed", "old norm of gradients", "new norm of gradients")


def value_rows(steps: Sequence[GoldenCurveStep], names: tuple[str, str]) -> list[Row]:
    """The loss and the norm of all gradients of both runs at each step.

    Args:
        steps: of a golden.
        names: of the recorded run and of the other one.
    """
    return [
        {"run": name, "step": step.step, "loss": loss, "norm": norm}
        for step in steps
        for name, loss, norm in (
            (names[0], step.recorded_loss, step.recorded_grad_norm),
            (names[1], step.loss, step.grad_norm),
        )
    ]


def distance_rows(steps: Sequence[GoldenCurveStep], names: tuple[str, str]) -> list[Row]:
    """The distance of the loss at each step that both runs have."""
    first = next((step.step for step in steps if step.loss_ulps), None)
    return [
        {
            "run": names[1],
            "pair": f"{names[1]} beside {names[0]}",
            "step": step.step,
            "ulps": step.loss_ulps,
            "first": step.step == first,
        }
        for step in steps
    ]


def bound_rows(steps: Sequence[GoldenCurveStep]) -> list[Row]:
    """How far the loss may be at each step; nothing where bits must be the same."""
    bounded = any(step.loss_bound for step in steps)
    return [{"step": step.step, "bound": step.loss_bound} for step in steps] if bounded else []


def used_rows(results: Sequence[CheckedGolden]) -> list[Row]:
    """The largest share of its bound that each golden's loss uses, of those that are held to bounds."""
    rows = []
    for result in results:
        shares = [(step.loss_ulps / step.loss_bound, step.step) for step in result.steps if step.loss_bound]
        if shares:
            used, step = max(shares)
            verdict = "rounding" if result.ok else "different"
            rows.append({"pair": result.name, "used": used, "leaf": f"loss, step {step}", "verdict": verdict})
    return rows


def step_table(steps: Sequence[GoldenCurveStep]) -> list[list[str]]:
    """A row for each step, as `STEP_HEADS` names the cells."""
    return [
        [
            str(step.step),
            number(step.recorded_loss),
            number(step.loss),
            "not comparable" if step.loss_ulps == FAR else str(step.loss_ulps),
            str(step.loss_bound),
            number(step.recorded_grad_norm),
            number(step.grad_norm),
        ]
        for step in steps
    ]


def number(value: float | None) -> str:
    """A number so that other bits of float32 are other digits; words where there is none."""
    return "none, or not finite" if value is None else f"{value:.9g}"
