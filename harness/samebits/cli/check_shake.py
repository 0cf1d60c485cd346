"""What `check --shake` adds to a check: options that XLA reads once per process, and the summary over all options."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from samebits.check.shake import outcomes_under, with_shaken, worth_shaking
from samebits.check.shake_options import LEFT_OUT, ShakeOption, accepted, flag_options
from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.report.check import Document, read_document
from samebits.schema.finding import Finding, ShakeSummary, shake_of
from samebits.schema.result import Problem

# The same check in another process, under flags that XLA reads once.


def check_elsewhere(words: Sequence[str], variables: Mapping[str, str]) -> Document:
    """Run a check in a process of its own.

    Args:
        words: what follows `samebits`, without the document.
        variables: of the environment, beside those of this process.

    Returns:
        Its document, whatever its exit code: failing results are in it.

    Raises:
        CouldNotRun: it wrote no document.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        path = Path(folder) / "check.json"
        command = [sys.executable, "-m", "samebits", *words, "--json", str(path)]
        environment = {**os.environ, **variables}
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
        try:
            return read_document(path)
        except RequestError as error:
            ending = f"exit code {process.returncode}: {_last_words(process.stderr)}"
            if path.is_file():
                raise CouldNotRun(f"its document cannot be used: {error}; it ended with {ending}") from None
            raise CouldNotRun(f"ended without a document, with {ending}") from None


def _last_words(stderr: str) -> str:
    """Return the line of a process's stderr that says why it ended: the last one, unless XLA rejected a flag."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if "nknown flag" in line), lines[-1] if lines else "no message")[:300]


def with_flags(option: ShakeOption) -> dict[str, str]:
    """Return the variables under which XLA reads an option as a flag of its process."""
    flags = " ".join(f"--{name}={value}" for name, value in option.settings)
    return {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}


def add_outcomes(option: ShakeOption, usual: Sequence[Finding], there: Sequence[Finding]) -> list[Finding]:
    """Add to results what an option of the process did to them; a leaf of which no bit moved is not evidence."""
    others = {result.place: result for result in there}
    shaken = []
    for result in usual:
        other = others.get(result.place)
        if not worth_shaking(result) or other is None:
            shaken.append(result)
            continue
        differs = other.comparison.mismatches > 0 or not worth_shaking(other)
        moved = {result.place.leaf: result.comparison.bits != other.comparison.bits}
        outcomes = outcomes_under(option, [result], {result.place.leaf: other} if differs else {}, moved, changed=False)
        shaken.append(with_shaken(result, list(outcomes.values())))
    return shaken


def shake_by_flags(
    again: Sequence[str], results: list[Finding], here: Environment
) -> tuple[list[Finding], dict[str, str]]:
    """Return results with what the options of the process did, each in a process of its own; and what did not run.

    Args:
        again: the words of the same check.
        results: under the usual options.
        here: the environment.
    """
    failed: dict[str, str] = {}
    if not any(result.shaken for result in results):
        return results, failed
    for option in flag_options(here.platform, here.instruction_sets):
        try:
            there = check_elsewhere(again, with_flags(option))
        except CouldNotRun as error:
            failed[option.name] = str(error)
            continue
        results = add_outcomes(option, results, there.results)
    return results, failed


def shake_summary(results: Sequence[Finding], platform: str, failed: Mapping[str, str]) -> ShakeSummary:
    """Return the section of the document."""
    return shake_of(results, {**dict(accepted(platform).refused), **failed}, LEFT_OUT)


def shake_problems(results: Sequence[Finding]) -> list[Problem]:
    """Return a problem for each pair and option under which leaves could not be judged; they are not evidence."""
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
