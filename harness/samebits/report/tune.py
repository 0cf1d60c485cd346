"""The document of `samebits compile --tune`, and its page: each value, its results and figures, and the best one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged, place_of
from samebits.report.html.charts import BarGroup, bar_charts, size_groups
from samebits.report.page import Beside, Fold, Line, Lines, Page, Table
from samebits.report.terminal import cut
from samebits.report.words import plural
from samebits.schema.finding import Finding
from samebits.schema.result import Problem, code_of
from samebits.schema.tuning import TuningBest, TuningTrial

HEADS = ("value", "results", "temp MB", "peak MB", "traffic MB", "GFLOP", "estimate", "kernels", "program")

EXPLAINED = (
    "results: the worst verdict on one CPU device at the small size, against the reference by the pair's contracts. "
    "temp, peak: memory that the compiler plans; traffic, GFLOP and estimate: the compiler's own, in which a loop's "
    "body counts once, and a kernel as what it declares of itself; none is a measurement. '-': no figure"
)

LONGEST = 400
"""Characters of an error message; JSON has all."""

_SIZES = {"temp_bytes": "temporary memory", "peak_bytes": "peak memory", "bytes_accessed": "memory traffic"}

_LABEL = "The compiler's figures of each value, each figure on its own scale; the table has the same figures"


@dataclass(frozen=True, kw_only=True, slots=True)
class TuneSummary:
    """The counts of a run of `samebits compile --tune`.

    Args:
        trials: values that were tried, over all sides, directions and targets.
        compiled: values that compile.
        same_program: values that give the same program as an earlier one.
        refused: values that the compiler or the side rejects.
        different: values with results below the pair's contracts.
        unchecked: values whose results were not executed.
    """

    trials: int
    compiled: int
    same_program: int
    refused: int
    different: int
    unchecked: int
    seconds: float
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TuneDocument(CommandDocument):
    """Everything that a run of `samebits compile --tune` found, as it is written to JSON.

    Args:
        trials: one per value, side, case, direction and target.
        best: one per side, case, direction and target.
        problems: what could not be tried.
        notes: what was left out, and what to know of the toolchain.
    """

    command: Literal["tune"] = "tune"
    environment: Environment
    trials: tuple[TuningTrial, ...]
    best: tuple[TuningBest, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: TuneSummary

    @property
    def exit_code(self) -> int:
        """0: all values were judged; 1: one gives other results; 2: a wrong request; 3: one could not be judged."""
        s = self.summary
        undecided = s.unchecked > 0 or s.interrupted or not s.compiled
        return code_of(self.problems, failed=s.different > 0, undecided=undecided)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for trial in self.trials:
            place = place_of(trial, variant=trial.side, leaf=f"{trial.argument}={trial.value}")
            verdict = "refused" if trial.refused else trial.verdict or "compiled"
            evidence = trial.refused or trial.small or None
            yield judged("tune", place, verdict, ok=trial.equal is not False, evidence=evidence)
        for best in self.best:
            place = place_of(best, variant=best.side, leaf=f"best {best.argument}")
            yield judged("tune", place, best.value or "none", evidence=best.reason)

    def page(self) -> Page:
        """Return a table for each side, direction and target, those with other results first."""
        folds = sorted(tuned_folds(self.trials, self.best), key=lambda fold: fold.state == "passed")
        explained = Lines(lines=["", Line(EXPLAINED, "dim")], listed=False)
        return replace(
            usual_page(self, ("results equal", "other results"), "failed"),
            title="compile --tune",
            explained=True,
            closing=closing_of_tuning(self),
            live=folds,
            blocks=[explained] if self.trials else [],
        )


def summarise_tuned(trials: Sequence[TuningTrial], seconds: float, interrupted: bool) -> TuneSummary:
    """Return the counts of a run."""
    return TuneSummary(
        trials=len(trials),
        compiled=sum(trial.program is not None for trial in trials),
        same_program=sum(trial.same_as is not None for trial in trials),
        refused=sum(trial.refused is not None for trial in trials),
        different=sum(trial.equal is False for trial in trials),
        unchecked=sum(trial.equal is None for trial in trials),
        seconds=round(seconds, 2),
        interrupted=interrupted,
    )


def groups(trials: Sequence[TuningTrial]) -> list[list[TuningTrial]]:
    """Return the trials that make a table: of one side in one direction on one target."""
    return [list(group) for _, group in groupby(trials, place_of_trial)]


def place_of_trial(record: TuningTrial | TuningBest) -> tuple[str, ...]:
    """Return pair, case, target, direction and side: what the trials of a table share."""
    return (record.pair, record.case, record.target, record.direction, record.side)


def tuned_title(trials: Sequence[TuningTrial]) -> str:
    """Return what was tried on what."""
    first = trials[0]
    compiler = "jaxlib" if first.target.startswith("cpu") else "libtpu"
    what = f"{first.pair}, {first.side}, {first.direction}: {first.argument} of {first.case}"
    return f"{what} on {first.target}, {compiler} {first.compiler}"


def tuned_rows(trials: Sequence[TuningTrial]) -> list[list[str]]:
    """Return a row per value, as `HEADS` names the cells."""
    return [_row(trial) for trial in trials]


def _row(trial: TuningTrial) -> list[str]:
    name = trial.value + (" (declared)" if trial.declared else "")
    if trial.refused is not None:
        return [name, _results(trial), *("-",) * 6, "rejected"]
    estimate = "-" if trial.optimal_seconds is None else f"{trial.optimal_seconds * 1e6:,.1f} us".replace(",", " ")
    flops = "-" if trial.flops is None else f"{trial.flops / 1e9:,.3f}".replace(",", " ")
    program = f"{(trial.program or '')[:8]}" + (f" as {trial.same_as}" if trial.same_as else "")
    figures = [_mega(figure) for figure in (trial.temp_bytes, trial.peak_bytes, trial.bytes_accessed)]
    return [name, _results(trial), *figures, flops, estimate, str(trial.kernels), program]


def _results(trial: TuningTrial) -> str:
    if trial.equal is None:
        return f"not run ({trial.verdict})" if trial.verdict else "not run"
    return f"{trial.verdict}" if trial.equal else f"FAILS: {trial.verdict}"


def _mega(number: float | None) -> str:
    return "-" if number is None else f"{number / 1e6:,.1f}".replace(",", " ")


def best_line(choice: TuningBest) -> str:
    """Return what is best, by what; or why nothing is."""
    return f"best: {choice.value}: {choice.reason}" if choice.value is not None else f"no best value: {choice.reason}"


def closing_of_tuning(document: TuneDocument) -> str:
    """Write one sentence for the whole run."""
    s = document.summary
    words_ = [
        f"{plural(s.trials, 'trial')}: {s.compiled} compiled ({s.same_program} the program of an earlier value)",
        f"{s.refused} rejected",
        f"{s.different} with other results" if s.different else "no other results",
    ]
    if s.unchecked:
        words_.append(f"{s.unchecked} without results")
    problems = f"; {plural(len(document.problems), 'problem')}" if document.problems else ""
    cut = "interrupted; " if s.interrupted else ""
    return f"{cut}{', '.join(words_)}{problems}; {s.seconds:.1f} s"


def tuned_folds(trials: Sequence[TuningTrial], best: Sequence[TuningBest]) -> list[Fold]:
    """Return the tables of trials, with what is best below each."""
    chosen = {place_of_trial(choice): choice for choice in best}
    return [_fold(group, number, chosen.get(place_of_trial(group[0]))) for number, group in enumerate(groups(trials))]


def _fold(trials: Sequence[TuningTrial], number: int, best: TuningBest | None) -> Fold:
    wrong, unknown = any(trial.equal is False for trial in trials), any(trial.equal is None for trial in trials)
    compiled = {trial.value: trial for trial in trials if trial.program is not None}
    # Bars of one and the same program say nothing.
    figures = _figures(compiled) if len({trial.program for trial in compiled.values()}) > 1 else []
    table = Table(
        heads=HEADS,
        rows=tuned_rows(trials),
        caption="Every value",
        bad=[place for place, trial in enumerate(trials) if trial.equal is False],
        right=HEADS[2:8],
    )
    said = Lines(lines=[*_said(trials), *([Line(best_line(best), "strong")] if best else [])], indent=4)
    return Fold(
        title=tuned_title(trials),
        blocks=[table, Beside(blocks=[*bar_charts(f"values-{number}", _LABEL, figures, [*compiled]), said])],
        open=wrong or unknown or bool(figures),
        state="failed" if wrong else "incomplete" if unknown else "passed",
    )


def _said(trials: Sequence[TuningTrial]) -> Iterator[Line]:
    """Yield which values are rejected, have other results, were not run, or are alike at the small size."""
    for trial in trials:
        if trial.refused is not None:
            yield Line(f"{trial.value} is rejected: {cut(trial.refused, LONGEST)}", "dim")
        if trial.equal is False:
            yield Line(f"FAILS: {trial.value} gives other results: {trial.small}", "bad")
        elif trial.equal is None:
            yield Line(f"NOT KNOWN: {trial.value}: {trial.small}", "warn")
        elif trial.small.startswith("the program of ") and trial.program is not None and trial.same_as is None:
            same = f"not run separately: it is {trial.small}; larger tune_sizes would distinguish them"
            yield Line(f"{trial.value}: {same}", "warn")


def _figures(compiled: Mapping[str, TuningTrial]) -> list[BarGroup]:
    """Return the figures that at least one value has any of."""
    figures = size_groups(compiled, _SIZES)
    seconds = {value: trial.optimal_seconds for value, trial in compiled.items()}
    if any(seconds.values()):
        texts = {value: "" if time is None else f"{time * 1e6:,.1f} us" for value, time in seconds.items()}
        figures.append(BarGroup("estimated time", seconds, texts))
    return figures
