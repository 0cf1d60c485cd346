"""The report of a bisection: the document, the table of points and the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from samebits.bisect.search.trials import Finding
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.markdown_fit import joined
from samebits.report.tables import WIDTH, line, show_table
from samebits.report.words import plural

LONGEST = 100
"""Characters of a cell in the terminal: what is longer would leave no room for the outcome; JSON has all of it."""

HEADS = ["", "point", "outcome", "looks", "what was seen", "seconds"]

TENSOR_HEADS = ["", "tensor", "variant", "in the reference at", "what was seen"]

TENSORS = 30
"""Of aligned tensors in a terminal; JSON has all of them."""

LINES = 40
"""Of a patch in a terminal."""

_DIFF = {"+": "green", "-": "red"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BisectDocument:
    """Everything that `samebits bisect` found.

    Args:
        environment: what it ran in.
        asked: what is searched, in words of the command line, without those that say where and how; empty in documents
            of older versions.
        finding: the answer, with every point that was tried.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["bisect"] = "bisect"
    environment: Environment
    asked: str = ""
    finding: Finding
    written: Written | None = None


def exit_code(finding: Finding) -> int:
    """0: nothing fails; 1: it fails, and here is the cause; 3: the cause could not be determined, or not yet."""
    if finding.interrupted:
        return 3
    if finding.found:
        return 1
    return 3 if finding.culprits or finding.skipped else 0


def rows(finding: Finding) -> list[list[str]]:
    """The table of the points that were tried."""
    return [
        [
            str(trial.number),
            trial.point,
            trial.outcome.upper(),
            f"{trial.looks}{' (journal)' if trial.remembered else ''}",
            trial.detail,
            f"{trial.seconds:.1f}",
        ]
        for trial in finding.trials
    ]


def tensor_rows(finding: Finding) -> list[list[str]]:
    """The table of aligned tensors, up to the first that differs; of many, the last before it."""
    tensors = list(finding.detail["tensors"])
    end = next((number for number, tensor in enumerate(tensors) if tensor.first), len(tensors) - 1) + 1
    return [
        [
            str(number + 1),
            f"{tensor.primitive} {tensor.type}" + (f", iteration {tensor.iteration}" if tensor.iteration else ""),
            f"{tensor.variant or ''} {tensor.code}".strip(),
            tensor.reference or "",
            "first that differs" if tensor.first else "same" if tensor.occurs else "another form",
        ]
        for number, tensor in list(enumerate(tensors[:end]))[-TENSORS:]
    ]


def closing(finding: Finding) -> str:
    """How much it took."""
    again = f" and {plural(finding.repeats, 'repeat')}" if finding.repeats else ""
    least = f"; {finding.least} is the least possible" if finding.least else ""
    cut = "interrupted; " if finding.interrupted else ""
    return f"{cut}{plural(finding.runs, 'run')}{again}{least}; {finding.seconds:.1f} s"


def show_bisected(to: Console, finding: Finding) -> None:
    """The table, then the sentence, the witness and the command, which are what is pasted."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to)
    if finding.trials:
        line(to, f"bisect {finding.what}: points tried", "bold")
        show_table(to, HEADS, [[_short(cell) for cell in row] for row in rows(finding)])
    if finding.detail.get("tensors"):
        line(to, "tensors of the variant, in the order of computation", "bold")
        show_table(to, TENSOR_HEADS, [[_short(cell) for cell in row] for row in tensor_rows(finding)])
    for name in finding.skipped:
        line(to, f"skipped, could not be judged: {name}", "yellow")
    for note in finding.notes:
        line(to, note, "yellow")
    for text in shortened(finding.detail.get("diff", ""), LINES):
        line(to, f"  {text}", _DIFF.get(text[:1], "dim"))
    line(to, closing(finding), "dim")
    line(to, finding.sentence, "bold red" if finding.found else "bold green" if exit_code(finding) == 0 else "bold")
    if finding.witness:
        line(to, f"witness: {finding.witness}")
    if finding.replay:
        line(to, f"shown again by: {finding.replay}")


def shortened(diff: str, most: int) -> list[str]:
    """The first lines of a patch, and how many more there are."""
    lines = diff.split("\n") if diff else []
    return lines if len(lines) <= most else [*lines[:most], f"... {len(lines) - most} more lines; all in --json"]


def _fenced(diff: str) -> str:
    """A patch as Markdown; its fence is longer than any in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", diff)), 3)
    return f"{fence}diff\n{diff}\n{fence}"


def bisected_markdown(document: BisectDocument) -> str:
    """The answer and its table for a pull request."""
    finding = document.finding
    heads = [head or "#" for head in HEADS]
    table = [heads, ["---"] * len(heads), *([_cell(cell) for cell in row] for row in rows(finding))]
    parts = [
        f"**{finding.sentence}**",
        f"Witness: {finding.witness}" if finding.witness else "",
        f"```\n{finding.replay}\n```" if finding.replay else "",
        "\n".join(f"| {' | '.join(row)} |" for row in table) if finding.trials else "",
        _tensor_table(finding),
        "\n".join(f"- skipped, could not be judged: {name}" for name in finding.skipped),
        "\n".join(f"- {note}" for note in finding.notes),
        _fenced(finding.detail["diff"]) if finding.detail.get("diff") else "",
        closing(finding),
        "\n".join(document.environment.lines()[:2]),
    ]
    return joined(parts)


def _tensor_table(finding: Finding) -> str:
    """The aligned tensors as a Markdown table; empty without any."""
    if not finding.detail.get("tensors"):
        return ""
    heads = [head or "#" for head in TENSOR_HEADS]
    table = [heads, ["---"] * len(heads), *([_cell(cell) for cell in row] for row in tensor_rows(finding))]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _short(text: str) -> str:
    """A cell of the terminal; the document has it whole."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
