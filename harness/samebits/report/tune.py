"""The report of `samebits compile --tune`: the document, and the rows that terminal and Markdown share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from rich.console import Console

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.markdown_fit import escaped, joined, markdown_table
from samebits.report.tables import line, show_table
from samebits.report.words import plural, state_word
from samebits.schema.result import Problem, code_of
from samebits.schema.tuning import TuningBest, TuningTrial

HEADS = ("value", "results", "temp MB", "peak MB", "traffic MB", "GFLOP", "estimate", "kernels", "program")

EXPLAINED = (
    "results: the worst verdict on one CPU device at the small size, against the reference by the pair's contracts. "
    "temp, peak: memory that the compiler plans; traffic, GFLOP and estimate: the compiler's own, in which a loop's "
    "body counts once, and a kernel as what it declares of itself; none is a measurement. '-': no figure"
)

LONGEST = 200
"""Characters of an error message in a table; JSON has all."""


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
class TuneDocument:
    """Everything that a run of `samebits compile --tune` found, as it is written to JSON.

    Args:
        trials: one per value, side, case, direction and target.
        best: one per side, case, direction and target.
        problems: what could not be tried.
        notes: what was left out, and what to know of the toolchain.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["tune"] = "tune"
    environment: Environment
    trials: tuple[TuningTrial, ...]
    best: tuple[TuningBest, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: TuneSummary
    written: Written | None = None


def summarise_tuned(trials: Sequence[TuningTrial], seconds: float, interrupted: bool) -> TuneSummary:
    """The counts of a run."""
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


def exit_code_of_tuning(document: TuneDocument) -> int:
    """0: all values were judged; 1: one gives other results; 2: a wrong request; 3: something could not be decided."""
    s = document.summary
    undecided = s.unchecked > 0 or s.interrupted or not s.compiled
    return code_of(document.problems, failed=s.different > 0, undecided=undecided)


def groups(trials: Sequence[TuningTrial]) -> list[list[TuningTrial]]:
    """The trials that make a table: of one side in one direction on one target."""
    return [list(group) for _, group in groupby(trials, place_of_trial)]


def place_of_trial(record: TuningTrial | TuningBest) -> tuple[str, ...]:
    """Pair, case, target, direction and side: what the trials of a table share."""
    return (record.pair, record.case, record.target, record.direction, record.side)


def tuned_title(trials: Sequence[TuningTrial]) -> str:
    """What was tried on what."""
    first = trials[0]
    compiler = "jaxlib" if first.target.startswith("cpu") else "libtpu"
    what = f"{first.pair}, {first.side}, {first.direction}: {first.argument} of {first.case}"
    return f"{what} on {first.target}, {compiler} {first.compiler}"


def tuned_rows(trials: Sequence[TuningTrial]) -> list[list[str]]:
    """A row per value, as `HEADS` names the cells."""
    return [_row(trial) for trial in trials]


def _row(trial: TuningTrial) -> list[str]:
    name = trial.value + (" (declared)" if trial.declared else "")
    if trial.refused is not None:
        refusal = trial.refused if len(trial.refused) <= LONGEST else trial.refused[:LONGEST] + " ..."
        return [name, _results(trial), *("-",) * 6, f"REJECTED: {refusal}"]
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
    """What is best, by what; or why nothing is."""
    return f"best: {choice.value}: {choice.reason}" if choice.value is not None else f"no best value: {choice.reason}"


def small_lines(trials: Sequence[TuningTrial]) -> list[str]:
    """Values with other results, those that were not run, and those that the small size cannot distinguish."""
    lines = []
    for trial in trials:
        if trial.equal is False:
            lines.append(f"FAILS: {trial.value} gives other results: {trial.small}")
        elif trial.equal is None:
            lines.append(f"NOT KNOWN: {trial.value}: {trial.small}")
        elif trial.small.startswith("the program of ") and trial.program is not None and trial.same_as is None:
            lines.append(
                f"{trial.value}: not run separately: it is {trial.small}; larger tune_sizes would distinguish them"
            )
    return lines


def closing_of_tuning(document: TuneDocument) -> str:
    """One sentence for the whole run."""
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


def show_tuned(to: Console, trials: Sequence[TuningTrial], best: Sequence[TuningBest]) -> None:
    """The tables of one case on one target in one direction, with what is best below each."""
    chosen = {place_of_trial(choice): choice for choice in best}
    if not to.is_terminal:
        to.width = max(to.width, LONGEST + 200)
    for group in groups(trials):
        line(to)
        line(to, tuned_title(group), "bold")
        show_table(to, list(HEADS), tuned_rows(group))
        for text in small_lines(group):
            line(to, f"    {text}", "bold red" if text.startswith("FAILS") else "yellow")
        line(to, f"    {best_line(chosen[place_of_trial(group[0])])}")


def show_tuned_end(to: Console, document: TuneDocument) -> None:
    """What follows the tables."""
    line(to)
    line(to, EXPLAINED, "dim")
    for note in document.notes:
        line(to, note, "yellow")
    code = exit_code_of_tuning(document)
    line(to, closing_of_tuning(document), "bold green" if not code else "bold red" if code < 3 else "bold yellow")


def tuned_markdown(document: TuneDocument) -> str:
    """The document as Markdown: a table per side, direction and target."""
    state = state_word(exit_code_of_tuning(document), "results equal", "other results")
    parts = [f"### samebits compile --tune: {state}", escaped(closing_of_tuning(document))]
    versions = document.environment.versions
    parts.append(escaped(f"jax {versions['jax']}, jaxlib {versions['jaxlib']}, libtpu {versions['libtpu'] or 'none'}"))
    chosen = {place_of_trial(choice): choice for choice in document.best}
    for group in groups(document.trials):
        parts += [f"#### {escaped(tuned_title(group))}", markdown_table(HEADS, tuned_rows(group))]
        lines = [*small_lines(group), best_line(chosen[place_of_trial(group[0])])]
        parts.append("\n".join(f"- {escaped(text)}" for text in lines))
    if document.trials:
        parts.append(escaped(EXPLAINED))
    others = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    others += document.notes
    if others:
        parts.append("\n".join(f"- {escaped(text)}" for text in others))
    return joined(parts)
