"""What `check --shake` adds to a check: options that XLA reads once per process, and the summary over all options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from samebits.check.shake_options import LEFT_OUT, accepted, flag_options
from samebits.cli.check_subprocess import CheckArguments, add_outcomes, check_elsewhere, with_flags
from samebits.errors import CouldNotRun
from samebits.host.environment import Environment
from samebits.schema.finding import Finding
from samebits.schema.result import Problem
from samebits.schema.shake_summary import ShakeSummary, shake_of

RARE = 1 / 20
"""How often a side gives other bits, in the probability that is printed of seeing it."""


def shake_by_flags(
    arguments: CheckArguments, results: list[Finding], here: Environment
) -> tuple[list[Finding], dict[str, str]]:
    """Results with what the options of the process did, each in a process of its own; and those that did not run."""
    failed: dict[str, str] = {}
    if not any(result.shaken for result in results):
        return results, failed
    for option in flag_options(here.platform, here.instruction_sets):
        try:
            there = check_elsewhere(arguments, with_flags(option))
        except CouldNotRun as error:
            failed[option.name] = str(error)
            continue
        results = add_outcomes(option, results, there.results)
    return results, failed


def shake_summary(results: Sequence[Finding], platform: str, failed: dict[str, str]) -> ShakeSummary:
    """The section of the document."""
    return shake_of(results, {**dict(accepted(platform).refused), **failed}, LEFT_OUT)


def shake_problems(results: Sequence[Finding]) -> list[Problem]:
    """One problem for each pair and option under which leaves could not be judged; they are not evidence."""
    count: Counter[tuple[str, str]] = Counter()
    why: dict[tuple[str, str], str] = {}
    for result in results:
        for outcome in result.shaken:
            if outcome.outcome == "error":
                count[result.place.pair, outcome.option] += 1
                why.setdefault((result.place.pair, outcome.option), outcome.why or "no reason given")
    return [
        Problem(
            pair=pair,
            message=f"pair '{pair}': under {option} {many} leaves could not be judged: {why[pair, option]}",
            exit_code=3,
        )
        for (pair, option), many in count.items()
    ]


def repeats_note(repeats: int) -> list[str]:
    """What more than the usual two runs can see."""
    if repeats <= 2:
        return []
    probability = 1 - (1 - RARE) ** repeats
    return [
        f"--repeat {repeats}: each program ran {repeats} times on its first input; "
        f"one that changes its bits in 1 of 20 runs is seen with probability {probability:.1%}"
    ]
