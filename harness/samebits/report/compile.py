"""The document of `samebits compile`, and its page: compiled programs side by side, with what was claimed of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged, place_of
from samebits.report.html.charts import bar_charts, size_groups
from samebits.report.html.region import region_folds
from samebits.report.page import Beside, CommandLine, Fold, Line, Lines, Page, Table, Tone
from samebits.report.words import State, plural
from samebits.schema.finding import Finding
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
class CompileDocument(CommandDocument):
    """Everything that a run of `samebits compile` found, as it is written to JSON.

    Args:
        results: one per side, case, direction, target and set of options.
        comparisons: one per variant, case, direction and target; with options where they were given.
        options: what the options given changed, side by side.
        problems: what could not be compiled.
        notes: what was left out, and what to know of the toolchain.
    """

    command: Literal["compile"] = "compile"
    environment: Environment
    results: tuple[CompiledSide, ...]
    comparisons: tuple[SideBySide, ...]
    options: tuple[OptionEffect, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: CompileSummary

    @property
    def exit_code(self) -> int:
        """0: every claim is as declared; 1: one is not; 2: a wrong request; 3: something could not be decided."""
        s = self.summary
        undecided = s.unknown > 0 or s.interrupted or not self.results
        return code_of(self.problems, failed=s.failed > 0, undecided=undecided)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        replays = {replace(place_of(side, variant=side.side), mode=""): side.replay for side in self.results}
        for both in self.comparisons:
            place = place_of(both)
            verdict = both.verdict or ("same program" if both.same_program else "another program")
            replay = replays.get(place, "")
            yield judged("compile", place, verdict, evidence=both.reason, replay=replay)
            for claim in both.expectations:
                yield judged(
                    "compile",
                    replace(place, leaf=claim.shows),
                    "no figure" if claim.holds is None else "holds" if claim.holds else "does not hold",
                    ok=claim.ok,
                    evidence=f"got {claim.got}",
                    required="a finding: does not hold" if claim.finding else "holds",
                    why=claim.finding or claim.source,
                    replay=replay,
                )

    def page(self) -> Page:
        """Return a table for each case, target and direction, those with a claim that is not as declared first."""
        grouped = sorted(blocks(self), key=lambda block: block.state == "passed")
        explained = Lines(lines=["", Line(EXPLAINED, "dim")], listed=False)
        return replace(
            usual_page(self, ("as declared", "not as declared"), "failed"),
            closing=closing(self),
            explained=True,
            live=[block_fold(block, number, unfolded=len(grouped) <= _OPEN) for number, block in enumerate(grouped)],
            blocks=[explained] if self.results else [],
        )


@dataclass(frozen=True, slots=True)
class ProgramBlock:
    """One case on one target in one direction: a table, and what is said below it."""

    programs: tuple[CompiledSide, ...]
    comparisons: tuple[SideBySide, ...]
    effects: tuple[OptionEffect, ...]

    @property
    def title(self) -> str:
        """Return what was compiled for what."""
        first = self.programs[0]
        compiler = "libtpu" if not first.target.startswith("cpu") else "jaxlib"
        shapes = ", ".join(first.shapes)
        what = f"{first.pair}, {first.direction}: {first.case}, {shapes}"
        return f"{what}; {first.mesh} ({first.mode}) on {first.target}, {compiler} {first.compiler}"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and a row per program, the reference's first, without optional columns that say nothing."""
        beside = {comparison.variant: comparison for comparison in self.comparisons}
        names = {effect.side for effect in self.effects}
        rows = [_row(program, beside.get(program.side), self._last(program, names)) for program in self.programs]
        columns = [
            place
            for place, name in enumerate(HEADS)
            if name not in _OPTIONAL or any(row[place] not in ("", "0") for row in rows)
        ]
        return [HEADS[place] for place in columns], [[row[place] for place in columns] for row in rows]

    @property
    def failing(self) -> set[str]:
        """Return the variants of which a claim is not as declared, or has no figure."""
        claimed = [(comparison.variant, claim) for comparison in self.comparisons for claim in comparison.expectations]
        return {variant for variant, claim in claimed if not claim.ok}

    @property
    def state(self) -> State:
        """Return what the claims come to."""
        states = {claim_state(claim) for comparison in self.comparisons for claim in comparison.expectations}
        return "failed" if "failed" in states else "incomplete" if "incomplete" in states else "passed"

    @property
    def replay(self) -> str:
        """Return the command of the variant whose claim fails, or else of the last one."""
        return next(
            (program.replay for program in self.programs if program.side in self.failing), self.programs[-1].replay
        )

    def _last(self, program: CompiledSide, changed: set[str]) -> bool:
        """Whether ratios belong to this row: with options, to the program that has them."""
        return bool(program.options) or program.side not in changed


