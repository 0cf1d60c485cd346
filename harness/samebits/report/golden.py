"""Shows goldens in a terminal and a pull request: what was accepted, what holds, and what changed where."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.failing import Failing, next_lines, opening, shortened
from samebits.report.markdown_fit import escaped, fitted, table_rows
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import Cell, line, show_whole
from samebits.report.words import State, plural, some
from samebits.schema.result import Problem
from samebits.train.distance import FAR
from samebits.train.golden.accept import AcceptedGolden
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.record import Golden, GoldenAcceptance

WIDTH = 250
"""Columns of a table in a file or a pipe."""


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
        """The row of a golden."""
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
class GoldenDocument:
    """What `--json` of a golden command writes."""

    schema: Literal["samebits/2"] = SCHEMA
    command: str
    environment: Environment | None
    results: tuple[CheckedGolden | AcceptedGolden | GoldenRow, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    written: Written | None = None


CHECK_HEADS = ("golden", "status", "basis", "first change", "ulps", "relative", "allowed")


def checked_row(result: CheckedGolden) -> list[str]:
    """A golden as the cells of `CHECK_HEADS`."""
    place = "" if result.first_step is None else f"step {result.first_step}, {result.first_leaf}"
    far = result.ulps if result.ulps is not None else result.max_ulp if result.ok else None
    figures = (_number(far), _number(result.relative), _number(result.bound or None))
    return [result.name, result.status, result.lane or "", place, *figures]


def show_goldens(to: Console, results: Sequence[CheckedGolden]) -> None:
    """A row per golden."""
    rows: list[list[Cell]] = []
    for result in results:
        name, status, *cells = checked_row(result)
        rows.append([name, Text(status, "" if result.ok else "bold red"), *cells])
    show_whole(_wide(to), CHECK_HEADS, rows, ("first change",))


def show_checked(to: Console, results: Sequence[CheckedGolden]) -> None:
    """A row per golden; what changed, line by line (what could not be read or run is on stderr)."""
    show_goldens(to, results)
    for result in results:
        if result.exit_code == 1 or result.lane == "evidence":
            to.print(Text(f"{result.name}: {result.message}", "" if result.ok else "bold red"), soft_wrap=True)


def checked_sentence(results: Sequence[CheckedGolden]) -> str:
    """How many goldens hold, and on what basis."""
    good = [result for result in results if result.ok]
    by_evidence = sum(result.lane == "evidence" for result in good)
    text = f"{len(good)} of {len(results)} goldens hold"
    if by_evidence:
        text += f", {by_evidence} of them only by evidence: the environment is not the recorded one"
    return f"{text}."


def show_accepted(to: Console, results: Sequence[AcceptedGolden]) -> None:
    """Old and new, as a pull request needs them."""
    heads = ("golden", "change", "old last loss", "new last loss", "first changed step", "max relative", "arrays")
    rows = []
    for result in results:
        arrays = [leaf for leaf in result.leaves if "/" in leaf]
        names = some(arrays, 3)
        rows.append(
            [
                result.name,
                result.change,
                "" if result.old_loss is None else repr(float.fromhex(result.old_loss)),
                repr(float.fromhex(result.new_loss)),
                _number(result.first_step),
                _number(result.max_relative),
                names,
            ]
        )
    show_whole(_wide(to), heads, rows, ("arrays",))


def show_listed(to: Console, results: Sequence[GoldenRow]) -> None:
    """A row per golden of every platform."""
    heads = ("golden", "platform", "steps", "last loss", "bound", "seen in", "accepted", "refreshes", "drift", "reason")
    rows = [
        [
            result.name,
            result.environment,
            str(result.steps),
            repr(result.last_loss),
            f"{result.bound} ulps",
            f"{result.environments} environment{'' if result.environments == 1 else 's'}",
            f"{result.accepted} {result.commit[:9]}",
            str(result.refreshes),
            _number(result.drift) or "0",
            result.reason,
        ]
        for result in results
    ]
    show_whole(_wide(to), heads, rows, ("reason",))


def show_golden(to: Console, golden: Golden, path: Path) -> None:
    """One golden, with its evidence, its history and all losses."""
    to.print(Text(golden.name, "bold"), soft_wrap=True)
    acceptances = (*golden.history, golden.accepted)
    about = [("file", str(path)), *_evidence_rows(golden), *(("accepted", _accepted(each)) for each in acceptances)]
    for name, value in about:
        to.print(Text(f"  {name:<12}{value}"), soft_wrap=True)
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
    show_whole(_wide(to), ("step", "loss", "exactly", "perplexity", "gradients", "arrays"), rows)


def _evidence_rows(golden: Golden) -> list[tuple[str, str]]:
    """Where a golden was made, and what bounds it."""
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
    """One acceptance: when, by whom, why, and what it changed."""
    step, relative = acceptance.first_changed_step, acceptance.max_relative_change
    change = "first" if step is None and relative is None else "same bits"
    if step:
        change = f"changed from step {step}, {relative:.2g} relative"
    loss = float.fromhex(acceptance.last_loss)
    head = f"{acceptance.date} {acceptance.commit[:9]} {acceptance.author}: {acceptance.reason}"
    return f"{head} ({change}; last loss {loss!r})"


def _wide(to: Console) -> Console:
    """In a file or a pipe rows are lines, however long; a digit that is cut off would be another number."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    return to


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= FAR:
        return "not finite"
    return str(value) if isinstance(value, int) else f"{value:.2g}"


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
    end: list[Styled] = [*((note, "yellow") for note in notes), (checked_sentence(results), "")]
    end += next_lines(failing)
    forms: list[Form] = [lambda console: show_checked(console, results)]
    if not verbose:
        short = [result for result in results if not result.ok]
        few = shortened(failing)
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
    return Failing(
        title=f"{len(group)} of {plural(count, 'golden')} {first.status}{place}",
        likely=_LIKELY.get(first.status, first.message),
        where=some(names),
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


def checked_markdown(document: GoldenDocument) -> str:
    """The document as Markdown of at most 60 lines: what came out, the worst failures, a row per golden."""
    results = [result for result in document.results if isinstance(result, CheckedGolden)]
    parts = opening(f"golden check: {state_of_goldens(document)}", checked_sentence(results), failing_goldens(results))
    if results:
        bad = [number for number, result in enumerate(results) if not result.ok]
        rows = table_rows("Goldens", CHECK_HEADS, [checked_row(result) for result in results], bad)
        parts.append(replace(rows, opened=False))
    by_evidence = [result for result in results if result.ok and result.lane == "evidence"]
    parts += [escaped(note) for note in document.notes]
    if by_evidence:
        parts.append(escaped(f"{by_evidence[0].name}: {by_evidence[0].message}"))
    return fitted(parts)


def state_of_golden(result: CheckedGolden) -> State:
    """Return what a golden comes to."""
    return "passed" if result.ok else "incomplete" if result.exit_code == 3 else "failed"


def state_of_goldens(document: GoldenDocument) -> State:
    """Return what all goldens come to; a check of none is incomplete."""
    checked = [result for result in document.results if isinstance(result, CheckedGolden)]
    states = {state_of_golden(result) for result in checked}
    if "failed" in states or any(problem.exit_code != 3 for problem in document.problems):
        return "failed"
    empty = document.command == "golden check" and not checked
    return "incomplete" if "incomplete" in states or document.problems or empty else "passed"
