"""Shows compiled programs side by side in a terminal and a pull request, with what was claimed of them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
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
from samebits.schema.program_facts import ClaimResult, CompiledSide, OptionEffect, SideBySide
from samebits.schema.result import Problem, code_of

HEADS = (
    "side", "temp", "traffic", "comm", "temp MB", "peak MB", "traffic MB", "comm MB", "loops", "gathers", "estimate",
    "program", "collectives",
)  # fmt: skip
"""Columns of a table; the first three figures are ratios to the reference."""

_OPTIONAL = ("temp", "traffic", "comm", "gathers", "estimate", "collectives")

EXPLAINED = (
    "temp: temporary memory; traffic: bytes accessed, as the compiler estimates them (a loop's body once); comm: "
    "communication volume, the least bytes that a device sends over a ring (times the trip count); all per device. "
    "First as multiples of the reference. loops: while loops, with their trip counts. program: "
    "equal digests are the same program"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSummary:
    """The counts of a run.

    Args:
        programs, cached: compiled, and how many of them came from the cache.
        comparisons, same_program: variants beside references, and how many are the same program.
        claims, failed, findings, unknown: judged; not as declared; recorded as not true and not true; without figures.
        declared: claims of the production shapes that were asked for, whatever they are about.
    """

    programs: int
    cached: int
    comparisons: int
    same_program: int
    claims: int
    failed: int
    findings: int
    unknown: int
    seconds: float
    declared: int = 0
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileDocument:
    """Everything that a run of `samebits compile` found, as it is written to JSON.

    Args:
        results: one per side, case, direction, target and set of options.
        comparisons: one per variant, case, direction and target; with options where they were given.
        options: what the options given changed, side by side.
        problems: what could not be compiled.
        notes: what was left out, and what to know of the toolchain.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["compile"] = "compile"
    environment: Environment
    results: tuple[CompiledSide, ...]
    comparisons: tuple[SideBySide, ...]
    options: tuple[OptionEffect, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: CompileSummary
    written: Written | None = None


def exit_code(document: CompileDocument) -> int:
    """0: every claim is as declared; 1: one is not; 2: a wrong request; 3: something could not be decided."""
    s = document.summary
    undecided = s.unknown > 0 or s.interrupted or not document.results
    return code_of(document.problems, failed=s.failed > 0, undecided=undecided)


@dataclass(frozen=True, slots=True)
class ProgramBlock:
    """One case on one target in one direction: a table, and what is said below it."""

    programs: tuple[CompiledSide, ...]
    comparisons: tuple[SideBySide, ...]
    effects: tuple[OptionEffect, ...]

    @property
    def title(self) -> str:
        """What was compiled for what."""
        first = self.programs[0]
        compiler = "libtpu" if not first.target.startswith("cpu") else "jaxlib"
        shapes = ", ".join(first.shapes)
        what = f"{first.pair}, {first.direction}: {first.case}, {shapes}"
        return f"{what}; {first.mesh} ({first.mode}) on {first.target}, {compiler} {first.compiler}"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and a row per program, the reference's first; an optional column that says nothing is left out."""
        beside = {comparison.variant: comparison for comparison in self.comparisons}
        names = {effect.side for effect in self.effects}
        rows = [_row(program, beside.get(program.side), self._last(program, names)) for program in self.programs]
        columns = [
            place
            for place, name in enumerate(HEADS)
            if name not in _OPTIONAL or any(row[place] not in ("", "0") for row in rows)
        ]
        return [HEADS[place] for place in columns], [[row[place] for place in columns] for row in rows]

    def _last(self, program: CompiledSide, changed: set[str]) -> bool:
        """Whether ratios belong to this row: with options, to the program that has them."""
        return bool(program.options) or program.side not in changed


def blocks(document: CompileDocument) -> list[ProgramBlock]:
    """The programs that belong together, in the order of the run."""

    def key(record: CompiledSide | SideBySide | OptionEffect) -> tuple[str, ...]:
        return (record.pair, record.case, record.target, record.direction)

    grouped = []
    for where, programs in groupby(document.results, key):
        comparisons = tuple(comparison for comparison in document.comparisons if key(comparison) == where)
        effects = tuple(effect for effect in document.options if key(effect) == where)
        grouped.append(ProgramBlock(tuple(programs), comparisons, effects))
    return grouped


def _row(program: CompiledSide, beside: SideBySide | None, ratios: bool) -> tuple[str, ...]:
    shown = beside if ratios else None
    name = program.side + (" + options" if program.options else "")
    trips = "" if program.loop_turns is None or not program.while_loops else f" ({program.loop_turns} trips)"
    return (
        name,
        *(_times(getattr(shown, f"{figure}_ratio", None)) for figure in ("temp", "bytes", "wire")),
        *(_mega(getattr(program, figure)) for figure in ("temp_bytes", "peak_bytes", "bytes_accessed", "wire_bytes")),
        f"{program.while_loops}{trips}",
        str(program.gathers),
        "" if program.optimal_seconds is None else f"{program.optimal_seconds * 1e6:,.0f} us".replace(",", " "),
        program.program[:8],
        _collectives(program),
    )


def _collectives(program: CompiledSide) -> str:
    if program.sparsecore_operations and program.sparsecore_operations == program.collectives:
        return f"{counts(program.collectives)} on SparseCore"
    offloaded = counts(program.sparsecore_operations)
    return counts(program.collectives) + (f" (SparseCore: {offloaded})" if offloaded else "")


def counts(by_name: object) -> str:
    """Counts by name: `collective-permute 2`."""
    return ", ".join(f"{name} {number}" for name, number in dict(by_name).items())  # type: ignore[call-overload]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3g}x"


def _mega(number: float | None) -> str:
    """Millions of bytes, with a space between thousands."""
    return "?" if number is None else f"{number / 1e6:,.1f}".replace(",", " ")


def verdict_line(comparison: SideBySide) -> str:
    """What a comparison says, in one line."""
    if comparison.verdict == "proved":
        return f"{comparison.variant}: PROVED, same program: the same bits for every input on {comparison.target}"
    return f"{comparison.variant}: {comparison.reason}"


def claim_line(variant: str, judged: ClaimResult) -> str:
    """What became of a claim, in one line."""
    state = "holds" if judged.ok else "FAILS" if judged.holds is not None else "NOT KNOWN"
    if judged.finding is not None:
        state = "finding, claim not true" if judged.ok else state if judged.holds is None else "FAILS: it is true now"
    finding = "" if judged.finding is None else f"; {judged.finding}"
    return f"{state}: {variant}: {judged.shows} (got {judged.got}; {judged.source}{finding})"


def effect_line(effect: OptionEffect) -> str:
    """What options changed, in one line."""
    options = " ".join(f"{name}={value}" for name, value in effect.options.items())
    if not effect.changed:
        same = "the program is the same with and without; the option changes nothing here above machine code"
        return f"{effect.side}: {options}: {same}"
    figures = [
        f"{name} {_figure(name, effect.before[name])} -> {_figure(name, effect.after[name])}" for name in effect.before
    ]
    changed = [f"{name} {first} -> {second}" for name, (first, second) in list(effect.operations.items())[:6]]
    changes = "; ".join([*figures, *changed]) or "the same operations, differently placed or configured"
    return f"{effect.side}: {options}: another program: {changes}"


def _figure(name: str, value: object) -> str:
    if value is None:
        return "no figure"
    if isinstance(value, dict):
        return counts(value) or "none"
    if name.endswith("bytes") or name == "bytes_accessed":
        return f"{_mega(value)} MB" if isinstance(value, (int, float)) else "?"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def closing(document: CompileDocument) -> str:
    """One sentence for the whole run."""
    s = document.summary
    unjudged = s.declared > 0 and not s.claims
    begin = f"{plural(s.programs, 'program')} ({s.cached} cached), {plural(s.comparisons, 'comparison')}"
    begin += f", {s.same_program} the same program; "
    begin += f"{s.claims} of {plural(s.declared, 'declared claim')}" if unjudged else f"{plural(s.claims, 'claim')}:"
    if unjudged:
        state = f"{'is' if s.declared == 1 else 'are'} about what was compiled"
    elif s.failed:
        state = f"{s.failed} not as declared"
    elif s.unknown:
        state = f"{s.unknown} without a figure"
    else:
        declared = "as declared where judged" if document.problems else "all as declared"
        state = declared if s.claims else "none declared"
    if s.findings:
        state += f" ({plural(s.findings, 'finding')} among them)"
    problems = f"; {plural(len(document.problems), 'problem')}" if document.problems else ""
    cut = "interrupted; " if s.interrupted else ""
    return f"{cut}{begin} {state}{problems}; {s.seconds:.1f} s"


def summarise(
    programs: Sequence[CompiledSide],
    comparisons: Iterable[SideBySide],
    seconds: float,
    interrupted: bool,
    *,
    declared: int = 0,
) -> CompileSummary:
    """The counts of a run.

    Args:
        programs, comparisons: of the run.
        seconds: that it took.
        interrupted: whether it was stopped before its end.
        declared: how many claims the production shapes that were asked for have.
    """
    compared = list(comparisons)
    judged = [judged_claim for comparison in compared for judged_claim in comparison.expectations]
    variants = [comparison for comparison in compared if comparison.variant != comparison.reference]
    return CompileSummary(
        programs=len(programs),
        cached=sum(program.cached for program in programs),
        comparisons=len(variants),
        same_program=sum(comparison.same_order for comparison in variants),
        claims=len(judged),
        failed=sum(not claim.ok and claim.holds is not None for claim in judged),
        findings=sum(claim.ok and claim.finding is not None for claim in judged),
        unknown=sum(claim.holds is None for claim in judged),
        declared=declared,
        seconds=round(seconds, 2),
        interrupted=interrupted,
    )


WIDTH = 168
"""Columns of a table in a file or a pipe, so that its rows are lines."""

_LEFT = ("side", "collectives", "SparseCore", "program")


def show_end(to: Console, document: CompileDocument) -> None:
    """What follows the tables: how to read them, notes, and one sentence for all."""
    line(to)
    if document.results:
        line(to, EXPLAINED, "dim")
    for note in document.notes:
        line(to, note, "yellow")
    s = document.summary
    bad = s.failed or document.problems or not document.results
    line(to, closing(document), "bold red" if bad else "bold yellow" if s.unknown or s.interrupted else "bold green")
    again = next((program.replay for program in document.results if _failing(document, program)), None)
    if again is not None:
        line(to, f"next: {again}")


def _failing(document: CompileDocument, program: CompiledSide) -> bool:
    where = (program.pair, program.side, program.case, program.direction, program.target)
    return any(
        (comparison.pair, comparison.variant, comparison.case, comparison.direction, comparison.target) == where
        and any(not judged.ok for judged in comparison.expectations)
        for comparison in document.comparisons
    )


def show_block(to: Console, block: ProgramBlock) -> None:
    """One table with what is said below it."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to)
    line(to, block.title, "bold")
    heads, rows = block.table()
    show_table(to, heads, rows, right={*heads} - {*_LEFT}, wrapped=("collectives",))
    for comparison in block.comparisons:
        if comparison.variant != comparison.reference:
            line(to, f"  {verdict_line(comparison)}", "bold green" if comparison.verdict else "")
        for judged in comparison.expectations:
            style = "green" if judged.ok and judged.finding is None else "yellow" if judged.ok else "bold red"
            line(to, f"    {claim_line(comparison.variant, judged)}", style)
    for effect in block.effects:
        line(to, f"  {effect_line(effect)}", "yellow" if effect.changed else "dim")


def blocks_text(blocks: Iterable[ProgramBlock]) -> str:
    """Tables as plain text."""
    written = io.StringIO()
    to = Console(file=written, width=WIDTH, markup=False, highlight=False, emoji=False)
    for block in blocks:
        show_block(to, block)
    return "\n".join(line.rstrip() for line in written.getvalue().strip("\n").splitlines())


def compiled_markdown(document: CompileDocument, *, whole: bool = False) -> str:
    """The document as Markdown: result, environment, a table per case, target and direction, claims, problems.

    Args:
        document: of a compile.
        whole: whether everything is written, however long it is.
    """
    state = state_word(exit_code(document), "as declared", "not as declared")
    parts = [f"### samebits compile: {state}", escaped(closing(document))]
    versions = document.environment.versions
    parts.append(escaped(f"jax {versions['jax']}, jaxlib {versions['jaxlib']}, libtpu {versions['libtpu'] or 'none'}"))
    for block in blocks(document):
        parts += [f"#### {escaped(block.title)}", markdown_table(*block.table())]
        lines = [
            verdict_line(comparison) for comparison in block.comparisons if comparison.variant != comparison.reference
        ]
        lines += [
            claim_line(comparison.variant, judged)
            for comparison in block.comparisons
            for judged in comparison.expectations
        ]
        lines += [effect_line(effect) for effect in block.effects]
        if lines:
            parts.append("\n".join(f"- {escaped(line)}" for line in lines))
    if document.results:
        parts.append(escaped(EXPLAINED))
    others = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    others += document.notes
    if others:
        parts.append("\n".join(f"- {escaped(line)}" for line in others))
    return joined(parts, whole=whole)
