"""The documents of `samebits golden`, and their page: what was accepted, what holds, and what changed where."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from samebits.errors import COULD_NOT_TELL
from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.html.charts import Row, bounds_used, curves, distances
from samebits.report.page import Beside, Block, Chart, Failing, Fold, Line, Lines, Page, Table, ValueList
from samebits.report.words import State, plural, some
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem
from samebits.train.distance import FAR
from samebits.train.golden.accept import AcceptedGolden
from samebits.train.golden.check import CheckedGolden, GoldenCurveStep
from samebits.train.golden.record import Golden, GoldenAcceptance


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenRow:
    """One golden of `golden list`.

    Args:
        name: `MATRIX/RUN`.
        path: of the file.
        environment: about the one that made it.
        steps, last_loss: the window and the loss at its end.
        bound: of the loss at the last step, in ulps.
        environments: how many confirmed it.
        accepted, commit, reason: the last acceptance.
        refreshes: how many acceptances there were before.
        drift: of the loss at the last step from the first acceptance to the last, relative.
    """

    name: str
    path: str
    environment: str
    steps: int
    last_loss: float
    bound: int
    environments: int
    accepted: str
    commit: str
    reason: str
    refreshes: int
    drift: float

    @classmethod
    def of(cls, golden: Golden, path: Path) -> GoldenRow:
        """Return the row of a golden."""
        acceptances = (*golden.history, golden.accepted)
        first, last = (float.fromhex(acceptance.last_loss) for acceptance in (acceptances[0], acceptances[-1]))
        return cls(
            name=golden.name,
            path=str(path),
            environment=path.parent.name,
            steps=golden.window,
            last_loss=golden.steps[-1].loss,
            bound=golden.evidence.loss_bound[-1],
            environments=len(golden.evidence.seen),
            accepted=golden.accepted.date,
            commit=golden.accepted.commit,
            reason=golden.accepted.reason,
            refreshes=len(golden.history),
            drift=(last - first) / abs(first) if first else 0.0,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenDocument(CommandDocument):
    """What `--json` of a golden command writes."""

    command: str
    environment: Environment | None
    results: tuple[Any, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCheckDocument(GoldenDocument):
    """What `--json` of a golden command writes."""

    command: Literal["golden check"] = "golden check"
    results: tuple[CheckedGolden, ...]

    @property
    def exit_code(self) -> int:
        """Return 1 where a golden changed, before 2 for a damaged file, before 3 for a run that was not made."""
        codes = {result.exit_code for result in self.results}
        return min(codes - {0}, default=0 if codes else COULD_NOT_TELL)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        alone = len(self.results) == 1
        for golden in self.results:
            replay = "" if golden.ok else _next(golden, alone=alone)
            more: dict[str, Any] = {"ok": golden.ok, "evidence": golden.message, "replay": replay}
            yield judged("golden check", Place(item=golden.name), golden.status, **more)

    def page(self) -> Page:
        """Return a row per golden, those that do not hold first; in HTML each with its curves."""
        page = usual_page(self, wrong="failed")
        in_order = sorted(self.results, key=lambda result: result.ok)
        return replace(
            page,
            closing=checked_sentence(self.results),
            blocks=[*_checked_blocks(in_order, page.failing), *_folds(in_order)],
            hint="--verbose prints every golden" if in_order else "",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenAcceptDocument(GoldenDocument):
    """What `--json` of a golden command writes."""

    command: Literal["golden accept"] = "golden accept"
    results: tuple[AcceptedGolden, ...]

    def page(self) -> Page:
        """Return a row per golden, with old and new; in HTML each with its curves."""
        changes = Counter(result.change for result in self.results)
        listed = ", ".join(f"{number} {change}" for change, number in changes.items()) or "none accepted"
        rows = [accepted_row(result) for result in self.results]
        return replace(
            usual_page(self, wrong="failed"),
            closing=f"{plural(len(self.results), 'golden')}: {listed}",
            blocks=[Table(heads=ACCEPT_HEADS, rows=rows, wide=ACCEPT_HEADS[-1:]), *_folds(self.results)],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenRows(GoldenDocument):
    """The goldens in files."""

    results: tuple[GoldenRow, ...]

    def page(self) -> Page:
        """Return a row per golden."""
        none = "no goldens yet; `samebits golden accept --matrix NAME --reason '...'` makes them"
        rows = [listed_row(result) for result in self.results]
        return replace(
            usual_page(self, wrong="failed"),
            closing=plural(len(self.results), "golden") if self.results or self.problems else none,
            blocks=[Table(heads=LIST_HEADS, rows=rows, wide=LIST_HEADS[-1:])],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenListDocument(GoldenRows):
    """What `--json` of a golden command writes."""

    command: Literal["golden list"] = "golden list"


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenShowDocument(GoldenRows):
    """What `--json` of a golden command writes."""

    command: Literal["golden show"] = "golden show"


CHECK_HEADS = ("golden", "status", "basis", "first change", "ulps", "relative", "allowed", "seen in")


def checked_row(result: CheckedGolden) -> list[str]:
    """Return a golden as the cells of `CHECK_HEADS`."""
    place = "" if result.first_step is None else f"step {result.first_step}, {result.first_leaf}"
    far = result.ulps if result.ulps is not None else result.max_ulp if result.ok else None
    figures = (_number(far), _number(result.relative), _number(result.bound or None))
    seen = "" if result.machines is None else plural(result.machines, "environment")
    return [result.name, result.status, result.lane or "", place, *figures, seen]


def checked_sentence(results: Sequence[CheckedGolden]) -> str:
    """Return how many goldens hold, and on what basis."""
    good = [result for result in results if result.ok]
    by_evidence = sum(result.lane == "evidence" for result in good)
    text = f"{len(good)} of {len(results)} goldens hold"
    if by_evidence:
        text += f", {by_evidence} of them only by evidence: the environment is not the recorded one"
    return f"{text}."


ACCEPT_HEADS = ("golden", "change", "old last loss", "new last loss", "first changed step", "max relative", "arrays")


def accepted_row(result: AcceptedGolden) -> list[str]:
    """Return an accepted golden as the cells of `ACCEPT_HEADS`: old and new, as a pull request needs them."""
    old = "" if result.old_loss is None else repr(float.fromhex(result.old_loss))
    new, arrays = repr(float.fromhex(result.new_loss)), [leaf for leaf in result.leaves if "/" in leaf]
    return [
        *(result.name, result.change, old, new),
        *(_number(result.first_step), _number(result.max_relative), some(arrays, 3)),
    ]


LIST_HEADS = (
    *("golden", "platform", "steps", "last loss", "bound", "seen in", "accepted", "refreshes", "drift", "reason"),
)


def listed_row(row: GoldenRow) -> list[str]:
    """Return a golden of any platform as the cells of `LIST_HEADS`."""
    seen, accepted = plural(row.environments, "environment"), f"{row.accepted} {row.commit[:9]}"
    figures = [str(row.steps), repr(row.last_loss), f"{row.bound} ulps", seen, accepted, str(row.refreshes)]
    return [row.name, row.environment, *figures, _number(row.drift) or "0", row.reason]


def golden_blocks(golden: Golden, path: Path) -> list[Block]:
    """Return one golden, with its evidence, its history and all losses."""
    acceptances = (*golden.history, golden.accepted)
    about = [("file", str(path)), *_evidence_rows(golden), *(("accepted", _accepted(each)) for each in acceptances)]
    rows = [
        [
            str(step.step),
            repr(step.loss),
            step.loss_hex,
            f"{step.perplexity:.6g}",
            f"{float.fromhex(step.grad_norm):.6g}",
            step.all_leaves,
        ]
        for step in golden.steps
    ]
    table = Table(heads=("step", "loss", "exactly", "perplexity", "gradients", "arrays"), rows=rows)
    return [Lines(lines=[Line(golden.name, "strong")], listed=False), ValueList(rows=about), table]


def _evidence_rows(golden: Golden) -> list[tuple[str, str]]:
    """Return where a golden was made, and what bounds it."""
    here, evidence = golden.environment, golden.evidence
    versions = ", ".join(f"{name} {version}" for name, version in here.versions.items() if version)
    rewrites = ", ".join(f"{name} {far}" for name, far in evidence.rewrites.items())
    made_on = f"{here.devices} x {here.platform} ({here.device_kind}), {here.machine} {'/'.join(here.instruction_sets)}"
    values = {name: value for name, value in golden.values.items() if name != "name"}
    rows = [
        ("made on", made_on),
        ("versions", versions),
        ("environment", golden.environment_digest),
        ("config", f"{golden.config_digest} {values}"),
        ("spread", f"{evidence.runs} runs; loss, in ulps: {rewrites}"),
        ("bound", f"{evidence.loss_bound[-1]} ulps at step {golden.window}; {evidence.basis}"),
    ]
    for confirmed in evidence.seen:
        text = f"{confirmed.date} {confirmed.environment} {confirmed.about}, {confirmed.max_ulp} ulps"
        rows.append(("seen", text))
    return rows


def _accepted(acceptance: GoldenAcceptance) -> str:
    """Return one acceptance: when, by whom, why, and what it changed."""
    step, relative = acceptance.first_changed_step, acceptance.max_relative_change
    change = "first" if step is None and relative is None else "same bits"
    if step:
        change = f"changed from step {step}, {relative:.2g} relative"
    loss = float.fromhex(acceptance.last_loss)
    head = f"{acceptance.date} {acceptance.commit[:9]} {acceptance.author}: {acceptance.reason}"
    return f"{head} ({change}; last loss {loss!r})"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= FAR:
        return "not finite"
    return str(value) if isinstance(value, int) else f"{value:.2g}"


def _next(result: CheckedGolden, *, alone: bool) -> str | None:
    """Say what to type: the run alone, then what its golden records; a damaged or unused file needs no run."""
    name = shlex.quote(result.name)
    if result.status == "missing":
        return f"samebits golden accept --config {name} --reason '...'"
    if result.status == "changed":
        return f"samebits golden {'show' if alone else 'check'} --config {name}"
    return f"samebits golden check --config {name}" if result.status == "not run" and not alone else None


def state_of_golden(result: CheckedGolden) -> State:
    """Return what a golden comes to."""
    return "passed" if result.ok else "incomplete" if result.exit_code == 3 else "failed"


OPEN = 3
"""So many goldens are shown unfolded; of more, only those that do not hold."""


def _checked_blocks(results: Sequence[CheckedGolden], failing: Sequence[Failing]) -> list[Block]:
    """Return a row per golden, what each says that no group of failures says, and how much of its bound each uses."""
    bad = [number for number, result in enumerate(results) if not result.ok]
    table = Table(
        heads=CHECK_HEADS,
        rows=[checked_row(result) for result in results],
        title="Goldens",
        bad=bad,
        wide=CHECK_HEADS[3:4],
        not_in_terminal=CHECK_HEADS[-1:],
    )
    if bad and len(bad) < len(results):
        table = replace(table, short=replace(table, rows=table.rows[: len(bad)]))
    others = {each.place.item for group in failing for each in group.findings if each is not group.smallest}
    alike = [result for result in results if result.name in others and result.exit_code == 1]
    by_evidence = [result for result in results if result.ok and result.lane == "evidence"]
    said = [Line(f"{result.name}: {result.message}", "" if result.ok else "bad") for result in (*alike, *by_evidence)]
    first = Lines(lines=said[len(alike) :][:1])
    lines = Lines(lines=said, short=first, media=("terminal", "markdown"))
    used = used_rows(results)
    label = (
        "The largest share of its bound that each golden's loss uses; beyond the dashed line it does not hold. The "
        "tables of the steps below have the distances"
    )
    chart = Chart(name="used", label=label, draw=lambda: bounds_used(used))
    return [table, lines, *([chart] if len(used) > 1 else [])]


def _folds(results: Sequence[CheckedGolden | AcceptedGolden]) -> list[Fold]:
    return [_fold(result, place, len(results) <= OPEN) for place, result in enumerate(results)]


def _fold(result: CheckedGolden | AcceptedGolden, place: int, unfolded: bool) -> Fold:
    """Return the curves of a golden and the arrays that changed."""
    if isinstance(result, CheckedGolden):
        said, state, opened, sides = result.message, state_of_golden(result), not result.ok, ("recorded", "today")
        changed = [
            [change.leaf, f"step {change.step}", _number(change.relative), _number(change.bound)]
            for change in result.changed
        ]
        more = result.changed_count - len(result.changed)
    else:
        said, state, opened, sides = result.change, "passed", result.change == "changed", ("before", "accepted")
        changed, more = [[leaf, "", "", ""] for leaf in result.leaves], 0
    arrays = Table(
        heads=("array", "first at", "relative change of its norm", "allowed"),
        rows=changed,
        caption="Arrays that changed, in the order in which they did",
    )
    steps = Table(heads=STEP_HEADS, rows=step_table(result.steps), caption="Both runs at every step")
    return Fold(
        title=result.name,
        blocks=[
            Lines(lines=[said], listed=False),
            *([Beside(blocks=_charts(result.steps, place, sides))] if result.steps else []),
            arrays,
            *([Lines(lines=[f"{plural(more, 'more array')} changed"], listed=False)] if more else []),
            *([Fold(title="All steps", blocks=[steps])] if result.steps else []),
        ],
        open=unfolded or opened,
        state=state,
        media=("html",),
    )


def _charts(steps: Sequence[GoldenCurveStep], place: int, names: tuple[str, str]) -> list[Chart]:
    values, apart = value_rows(steps, names), distance_rows(steps, names)
    first = next((row["step"] for row in apart if row["first"]), None)
    mark = None if first is None else (first, "first split of the loss")
    far = (
        "Distance of the loss, in float32 ulps; dashed: how far it may be in another environment; triangle: the first "
        "step with another loss"
    )
    norm = "Norm of all gradients, old and new"
    return [
        Chart(name=f"loss-{place}", label="Loss, old and new", draw=lambda: curves(values, "loss", "loss", names)),
        Chart(
            name=f"distance-{place}",
            label=far,
            draw=lambda: distances(apart, bound_rows(steps), names, first=mark),
        ),
        Chart(name=f"norm-{place}", label=norm, draw=lambda: curves(values, "norm", "norm of all gradients", names)),
    ]


STEP_HEADS = ("step", "old loss", "new loss", "ulps", "allowed", "old norm of gradients", "new norm of gradients")


def value_rows(steps: Sequence[GoldenCurveStep], names: tuple[str, str]) -> list[Row]:
    """Return the loss and the norm of all gradients of both runs at each step."""
    return [
        {"run": name, "step": step.step, "loss": loss, "norm": norm}
        for step in steps
        for name, loss, norm in (
            (names[0], step.recorded_loss, step.recorded_grad_norm),
            (names[1], step.loss, step.grad_norm),
        )
    ]


def distance_rows(steps: Sequence[GoldenCurveStep], names: tuple[str, str]) -> list[Row]:
    """Return the distance of the loss at each step that both runs have."""
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
    """Return how far the loss may be at each step; nothing where bits must be the same."""
    bounded = any(step.loss_bound for step in steps)
    return [{"step": step.step, "bound": step.loss_bound} for step in steps] if bounded else []


def used_rows(results: Sequence[CheckedGolden]) -> list[Row]:
    """Return the largest share of its bound that each golden's loss uses, of those that are held to bounds."""
    rows = []
    for result in results:
        shares = [(step.loss_ulps / step.loss_bound, step.step) for step in result.steps if step.loss_bound]
        if shares:
            used, step = max(shares)
            verdict = "rounding" if result.ok else "different"
            rows.append({"pair": result.name, "used": used, "leaf": f"loss, step {step}", "verdict": verdict})
    return rows


def step_table(steps: Sequence[GoldenCurveStep]) -> list[list[str]]:
    """Return a row for each step, as `STEP_HEADS` names the cells."""
    return [
        [
            str(step.step),
            exact_number(step.recorded_loss),
            exact_number(step.loss),
            "not comparable" if step.loss_ulps == FAR else str(step.loss_ulps),
            str(step.loss_bound),
            exact_number(step.recorded_grad_norm),
            exact_number(step.grad_norm),
        ]
        for step in steps
    ]


def exact_number(value: float | None) -> str:
    """Return a number so that other bits of float32 are other digits; words where there is none."""
    return "none, or not finite" if value is None else f"{value:.9g}"
