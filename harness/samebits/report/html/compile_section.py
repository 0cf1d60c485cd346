"""A compilation on a page: memory and communication of both sides as bars, claims, and where programs differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

from samebits.report.compile import (
    EXPLAINED,
    CompileDocument,
    ProgramBlock,
    blocks,
    claim_line,
    closing,
    effect_line,
    exit_code,
    verdict_line,
)
from samebits.report.html.compile_facts import (
    bars,
    collectives_sentence,
    drawn_figures,
    fact_rows,
    operations_text,
    side_names,
)
from samebits.report.html.section import Section, render
from samebits.report.words import State, plural, problems_sentence, state_of
from samebits.schema.program_facts import ClaimResult, SideBySide
from samebits.schema.program_region import ProgramRegion, RegionLevel, RegionLine

CellKind = Literal["same", "changed", "only", "moved"]

_PLUMBING = (
    "argument",
    "bitcast",
    "constant",
    "copy",
    "copy-done",
    "copy-start",
    "get-tuple-element",
    "param",
    "tuple",
)
"""Instructions that name, place or bring in values, and compute nothing."""

_WORD = re.compile(r"[\w.\-]+|\s+|.")

MEANINGS = {
    "same": ("=", "in both programs"),
    "changed": ("≠", "differs from the instruction beside it"),
    "only": ("+", "without an equal in the other program"),
    "moved": ("⇄", "in both programs, elsewhere in the other"),
}
"""The sign of each kind of cell, and what it says."""


@dataclass(frozen=True, slots=True)
class RegionCell:
    """One instruction of one side.

    Args:
        kind: how it stands to the other side.
        parts: its text in pieces, and whether each differs from the text beside it.
        source: where it comes from.
    """

    kind: CellKind
    parts: tuple[tuple[str, bool], ...]
    source: str | None


@dataclass(frozen=True, slots=True)
class RegionRow:
    """Instructions of both sides beside each other; a side may have none.

    Args:
        reference, variant: the cells.
        note: what differs where the texts are the same.
    """

    reference: RegionCell | None
    variant: RegionCell | None
    note: str | None = None


def region_rows(region: ProgramRegion) -> list[RegionRow]:
    """The rows of a region; instructions that only one side has stand beside those that only the other has."""
    rows: list[RegionRow] = []
    waiting: list[RegionLine] = []
    for line in region.lines:
        if line.kind in ("same", "changed"):
            rows += _apart(waiting)
            waiting = []
            rows.append(_together(line))
        else:
            waiting.append(line)
    return [*rows, *_apart(waiting)]


def region_sentence(comparison: SideBySide) -> str | None:
    """Where the first difference lies, in words; None for a comparison without a region."""
    region = comparison.region
    first = region.first if region is not None else None
    if region is None or first is None:
        return None
    where = " of ".join(_place(level) for level in reversed(region.levels))
    sentence = f"The first difference is {_named(comparison, first)}, in {where}."
    lines = [line for line in region.lines if line.kind not in ("same", "moved")]
    operation = next((line for line in lines if not _opcodes(line) <= set(_PLUMBING)), None)
    if operation is None or operation is first:
        return sentence
    return f"{sentence} The first operation among the differences is {_named(comparison, operation)}."


def _place(level: RegionLevel) -> str:
    """A computation inside a sentence: `the body of while.1`, `fusion.3`."""
    return f"the {level.name}" if " " in level.name else level.name


def _named(comparison: SideBySide, line: RegionLine) -> str:
    """A row as `dot.3 of gather (jit(f)/dot_general), dot.9 of structured`."""
    sides = zip((comparison.reference, comparison.variant), _sides(line), strict=True)
    return ", ".join(
        f"{_name(text)} of {side}" + (f" ({source})" if source else "") for side, (text, source) in sides if text
    )


def _name(text: str) -> str:
    return text.removeprefix("ROOT ").partition(" = ")[0]


def _opcodes(line: RegionLine) -> set[str]:
    return {_name(text).rpartition(".")[0] for text, _ in _sides(line) if text}


def level_words(level: RegionLevel) -> str:
    """How many instructions of a computation have no equal."""
    return (
        f"{level.reference_only} of {plural(level.reference_instructions, 'instruction')} of the reference and "
        f"{level.variant_only} of {level.variant_instructions} of the variant have no equal"
    )


def _together(line: RegionLine) -> RegionRow:
    first, second = line.reference or "", line.variant or ""
    if line.kind == "same":
        cells = [RegionCell("same", ((text, False),), source) for text, source in _sides(line)]
        return RegionRow(cells[0], cells[1], line.note)
    parts = _marked(first, second)
    return RegionRow(
        RegionCell("changed", parts[0], line.reference_source),
        RegionCell("changed", parts[1], line.variant_source),
        line.note,
    )


def _sides(line: RegionLine) -> Iterator[tuple[str, str | None]]:
    yield line.reference or "", line.reference_source
    yield line.variant or "", line.variant_source


def _apart(lines: Sequence[RegionLine]) -> Iterator[RegionRow]:
    cells: tuple[list[RegionCell], list[RegionCell]] = [], []
    for line in lines:
        place = 0 if line.reference is not None else 1
        text, source = list(_sides(line))[place]
        cells[place].append(RegionCell("moved" if line.kind == "moved" else "only", ((text, False),), source))
    for reference, variant in zip_longest(*cells):
        yield RegionRow(reference, variant)


def _marked(first: str, second: str) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """Both texts in pieces; those that are not in the other are marked."""
    a, b = _WORD.findall(first), _WORD.findall(second)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        differs = tag != "equal"
        left += [("".join(a[a0:a1]), differs)] * (a1 > a0)
        right += [("".join(b[b0:b1]), differs)] * (b1 > b0)
    return tuple(left), tuple(right)


OPEN = 4
"""So many cases are shown unfolded; of more, only those that fail."""


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """A variant beside the reference.

    Args:
        comparison: as in the document.
        line: what it says, in one line.
        claims: each with its state, and in one line.
        operations: whose counts differ.
        sentence: where the programs first differ.
        levels: the computations on the way there, with their counts.
        rows: the region.
    """

    comparison: SideBySide
    line: str
    claims: list[tuple[State, str]]
    operations: str
    sentence: str | None
    levels: list[tuple[str, str]]
    rows: list[RegionRow]


@dataclass(frozen=True, slots=True)
class BlockView:
    """One case on one target in one direction."""

    title: str
    state: State
    chart: str | None
    sides: list[str]
    facts: list[list[str]]
    sentence: str
    comparisons: list[ComparisonView]
    effects: list[str]
    replay: str
    open: bool


def compile_section(document: CompileDocument) -> Section:
    """The section of one compilation.

    Args:
        document: of `samebits compile`.
    """
    grouped = sorted(blocks(document), key=lambda block: _state(block) == "passed")
    charts: dict[str, Mapping[str, Any]] = {}
    headline = _headline(document)
    views = [_block_view(block, number, charts, len(grouped)) for number, block in enumerate(grouped)]
    return Section(
        command="compile",
        state=state_of(exit_code(document), "failed"),
        headline=headline,
        next_command=_next_command(document),
        body=render(
            "compile.html.j2",
            document=document,
            closing=closing(document),
            headline=headline,
            blocks=views,
            explained=EXPLAINED,
            meanings=MEANINGS,
        ),
        charts=charts,
        styles=("compile.css",),
    )


def _block_view(block: ProgramBlock, number: int, charts: dict[str, Mapping[str, Any]], count: int) -> BlockView:
    names, figures = side_names(block.programs), drawn_figures(block.programs)
    chart = f"block-{number}" if figures else None
    if chart is not None:
        charts[chart] = bars(figures, names)
    state = _state(block)
    return BlockView(
        title=block.title,
        state=state,
        chart=chart,
        sides=names,
        facts=fact_rows(block.programs),
        sentence=collectives_sentence(block.programs),
        comparisons=[_comparison_view(comparison) for comparison in sorted(block.comparisons, key=_holds)],
        effects=[effect_line(effect) for effect in block.effects],
        replay=_replay(block),
        open=count <= OPEN or state != "passed",
    )


def _comparison_view(comparison: SideBySide) -> ComparisonView:
    region = comparison.region
    return ComparisonView(
        comparison=comparison,
        line=_line(comparison),
        claims=[(_claim_state(claim), claim_line(comparison.variant, claim)) for claim in comparison.expectations],
        operations=operations_text(comparison.operations),
        sentence=region_sentence(comparison),
        levels=[] if region is None else [(level.name, level_words(level)) for level in region.levels],
        rows=[] if region is None else region_rows(region),
    )


def _line(comparison: SideBySide) -> str:
    """What a comparison says; the operations that differ are listed apart."""
    if comparison.variant == comparison.reference:
        return f"{comparison.variant}, the reference"
    text = verdict_line(comparison)
    return text.rpartition(": ")[0] if comparison.operations and comparison.verdict is None else text


def _replay(block: ProgramBlock) -> str:
    """The command of the variant whose claim fails, or else of the first one."""
    failing = {
        comparison.variant
        for comparison in block.comparisons
        if any(_claim_state(claim) != "passed" for claim in comparison.expectations)
    }
    programs = [program for program in block.programs if program.side in failing] or list(block.programs[-1:])
    return programs[0].replay


def _holds(comparison: SideBySide) -> bool:
    return all(claim.ok for claim in comparison.expectations)


def _claim_state(claim: ClaimResult) -> State:
    return "passed" if claim.ok else "incomplete" if claim.holds is None else "failed"


def _state(block: ProgramBlock) -> State:
    states = {_claim_state(claim) for comparison in block.comparisons for claim in comparison.expectations}
    return "failed" if "failed" in states else "incomplete" if "incomplete" in states else "passed"


def _headline(document: CompileDocument) -> str:
    """What is not as declared, and where; else what was compiled."""
    for state, words in (("failed", "not as declared"), ("incomplete", "without a figure")):
        wrong = [
            (comparison, claim)
            for comparison in document.comparisons
            for claim in comparison.expectations
            if _claim_state(claim) == state
        ]
        if wrong:
            comparison, claim = wrong[0]
            where = f"{comparison.pair}/{comparison.variant}, {comparison.direction}, on {comparison.target}"
            more = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            claims = f"{len(wrong)} of {plural(document.summary.claims, 'claim')}"
            return f"{claims} {words}: {where}: {claim.shows} (got {claim.got}){more}"
    if document.problems:
        return problems_sentence(document.problems)
    return closing(document)


def _next_command(document: CompileDocument) -> str | None:
    wrong = next((block for block in blocks(document) if _state(block) != "passed"), None)
    return None if wrong is None else _replay(wrong)
