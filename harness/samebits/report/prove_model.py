"""Shows proofs of training steps in a terminal and a pull request."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.console import Console

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.failing import WORST, Failing, next_lines, opening, shortened
from samebits.report.markdown_fit import escaped, fitted, table_rows
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import WIDTH, line, show_table
from samebits.report.words import plural, state_word
from samebits.schema.result import Problem, code_of
from samebits.train.step_leaf import StepLeaf

HEADS = ["configuration", "mesh", "mode", "leaves", "proved mathematics", "error probability", "points", "seconds"]

WORDS = {"rounding": "the same formula", "different": "refuted", "error": "undecided"}


ASSUMED = (
    "holds at the smallest sizes, for all weights, moments and inputs that take the same routing and branches,",
    "for these tokens, positions, segments and count of steps; rounding casts count as nothing",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDocument:
    """Everything that `samebits prove model` found.

    Args:
        model: its name.
        results: one per leaf of each configuration's step.
        problems: configurations that could not be looked at.
        notes: on the run, such as what a journal held.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["prove model"] = "prove model"
    environment: Environment
    model: str
    results: tuple[StepLeaf, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    written: Written | None = None


def exit_code(document: StepDocument) -> int:
    """0: every leaf is the same formula; 1: one is refuted; 2: a wrong request; 3: one is undecided."""
    verdicts = {leaf.verdict for leaf in document.results}
    undecided = document.interrupted or verdicts != {"rounding"}
    return code_of(document.problems, failed="different" in verdicts, undecided=undecided)


def by_step(results: Sequence[StepLeaf]) -> list[list[StepLeaf]]:
    """The leaves of each step together, in order."""
    by_name: dict[tuple[str, ...], list[StepLeaf]] = {}
    for leaf in results:
        sides = " ".join(f"{pair}={side}" for pair, side in leaf.choice.items())
        by_name.setdefault((leaf.config, leaf.mesh, leaf.shard_mode, sides, leaf.defect or ""), []).append(leaf)
    return list(by_name.values())


def row(leaves: Sequence[StepLeaf]) -> list[str]:
    """One step as a row of the table."""
    first = leaves[0]
    equal = sum(leaf.verdict == "rounding" for leaf in leaves)
    name = first.config if first.defect is None else f"{first.config}: {first.defect}"
    wrong = first_not_proved(leaves)
    words = "yes"
    if wrong is not None:
        words = f"{'no' if wrong.verdict == 'different' else 'undecided'}: {wrong.leaf}"
    return [
        name,
        first.mesh,
        first.shard_mode,
        f"{equal} of {len(leaves)}",
        words,
        _probability(leaves),
        str(max(leaf.points for leaf in leaves)),
        f"{first.seconds:.1f}",
    ]


def first_not_proved(leaves: Sequence[StepLeaf]) -> StepLeaf | None:
    """The first leaf that is refuted; without one, the first that is undecided."""
    for verdict in ("different", "error"):
        first = next((first for first in leaves if first.verdict == verdict), None)
        if first is not None:
            return first
    return None


def _probability(leaves: Sequence[StepLeaf]) -> str:
    """Of an error in any of the leaves that were proved: the sum of theirs."""
    errors = [errors.log2_error for errors in leaves if errors.verdict == "rounding" and errors.log2_error is not None]
    if not errors:
        return "-"
    largest = max(errors)
    return f"2^{math.ceil(largest + math.log2(sum(2.0 ** (error - largest) for error in errors)))}"


def failing_steps(document: StepDocument) -> list[Failing]:
    """The steps that are not proved, refuted ones first; those with one witness together."""
    groups: dict[tuple[str, ...], list[StepLeaf]] = {}
    steps = by_step(document.results)
    for leaves in steps:
        wrong = first_not_proved(leaves)
        if wrong is not None:
            groups.setdefault((wrong.verdict, wrong.leaf, wrong.reason or ""), []).append(wrong)
    ordered = sorted(groups.values(), key=lambda group: (group[0].verdict != "different", -len(group)))
    return [_failing(group, len(steps)) for group in ordered]


def _failing(group: Sequence[StepLeaf], steps: int) -> Failing:
    first = group[0]
    names = dict.fromkeys(f"{leaf.config}: {leaf.defect}" if leaf.defect else leaf.config for leaf in group)
    begin = "another computation" if first.verdict == "different" else "neither shown nor refuted"
    return Failing(
        title=f"{len(group)} of {plural(steps, 'step')} {WORDS[first.verdict]}, first in {first.leaf}",
        likely=f"{begin}: {first.reason}" if first.reason else begin,
        where=", ".join(names),
        example=f"{first.config} on {first.mesh}: {first.witness or first.reason}",
        next_command=first.replay or None,
    )


def show_steps(to: Console, document: StepDocument, *, verbose: bool = False) -> None:
    """The table, why something was not proved, and what all of it holds for; by default as much as a screen takes."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    failing = failing_steps(document)
    end: list[Styled] = [(problem.message, "bold red") for problem in document.problems[:WORST]]
    end += [(note, "") for note in document.notes]
    end += [(text, "dim") for text in ASSUMED] if document.results else []
    end.append((closing(document), "bold green" if exit_code(document) == 0 else "bold yellow"))
    end += next_lines(failing)
    forms = [in_turn(_table(document), _each(document))]
    if not verbose:
        few = shortened(failing)
        forms += [in_turn(_table(document), few[-1]), *few]
    show_fitted(to, forms, end, "--verbose prints every step")


def _table(document: StepDocument) -> Form:
    def form(to: Console) -> None:
        line(to)
        steps = by_step(document.results)
        if steps:
            line(to, f"one training step of '{document.model}' against all references on one device", "bold")
            show_table(to, HEADS, [row(leaves) for leaves in steps])

    return form


def _each(document: StepDocument) -> Form:
    """A line for each step that is not proved."""

    def form(to: Console) -> None:
        for leaves in by_step(document.results):
            wrong = first_not_proved(leaves)
            if wrong is not None:
                line(to, f"{row(leaves)[0]} on {wrong.mesh}, {wrong.leaf}: {wrong.witness or wrong.reason}")
                if wrong.witness and wrong.reason:
                    line(to, f"  {wrong.reason}", "dim")

    return form


def closing(document: StepDocument) -> str:
    """One sentence: what was asked, what came out."""
    steps = by_step(document.results)
    counts = Counter(leaf.verdict for leaf in document.results)
    words = ", ".join(f"{WORDS[verdict]} {count}" for verdict, count in counts.items()) or "nothing proved"
    proved = sum(first_not_proved(leaves) is None for leaves in steps)
    state = f"proved mathematics: {proved} of {plural(len(steps) + len(document.problems), 'step')}"
    begin = "interrupted; " if document.interrupted else ""
    leaves = plural(len(document.results), "leaf")
    return f"{begin}{leaves}: {words}; {document.seconds:.1f} s; {state}"


def steps_proved_markdown(document: StepDocument) -> str:
    """The document as Markdown of at most 60 lines: what came out, the worst steps, a row per step."""
    state = state_word(exit_code(document), "proved", "refuted")
    parts = opening(f"prove model: {state}", closing(document), failing_steps(document), document.problems)
    steps = by_step(document.results)
    bad = [number for number, leaves in enumerate(steps) if first_not_proved(leaves) is not None]
    if steps:
        title = f"One training step of '{document.model}' against all references on one device"
        rows = table_rows(title, HEADS, [row(leaves) for leaves in steps], bad)
        parts += [replace(rows, opened=False), escaped(" ".join(ASSUMED))]
    parts += [f"- {escaped(note)}" for note in document.notes]
    parts.append(escaped("; ".join(document.environment.lines())))
    return fitted(parts)