def blocks(document: CompileDocument) -> list[ProgramBlock]:
    """Return the programs that belong together, in the order of the run."""

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
    """Return counts by name: `collective-permute 2`."""
    return ", ".join(f"{name} {number}" for name, number in dict(by_name).items())  # type: ignore[call-overload]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3g}x"


def _mega(number: float | None) -> str:
    """Return millions of bytes, with a space between thousands."""
    return "?" if number is None else f"{number / 1e6:,.1f}".replace(",", " ")


def verdict_line(comparison: SideBySide) -> str:
    """Return what a comparison says, in one line."""
    if comparison.verdict == "proved":
        return f"{comparison.variant}: PROVED, same program: the same bits for every input on {comparison.target}"
    return f"{comparison.variant}: {comparison.reason}"


def claim_line(variant: str, judged: ClaimResult) -> str:
    """Return what became of a claim, in one line."""
    state = "holds" if judged.ok else "FAILS" if judged.holds is not None else "NOT KNOWN"
    if judged.finding is not None:
        state = "finding, claim not true" if judged.ok else state if judged.holds is None else "FAILS: it is true now"
    finding = "" if judged.finding is None else f"; {judged.finding}"
    return f"{state}: {variant}: {judged.shows} (got {judged.got}; {judged.source}{finding})"


def effect_line(effect: OptionEffect) -> str:
    """Return what options changed, in one line."""
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
    """Write one sentence for the whole run."""
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
    """Return the counts of a run."""
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


_LEFT = ("side", "collectives", "program")

_OPEN = 4
"""So many cases are unfolded in HTML; of more, only those that fail."""

_BARS = {
    "temp_bytes": "temporary memory",
    "peak_bytes": "peak memory",
    "bytes_accessed": "memory traffic",
    "wire_bytes": "communication",
}

_LABEL = "Memory and communication per device, each figure on its own scale; the table has the same figures"


def block_fold(block: ProgramBlock, number: int = 0, *, unfolded: bool = True) -> Fold:
    """Return a table with what is said below it."""
    heads, rows = block.table()
    names = [row[0] for row in rows]
    groups = size_groups(dict(zip(names, block.programs, strict=True)), _BARS)
    table = Table(
        heads=heads,
        rows=rows,
        caption="Each program; the first figures are multiples of the reference's",
        bad=[number for number, program in enumerate(block.programs) if program.side in block.failing],
        right={*heads} - {*_LEFT},
        wide=("collectives",),
    )
    regions = [fold for comparison in block.comparisons for fold in region_folds(comparison)]
    return Fold(
        title=block.title,
        blocks=[
            table,
            Beside(
                blocks=[*bar_charts(f"block-{number}", _LABEL, groups, names), Lines(lines=[*_said(block)], indent=2)]
            ),
            *regions,
            CommandLine(text=block.replay, media=("html",)),
        ],
        open=unfolded or block.state != "passed",
        state=block.state,
    )


def _said(block: ProgramBlock) -> Iterator[Line]:
    """Yield what comparisons, claims and options come to."""
    for comparison in block.comparisons:
        if comparison.variant != comparison.reference:
            yield Line(verdict_line(comparison), "good" if comparison.verdict else "")
        for claim in comparison.expectations:
            good: Tone = "good" if claim.finding is None else "warn"
            yield Line(claim_line(comparison.variant, claim), good if claim.ok else "bad")
    for effect in block.effects:
        yield Line(effect_line(effect), "warn" if effect.changed else "dim")


def claim_state(claim: ClaimResult) -> State:
    """Return what a claim comes to."""
    return "passed" if claim.ok else "incomplete" if claim.holds is None else "failed"
