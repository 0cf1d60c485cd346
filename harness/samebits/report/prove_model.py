"""The document of `samebits prove model`, and its page: what is refuted or undecided first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.failure import shown_example
from samebits.report.findings import judged, place_of, words_of
from samebits.report.page import Badge, Cell, CommandLine, Fold, Line, Lines, Page, Table, ValueList
from samebits.report.words import plural
from samebits.schema.finding import Finding
from samebits.schema.result import Problem, code_of
from samebits.train.prove_request import StepLeaf

HEADS = ["configuration", "mesh", "mode", "leaves", "proved mathematics", "error probability", "points", "seconds"]

WORDS = {"rounding": "the same formula", "different": "refuted", "error": "undecided"}

_ANSWERS = {"different": "no", "error": "undecided"}

_ORDER = ("different", "error")
"""What is not proved, the gravest first."""

_BADGES = {
    "rounding": Badge(text=WORDS["rounding"], sign="≈", tone="good"),
    "different": Badge(text=WORDS["different"], sign="≠", tone="bad"),
    "error": Badge(text=WORDS["error"], sign="!", tone="bad"),
}

LEAVES = 200
"""Outputs of one step in a table; JSON has all of them."""

ASSUMED = (
    "holds at the smallest sizes, for all weights, moments and inputs that take the same routing and branches, "
    "for these tokens, positions, segments and count of steps; rounding casts count as nothing"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDocument(CommandDocument):
    """Everything that `samebits prove model` found.

    Args:
        model: its name.
        results: one per leaf of each configuration's step.
        problems: configurations that could not be looked at.
        notes: on the run, such as what a journal held.
    """

    command: Literal["prove model"] = "prove model"
    environment: Environment
    model: str
    results: tuple[StepLeaf, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """0: every leaf is the same formula; 1: one is refuted; 2: a wrong request; 3: one is undecided."""
        verdicts = {leaf.verdict for leaf in self.results}
        undecided = self.interrupted or verdicts != {"rounding"}
        return code_of(self.problems, failed="different" in verdicts, undecided=undecided)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for leaf in self.results:
            item = f"{leaf.config} with {leaf.defect}" if leaf.defect else leaf.config
            place = place_of(leaf, mode=leaf.shard_mode, pair=self.model, variant=words_of(leaf.choice), item=item)
            evidence = "; ".join(filter(None, (leaf.reason, leaf.witness))) or None
            more: dict[str, Any] = {"ok": leaf.verdict == "rounding", "seconds": leaf.seconds, "replay": leaf.replay}
            yield judged("prove model", place, leaf.verdict, evidence=evidence, **more)

    def page(self) -> Page:
        """Return a row per step, those that are not proved first, each with its outputs."""
        steps = sorted(by_step(self.results), key=_gravity)
        bad = [number for number, leaves in enumerate(steps) if first_not_proved(leaves) is not None]
        table = Table(
            heads=HEADS,
            rows=[_cells(leaves) for leaves in steps],
            title=f"One training step of '{self.model}' against all references on one device" if steps else "",
            bad=bad,
            right=("points", "seconds"),
            details={number: _outputs(leaves, opened=number == 0) for number, leaves in enumerate(steps)},
        )
        page = usual_page(self, ("proved", "refuted"))
        others = [
            shown_example(each)[0] for group in page.failing for each in group.findings if each is not group.smallest
        ]
        problems = [Line(f"{problem.pair}: {problem.message}", "bad") for problem in self.problems]
        return replace(
            page,
            title=f"prove model {self.model}",
            closing=closing(self),
            blocks=[
                table,
                Lines(lines=others, short=Lines(lines=[]), media=("terminal",)),
                Lines(lines=problems, media=("terminal",)),
                Lines(lines=[Line(ASSUMED, "dim"), ""] if steps else [], listed=False),
            ],
            hint="--verbose prints every step",
        )


def by_step(results: Sequence[StepLeaf]) -> list[list[StepLeaf]]:
    """Return the leaves of each step together, in order."""
    by_name: dict[tuple[str, ...], list[StepLeaf]] = {}
    for leaf in results:
        sides = " ".join(f"{pair}={side}" for pair, side in leaf.choice.items())
        by_name.setdefault((leaf.config, leaf.mesh, leaf.shard_mode, sides, leaf.defect or ""), []).append(leaf)
    return list(by_name.values())


def _cells(leaves: Sequence[StepLeaf]) -> list[Cell]:
    """Return one step as a row of the table."""
    first, wrong = leaves[0], first_not_proved(leaves)
    equal = sum(leaf.verdict == "rounding" for leaf in leaves)
    badge = Badge(text="yes", sign="≈", tone="good")
    if wrong is not None:
        badge = replace(_BADGES[wrong.verdict], text=f"{_ANSWERS[wrong.verdict]}: {wrong.leaf}")
    return [
        _name(first),
        first.mesh,
        first.shard_mode,
        f"{equal} of {len(leaves)}",
        badge,
        _probability(leaves),
        str(max(leaf.points for leaf in leaves)),
        f"{first.seconds:.1f}",
    ]


def _name(leaf: StepLeaf) -> str:
    return leaf.config if leaf.defect is None else f"{leaf.config}: {leaf.defect}"


def first_not_proved(leaves: Sequence[StepLeaf]) -> StepLeaf | None:
    """Return the first leaf that is refuted; without one, the first that is undecided."""
    for verdict in _ORDER:
        first = next((first for first in leaves if first.verdict == verdict), None)
        if first is not None:
            return first
    return None


def _probability(leaves: Sequence[StepLeaf]) -> str:
    """Return the probability of an error in any of the leaves that were proved: the sum of theirs."""
    errors = [errors.log2_error for errors in leaves if errors.verdict == "rounding" and errors.log2_error is not None]
    if not errors:
        return "-"
    largest = max(errors)
    return f"2^{math.ceil(largest + math.log2(sum(2.0 ** (error - largest) for error in errors)))}"


def _gravity(leaves: Sequence[StepLeaf]) -> int:
    wrong = first_not_proved(leaves)
    return len(_ORDER) if wrong is None else _ORDER.index(wrong.verdict)


def _outputs(leaves: Sequence[StepLeaf], *, opened: bool) -> Fold:
    """Return what a step was, why it is not proved, and its outputs, those that are not proved first."""
    first, wrong = leaves[0], first_not_proved(leaves)
    ordered = sorted(leaves, key=lambda leaf: _ORDER.index(leaf.verdict) if leaf.verdict in _ORDER else len(_ORDER))
    more = f"; {len(leaves) - LEAVES} more in the JSON document" if len(leaves) > LEAVES else ""
    facts = ValueList(
        rows=[
            ("sides", ", ".join(f"{pair}={side}" for pair, side in first.choice.items())),
            ("sizes", ", ".join(f"{name}={size}" for name, size in first.sizes.items())),
            ("witness", wrong.witness if wrong else None),
            ("why", wrong.reason if wrong else None),
        ]
    )
    outputs = Table(
        heads=("output", "verdict", "elements", "error probability", "points", "degree", "remark"),
        rows=[_leaf_cells(leaf) for leaf in ordered[:LEAVES]],
        caption=f"Every output{more}",
        bad=[number for number, leaf in enumerate(ordered) if leaf.verdict != "rounding"],
        right=("elements", "points", "degree"),
        wide=("remark",),
    )
    title = f"{_name(first)} on {first.mesh}" + (f": {wrong.leaf} is {WORDS[wrong.verdict]}" if wrong else "")
    replays = [CommandLine(text=first.replay)] if first.replay else []
    return Fold(title=title, blocks=[facts, *replays, outputs], open=opened and wrong is not None, media=("html",))


def _leaf_cells(leaf: StepLeaf) -> list[Cell]:
    error = "" if leaf.log2_error is None else f"2^{leaf.log2_error:.0f}"
    numbers = [str(leaf.elements), error, str(leaf.points), str(leaf.degree)]
    return [leaf.leaf, _BADGES[leaf.verdict], *numbers, leaf.witness or leaf.reason or ""]


def closing(document: StepDocument) -> str:
    """Write one sentence: what was asked, what came out."""
    steps = by_step(document.results)
    counts = Counter(leaf.verdict for leaf in document.results)
    words = ", ".join(f"{WORDS[verdict]} {count}" for verdict, count in counts.items()) or "nothing proved"
    proved = sum(first_not_proved(leaves) is None for leaves in steps)
    state = f"proved mathematics: {proved} of {plural(len(steps) + len(document.problems), 'step')}"
    begin = "interrupted; " if document.interrupted else ""
    leaves = plural(len(document.results), "leaf")
    return f"{begin}{leaves}: {words}; {document.seconds:.1f} s; {state}"
