"""Values of one static argument, compiled: the records that `samebits compile --tune` publishes, and which is best.

Nothing is timed. A value is ranked by the compiler's own figures where they distinguish values, and by none otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.schema.compile_statement import shown

FIGURES = ("optimal_seconds", "bytes_accessed", "temp_bytes", "peak_bytes")
"""By what values are ranked: the first that every program has, and that distinguishes them."""

_OF_A_BODY = ("optimal_seconds", "bytes_accessed")
"""Figures in which a loop's body counts once, so that programs with different loops cannot be ranked by them."""


APART = 0.01
"""How far a figure must reach, of its largest, to distinguish values; what is below decides nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningTrial:
    """One value, compiled for one side, direction and target; and what it gives at a small size.

    Args:
        value: as Python writes it.
        declared: whether it is the value of the case itself.
        same_as: an earlier value that gives the same program.
        refused: what the compiler, or the side itself, said instead of giving a program.
        verdict: the worst of the small size's leaves against the reference; None where nothing was run.
        equal: whether that suffices by the pair's contracts; None where nothing was run.
        small: where the verdict is from, in words.
        kernels: calls of kernels of its own, whose figures are what each kernel declares of itself.
    """

    pair: str
    side: str
    case: str
    direction: str
    target: str
    compiler: str | None
    argument: str
    value: str
    declared: bool
    same_as: str | None = None
    refused: str | None = None
    verdict: str | None = None
    equal: bool | None = None
    small: str = ""
    kernels: int = 0
    while_loops: int | None = None
    loop_turns: int | None = None
    temp_bytes: int | None = None
    peak_bytes: int | None = None
    bytes_accessed: float | None = None
    flops: float | None = None
    optimal_seconds: float | None = None
    compile_seconds: float | None = None
    cached: bool | None = None
    program: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallValue:
    """What one value gives at the small size, in one direction of one side; it does not depend on the target.

    Args:
        side, direction: of what.
        value: as Python writes it.
        verdict, equal, small: as in a trial.
    """

    side: str
    direction: str
    value: str
    verdict: str | None
    equal: bool | None
    small: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningBest:
    """The best value of one side in one direction on one target.

    Args:
        value: None where nothing distinguishes the values.
        figure: by what; None likewise.
        reason: in words.
    """

    pair: str
    side: str
    case: str
    direction: str
    target: str
    argument: str
    value: str | None
    figure: str | None
    reason: str


def best(trials: Sequence[TuningTrial]) -> TuningBest:
    """Choose the best of the values that compile and are not known to give other results, by the compiler's figures."""
    first = trials[0]
    value, figure, reason = _chosen(trials)
    same = {name: getattr(first, name) for name in ("pair", "side", "case", "direction", "target", "argument")}
    return TuningBest(**same, value=value, figure=figure, reason=reason)


def _chosen(trials: Sequence[TuningTrial]) -> tuple[str | None, str | None, str]:
    usable = [trial for trial in trials if trial.program is not None and trial.equal is not False]
    if not usable:
        return None, None, "no value compiles with equal results"
    if len(usable) == 1:
        return None, None, f"only {usable[0].value} compiles with equal results; nothing to choose from"
    if len({trial.program for trial in usable}) == 1:
        return None, None, f"all {len(usable)} values give the same program: the argument changes nothing here"
    loops = {(trial.while_loops, trial.loop_turns) for trial in usable}
    countable = len(loops) == 1 and (usable[0].loop_turns is not None or not usable[0].while_loops)
    passed = []
    for figure in FIGURES:
        numbers = [getattr(trial, figure) for trial in usable]
        lacking = sum(number is None for number in numbers)
        if lacking:
            passed.append(f"no {figure} of {lacking} of {len(usable)} values")
        elif len(set(numbers)) == 1:
            passed.append(f"{figure} is the same for all")
        elif max(numbers) - min(numbers) < APART * max(numbers):
            passed.append(f"{figure} differs by less than {APART:.0%}")
        elif figure in _OF_A_BODY and not countable:
            least = usable[numbers.index(min(numbers))].value
            passed.append(f"{figure}, least for {least}, counts a loop's body once, and the loops differ")
        else:
            least = min(numbers)
            winners = [trial.value for trial, number in zip(usable, numbers, strict=True) if number == least]
            text = f"least {figure} by the compiler's estimate, {shown(figure, least)} of {shown(figure, max(numbers))}"
            if figure == "optimal_seconds":
                text = f"least optimal_seconds by the compiler's estimate, {least:.3g} s of {max(numbers):.3g} s"
            if len(winners) > 1:
                text += f", as much as {', '.join(winners[1:])}"
            return winners[0], figure, "; ".join([text, *passed])
    return None, None, "no estimate distinguishes the values: " + "; ".join(passed)
