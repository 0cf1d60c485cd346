"""A compilation on a page: memory and communication of both sides as bars, claims, and where programs differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
from samebits.report.html.bars import bars
from samebits.report.html.compile_facts import (
    collectives_sentence,
    drawn_figures,
    fact_rows,
    operations_text,
    side_names,
)
from samebits.report.html.region_view import MEANINGS, RegionRow, level_words, region_rows, region_sentence
from samebits.report.html.render import render
from samebits.report.html.section import Section
from samebits.report.words import State, plural, problems_sentence, state_of
from samebits.schema.program_facts import ClaimResult, SideBySide

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
