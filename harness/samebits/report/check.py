"""The document of a check, and its page: what failed and why, a matrix of all verdicts, and the results themselves."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import msgspec

from samebits.audit.snapshots import SnapshotComparison
from samebits.host.environment import Environment
from samebits.report.causes import causes_of
from samebits.report.document import CommandDocument, read_as
from samebits.report.failure import point_block
from samebits.report.html.sections import render
from samebits.report.page import Badge, Block, Cell, Failing, Fold, Hypertext, Line, Lines, Page, Table, Tone, cell_text
from samebits.report.words import (
    State,
    assumed_sentence,
    other_input_notes,
    plural,
    short_meshes,
    verdict_counts,
)
from samebits.schema.contract import RUNGS
from samebits.schema.difference import ulps_in_words
from samebits.schema.finding import COUNTED, Finding, Place, ShakeSummary, exit_code
from samebits.schema.result import VERDICTS, Problem, Summary, Verdict

RESULT_SCRIPTS = ("result_view.js", "result_values.js", "result_sharding.js", "result_heat.js", "result_source.js")
"""What shows one result in depth; `result_view.js` comes first."""

SHOWN_CAUSES = 3
"""Groups of failures that HTML shows unfolded."""

NOTES = 3
"""Notes that are shown where not everything is."""

SIDES = ("side", "forward", "gradient", "cases", "meshes", "contract", "emulated")
ROWS = ("pair", "variant", "forward", "gradient", "cases", "meshes", "dtypes", "modes", "contract", "emulated")
LEAVES = ("pair", "variant", "direction", "leaf", "measured here", "reason")

_TONES: dict[str, Tone] = {"rounding": "warn", "different": "bad", "unstable": "bad", "error": "bad", "skipped": "dim"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseInputs:
    """What the sides of a pair were called with in a case, on some meshes.

    Args:
        case: its id.
        meshes: on which these are the arguments.
        statics: the static arguments, as Python writes them.
        arguments: the array arguments by name, of a tree its leaves: dtype, sizes and mesh axes, then how the elements
            are drawn, as in `int32[8@data,16] integers from 0 to 9` or `[8,16@(fsdp,tensor)] normal, special nan`.
            Without a dtype it has that of the sweep; special values are in a second set of inputs.
    """

    case: str
    meshes: tuple[str, ...]
    statics: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SideSource:
    """Where the function of a side is written.

    Args:
        side: the reference or a variant.
        file: the last folder and the name of the file, as places in `lines` have it.
        first, last: its first and its last line.
        text: these lines, at most 120; None where all results of the side hold with equal bits.
    """

    side: str
    file: str
    first: int
    last: int
    text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PairHead:
    """What a pair of the document is, and how much of it ran.

    Args:
        pair, reference, variants: the names of the pair and its sides.
        selected, product: settings (case, mesh, dtype, mode) that were to run, and of the whole product.
        unfit: wide meshes that were left out because they need more devices than there are.
        meshes: by the id of a mesh, the sizes of its axes, in order.
        inputs: what the sides were called with, by case.
        sources: where the functions of the sides are written.
    """

    pair: str
    reference: str
    variants: tuple[str, ...]
    selected: int
    product: int
    unfit: tuple[str, ...] = ()
    meshes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    inputs: tuple[CaseInputs, ...] = ()
    sources: tuple[SideSource, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Document(CommandDocument):
    """Everything that a check found.

    Args:
        pairs: the pairs that were planned, in order; those that were not are in `problems`.
        results: in the order of the plan, however many workers ran it.
        problems: pairs that could not be checked, and what else is wrong with a declaration.
        request: what was asked for: names of pairs, filters and effort.
        shard: such as `3/8`, of a part that `samebits run merge` joins; None for the whole.
        snapshot: how the results stand to the accepted verdicts of this environment.
        no_skips: whether a skipped result fails the run (`--no-skips`).
        shake: of `check --shake`: the options tried, and how many leaves are robust and fragile.
    """

    command: Literal["check"] = "check"
    environment: Environment
    pairs: tuple[PairHead, ...]
    results: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    summary: Summary
    request: Mapping[str, Any] | None = None
    shard: str | None = None
    shake: ShakeSummary | None = None
    snapshot: SnapshotComparison | None = None
    no_skips: bool = False

    @property
    def skips_fail(self) -> bool:
        """Whether something was skipped in a run in which that fails it."""
        return self.no_skips and self.summary.skipped > 0

    @property
    def incomplete(self) -> bool:
        """Whether the exit code is 3 although everything that ran holds."""
        s = self.summary
        return s.interrupted or s.skipped == s.cases > 0 or self.skips_fail

    @property
    def exit_code(self) -> int:
        """Return 1 where a contract does not hold; 0 of a shard without points, which `merge` judges."""
        if is_empty_shard(self):
            return 0
        return exit_code(self.results, self.problems, no_skips=self.no_skips, interrupted=self.summary.interrupted)

    def as_findings(self) -> Sequence[Finding]:
        """Return what is judged."""
        return self.results

    def page(self) -> Page:
        """Return the page of `samebits check`, `compare` or `merge`."""
        groups, tallies, notes = causes_of(self), rows(self.results), note_lines(self)
        said = (remembered_sentence(self), assumed_sentence(self.results))
        return Page(
            command="check",
            title="check" if self.shard is None else f"check, shard {self.shard}",
            state=_state(self),
            closing=closing(self),
            blocks=[
                _pairs(self, tallies),
                Hypertext(
                    draw=lambda: render(
                        "check.html.j2", causes=groups[:SHOWN_CAUSES], more_causes=groups[SHOWN_CAUSES:]
                    )
                ),
                _table(self, tallies),
                *_accepted(accepted(self.results)),
                *([] if self.shake is None else _shaken(self.shake, self.results)),
                *_notes(notes),
            ],
            each=_each_point(self.results),
            failing=groups,
            problems=self.problems,
            notes=[text for text in said if text],
            environment=self.environment,
            hint="--verbose prints every row, note and failure",
            data=lambda: _data(self, groups),
            scripts=(*RESULT_SCRIPTS, "check_rows.js", "check_matrix.js", "check.js"),
            styles=("check.css", "result.css"),
        )


def read_document(path: Path) -> Document:
    """Return a check's document from its file, every key and type checked."""
    return read_as(path, Document)


def _state(document: Document) -> State:
    summary = document.summary
    if is_empty_shard(document):
        return "passed"
    if summary.failed or document.problems or not summary.cases:
        return "failed"
    return "incomplete" if document.incomplete else "passed"


def closing(document: Document) -> str:
    """Write one sentence: counts per verdict, what ran, how long, and what it comes to."""
    s = document.summary
    if is_empty_shard(document):
        return f"shard {document.shard} has no points of this request; {s.seconds:.1f} s"
    counts = verdict_counts(s.verdicts) or "nothing"
    begin = f"{plural(s.cases, 'result')} of {plural(len(document.pairs), 'pair')}: {counts}"
    if s.exempt:
        begin += f" (known differences among them: {s.exempt})"
    if s.failed:
        state = f"{s.failed} fail"
    elif document.problems:
        ran = "what ran holds, but" if s.cases else "nothing was checked:"
        state = f"{ran} {plural(len(document.problems), 'problem')} must be fixed"
    elif s.skipped == s.cases:
        state = "nothing was checked"
    elif document.skips_fail:
        fail = "fails" if s.skipped == 1 else "fail"
        state = f"what ran holds, but {plural(s.skipped, 'skipped result')} {fail} the run (--no-skips)"
    elif s.interrupted:
        state = "what ran holds"
    else:
        state = "all contracts hold" + (f", {s.skipped} skipped" if s.skipped else "")
    cut = "interrupted; " if s.interrupted else ""
    return f"{cut}{begin}; {counts_sentence(document)}; {s.seconds:.1f} s; {state}"


def counts_sentence(document: Document) -> str:
    """Say how much of the product ran; of a shard, or where something could not run, how many settings have results."""
    s = document.summary
    if s.interrupted:
        return f"not all of {plural(s.selected, 'setting')} ran"
    ran = len({(r.place.pair, r.place.case, r.place.dtype, r.place.mesh, r.place.mode) for r in document.results})
    if ran < s.selected and (document.shard is not None or document.problems):
        here = "" if document.shard is None else f" in shard {document.shard}"
        return f"{ran} of {plural(s.selected, 'setting')} ran{here}"
    if s.selected >= s.product:
        return f"all {plural(s.product, 'setting')} ran"
    return (
        f"selection of {s.selected} of {s.product} settings covers every two of case, dtype, mesh, mode together "
        "and every three of dtype, mesh, mode; --full runs all"
    )


def is_empty_shard(document: Document) -> bool:
    """Whether it is a part of a check that has no points, as where there are more parts than groups of points."""
    left_nothing = not (document.results or document.problems or document.summary.interrupted)
    return document.shard is not None and bool(document.pairs) and left_nothing


def remembered_sentence(document: Document) -> str | None:
    """Return how many results an earlier run has found, and when; None where all were executed now."""
    dates = sorted(result.run.remembered[:10] for result in document.results if result.run.remembered is not None)
    if not dates:
        return None
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    count = plural(len(dates), "result")
    return f"{count} remembered, from {when} on this environment; check --fresh runs them again"


def _pairs(document: Document, tallies: Sequence[SideTally]) -> Fold:
    """Return for each pair what it ran over and a row per side, the columns of all pairs aligned, for a terminal."""
    references = {(head.pair, head.reference) for head in document.pairs}
    heads = SIDES if any(tally.emulated for tally in tallies) else SIDES[:-1]
    cells = [_side_cells(tally, references)[: len(heads)] for tally in tallies]
    least = [max(len(cell_text(cell)) for cell in column) for column in zip(heads, *cells, strict=True)]
    blocks: list[Block] = []
    for pair in dict.fromkeys(tally.pair for tally in tallies):
        own = [number for number, tally in enumerate(tallies) if tally.pair == pair]
        ran = []
        for name in ("meshes", "dtypes", "modes", "cases"):
            values = dict.fromkeys(value for number in own for value in getattr(tallies[number], name))
            ran.append(Line(f"{name:<7} {short_meshes(values) if name == 'meshes' else ' '.join(values)}", "dim"))
        table = Table(heads=heads, rows=[cells[number] for number in own], right=("cases", "meshes"), least=least)
        blocks.append(Fold(title=pair, blocks=[Lines(lines=ran, indent=2), table]))
    names = Lines(lines=_pair_names(document), cut=4)
    short = Lines(lines=_pair_lines(document), cut=1, short=names)
    end = [Lines(lines=[""])] if blocks else []
    return Fold(title="", blocks=[*blocks, *end], short=short, media=("terminal",))


def _side_cells(tally: SideTally, references: set[tuple[str, str]]) -> list[Cell]:
    numbers = (str(len(tally.cases)), str(len(tally.meshes)), tally.lowest, " ".join(tally.emulated))
    return [_side(tally, references), _verdicts(tally, "forward"), _verdicts(tally, "gradient"), *numbers]


def _side(tally: SideTally, references: set[tuple[str, str]]) -> str:
    return f"{tally.variant} (reference)" if (tally.pair, tally.variant) in references else tally.variant


def _verdicts(tally: SideTally, direction: str) -> tuple[Badge, ...]:
    return tuple(
        Badge(text=words, sign="", tone="warn" if words.endswith("(known)") else _TONES.get(verdict, "good"))
        for verdict, words in tally.parts(direction)
    )


def _pair_lines(document: Document) -> list[str | Line]:
    """Return a line for each pair."""
    wide = max((len(head.pair) for head in document.pairs), default=0)
    counts = {head.pair: Counter[str]() for head in document.pairs}
    failed: Counter[str] = Counter()
    for result in document.results:
        counts.setdefault(result.place.pair, Counter())[result.ruling.verdict] += 1
        failed[result.place.pair] += result.failed
    lines: list[str | Line] = []
    for head in document.pairs:
        fail = f"; {failed[head.pair]} fail" if failed[head.pair] else ""
        text = f"{head.pair:<{wide}}  {verdict_counts(counts[head.pair]) or 'nothing'}{fail}"
        lines.append(Line(text, "bad" if fail else ""))
    return [*lines, ""]


def _pair_names(document: Document) -> list[str | Line]:
    """Return the names of the pairs that hold; of a run that was interrupted, of those without a failure so far."""
    failing = {result.place.pair for result in document.results if result.failed}
    failing |= {problem.pair for problem in document.problems}
    ran = {result.place.pair for result in document.results if result.ruling.verdict != "skipped"} - failing
    holding = [head.pair for head in document.pairs if head.pair in ran]
    if not holding:
        return []
    count, names = plural(len(holding), "pair"), ", ".join(holding)
    if document.summary.interrupted:  # what of them did not run may differ
        return [Line(f"{count} without a failure so far: {names}", "warn"), ""]
    return [Line(f"{count} hold{'s' if len(holding) == 1 else ''}: {names}", "good"), ""]


def _table(document: Document, tallies: Sequence[SideTally]) -> Table:
    """Return a row per side for Markdown."""
    references = {(head.pair, head.reference) for head in document.pairs}
    cells: list[list[Cell]] = [
        [
            tally.pair,
            _side(tally, references),
            *(_verdicts(tally, "forward"), _verdicts(tally, "gradient")),
            str(len(tally.cases)),
            short_meshes(tally.meshes),
            *(" ".join(tally.dtypes), " ".join(tally.modes), tally.lowest, " ".join(tally.emulated)),
        ]
        for tally in tallies
    ]
    bad = [number for number, tally in enumerate(tallies) if tally.failed]
    title = f"Results of {plural(len({tally.pair for tally in tallies}), 'pair')}"
    return Table(heads=ROWS, rows=cells, title=title, bad=bad, media=("markdown",))


def _accepted(relaxed: Mapping[tuple[str, ...], Sequence[Finding]]) -> list[Block]:
    """Return where a contract accepts rounding and rounding came out, with the reason and how far it goes."""
    if not relaxed:
        return []
    title = "Only rounding, accepted by contract"
    lines: list[str | Line] = [Line(f"{title}:", "strong")]
    cells = []
    by_reason: dict[tuple[str, str], list[Line]] = {}
    for (pair, reason, variant, direction, leaf), results in relaxed.items():
        far = measured(results)
        by_reason.setdefault((pair, reason), []).append(Line(f"    {variant}, {direction}, {leaf}: {far}", "warn"))
        cells.append((pair, variant, direction, leaf, far, reason))
    for (pair, reason), own in by_reason.items():
        lines += [f"  {pair}: {reason}", *own]
    pairs = ", ".join(dict.fromkeys(pair for pair, *_ in relaxed))
    short = Lines(lines=[Line(f"only rounding, accepted by contract, in {pairs}", "warn"), ""], cut=1)
    table = Table(heads=LEAVES, rows=cells, caption=title, wide=LEAVES[-2:])
    return [
        Lines(lines=[*lines, ""], short=short, media=("terminal",)),
        Fold(title=title, blocks=[table], media=("markdown", "html")),
    ]


def _shaken(shake: ShakeSummary, results: Sequence[Finding]) -> list[Block]:
    """Return what each compiler option of `--shake` does, and a line per leaf whose bits it changes."""
    counts = ", ".join(f"{name} {count}" for name, count in shake.leaves.items()) or "none"
    title = f"Shaken, of the leaves whose bits are equal as usual: {counts}"
    cells = [
        [
            row.option,
            *(str(row.outcomes.get(name, "")) for name in COUNTED),
            str(row.reference_moved or "") if row.effect else "no effect here: no evidence",
        ]
        for row in shake.options
    ]
    heads = ("compiler option", *COUNTED, "reference's own bits moved")
    table = Table(heads=heads, rows=cells, caption="Compiler options", right=heads[1:])
    left_out = ", ".join(shake.left_out)
    said = [
        *(Line(text, "warn") for text in moved_leaves(results)),
        *(Line(f"{name}: not accepted here: {why}", "dim") for name, why in shake.not_accepted.items()),
        *([Line(f"left out, for they move more than rounding: {left_out}", "dim")] if left_out else []),
    ]
    return [Fold(title=title, blocks=[table, Lines(lines=[*said, ""], indent=2)], short=Lines(lines=["", title, ""]))]


def moved_leaves(results: Sequence[Finding]) -> list[str]:
    """Write a line for each leaf and option that changes its bits, results of other cases and meshes together."""
    results_by_leaf: dict[tuple[str, ...], list[tuple[Finding, int]]] = {}
    for result in results:
        for shaken in result.shaken:
            if shaken.outcome in ("fragile", "broken"):
                place = result.place
                key = (f"{place.pair}/{place.variant}", place.direction, place.leaf, shaken.outcome, shaken.option)
                results_by_leaf.setdefault(key, []).append((result, shaken.mismatches))
    lines = []
    for (side, direction, leaf, outcome, option), differing in results_by_leaf.items():
        worst, count = max(differing, key=lambda pair: pair[1])
        more = f", and {plural(len(differing) - 1, 'more result')}" if len(differing) > 1 else ""
        where = f"case {worst.place.case}, {worst.place.dtype}, mesh {worst.place.mesh}"
        what = "bits differ" if outcome == "fragile" else "the contract breaks"
        extent = f"{count} of {worst.comparison.elements} ({where}{more})"
        lines.append(f"{side}, {direction}, {leaf}: {outcome}: {what} under {option}: {extent}")
    return lines


def _notes(notes: Sequence[str]) -> list[Block]:
    if not notes:
        return []
    few = [f"note: {text}" for text in notes[:NOTES]]
    few += [f"and {plural(len(notes) - NOTES, 'more note')}"] if len(notes) > NOTES else []
    short = Lines(lines=[*few, ""], cut=2)
    return [
        Lines(title="Notes:", lines=[*notes, ""], indent=2, short=short, media=("terminal",)),
        Fold(title="Findings", blocks=[Lines(lines=notes)], media=("markdown", "html")),
    ]


def note_lines(document: Document) -> list[str]:
    """Write known differences, what was skipped or not interpreted, other layouts, and the notes of the run."""
    noted = Counter(noted for result in document.results for noted in _noted(result))
    lines = [
        f"{who}: {plural(count, what)}{rest}"
        for (_, who, what, rest), count in sorted(noted.items(), key=lambda item: item[0][0])
    ]
    return [*lines, *other_input_notes(document.results), *layout_notes(document), *document.summary.notes]


def _noted(result: Finding) -> Iterator[tuple[int, str, str, str]]:
    """Yield what a result is counted for in a note: its order among notes, of whom, what is counted, what is said."""
    place, ruling = result.place, result.ruling
    if ruling.exempt and ruling.ok:
        yield 0, f"{place.pair}/{place.variant}", "known difference", f": {ruling.reason or ''}"
    if ruling.verdict == "skipped":
        yield 1, place.pair, "result", f" on mesh {place.mesh} skipped: {ruling.reason or 'no reason given'}"
    if result.proof.not_interpreted:
        yield 2, f"{place.pair}/{place.variant}", "result", f" not interpreted: {result.proof.not_interpreted}"


def layout_notes(document: Document) -> list[str]:
    """Return a line for each variant and output whose layout in explicit mode is not the reference's.

    There layouts are part of the types: what follows such an output may not trace, or pays for a resharding.
    """
    references = {head.pair: head.reference for head in document.pairs}
    runs: dict[tuple[str, ...], dict[str, Mapping[str, str]]] = {}
    for result in document.results:
        if result.place.mode == "explicit" and result.place.direction == "forward" and result.run.layout:
            point = result.place.pair, result.place.case, result.place.dtype, result.place.mesh
            runs.setdefault(point, {})[result.place.variant] = result.run.layout
    moved: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for (pair, *_), sides in runs.items():
        for variant, output, layouts in _moved(sides, references.get(pair, "")):
            moved.setdefault((pair, variant, output), []).append(layouts)
    return [
        f"{pair}/{variant}: in explicit mode {output} is {pairs[0][1]} where the reference's is {pairs[0][0]}"
        + (f", and has another layout in {plural(len(pairs) - 1, 'more setting')}" if len(pairs) > 1 else "")
        for (pair, variant, output), pairs in moved.items()
    ]


def _moved(sides: Mapping[str, Mapping[str, str]], reference: str) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """Return the variant, the output, and both layouts."""
    expected = sides.get(reference, {})
    for variant, layout in sides.items():
        for output in layout:
            if _is_output(output) and layout[output] != expected.get(output, layout[output]):
                yield variant, output, (expected[output], layout[output])


def _is_output(path: str) -> bool:
    return path == "out" or path.startswith(("out[", "out."))


def _each_point(results: Sequence[Finding]) -> list[Block]:
    """Return failing points, of every kind some; those that say the same, as of an error, share a block."""
    points, more = failures(results)
    shared: dict[tuple[str, ...], list[str]] = {}
    for leaves in points:
        first, *rest = point_block(leaves)
        shared.setdefault((leaves[0].place.pair, leaves[0].place.variant, *rest), []).append(first)
    blocks: list[Block] = []
    for (_, _, *rest), (first, *others) in shared.items():
        named = [Line(f"FAILED  {first}", "bad"), *(Line(f"        {other}", "bad") for other in others)]
        blocks.append(Lines(lines=[*named, *rest, ""]))
    if more:
        text = f"{plural(more, 'more failing point')} not shown; --json FILE writes all of them"
        blocks.append(Lines(lines=[Line(text, "bad"), ""]))
    return blocks


# --- what the scripts of HTML read ---------------------------------------------------------------------------------


def _data(document: Document, groups: Sequence[Failing]) -> dict[str, object]:
    places = {id(result): place for place, result in enumerate(document.results)}
    return {
        "results": columns(document.results),
        "causes": [[places[id(result)] for result in group.findings] for group in groups],
        "pairs": document.pairs,
        "environment": document.environment,
    }


def columns(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the fields of findings as columns, to be read by `samebits.rows` in `static/page.js`.

    The fields of groups stand beside each other; of two with one name, that of the first group counts.

    Returns:
        The number of findings, and for each field its distinct values and which of them each finding has; one that
        all share has no such list.
    """
    paths: dict[str, str] = {}
    for part in fields(Finding) if findings else ():
        group = getattr(findings[0], part.name)
        inner = fields(group) if is_dataclass(group) else ()
        for name, path in [(each.name, f"{part.name}.{each.name}") for each in inner] or [(part.name, part.name)]:
            paths.setdefault(name, path)
    return {"count": len(findings), "fields": {name: _column(findings, path) for name, path in paths.items()}}


def _column(findings: Sequence[Finding], path: str) -> dict[str, object]:
    places: dict[bytes, int] = {}
    values: list[msgspec.Raw] = []
    index, value_of = [], attrgetter(path)
    for finding in findings:
        text = msgspec.json.encode(value_of(finding))
        if text not in places:
            places[text] = len(values)
            values.append(msgspec.Raw(text))
        index.append(places[text])
    return {"values": values} if len(values) == 1 else {"values": values, "index": index}


CAP = 20
"""How many failures are explained in full; the rest is counted."""


@dataclass(kw_only=True, slots=True)
class SideTally:
    """Everything seen of one side of a pair."""

    pair: str
    variant: str
    verdicts: dict[str, Counter[Verdict]] = field(default_factory=lambda: defaultdict(Counter))
    cases: dict[str, None] = field(default_factory=dict)
    meshes: dict[str, None] = field(default_factory=dict)
    dtypes: dict[str, None] = field(default_factory=dict)
    modes: dict[str, None] = field(default_factory=dict)
    emulated: dict[str, None] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    known: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    failed: int = 0

    def add(self, result: Finding) -> None:
        """Count one result."""
        place, ruling = result.place, result.ruling
        self.verdicts[place.direction][ruling.verdict] += 1
        self.failed += result.failed
        self.known[place.direction, ruling.verdict] += ruling.exempt and ruling.ok
        if ruling.verdict == "skipped":
            return
        self.cases[place.case] = self.meshes[place.mesh] = self.dtypes[place.dtype] = self.modes[place.mode] = None
        self.emulated |= dict.fromkeys(result.run.emulated)
        if not ruling.exempt and ruling.verdict not in ("error", "refused"):
            self.required.add(ruling.required)

    def parts(self, direction: str) -> list[tuple[Verdict, str]]:
        """Return the verdicts of a direction, each with its count in words; differences that are known are marked."""
        parts: list[tuple[Verdict, str]] = []
        for verdict in VERDICTS:
            count, known = self.verdicts[direction][verdict], self.known[direction, verdict]
            if count:
                mark = "" if not known else " (known)" if known == count else f" ({known} known)"
                parts.append((verdict, f"{verdict} {count}{mark}"))
        return parts

    @property
    def lowest(self) -> str:
        """Return the lowest rung that a contract of this side accepts."""
        return next((rung for rung in reversed(RUNGS) if rung in self.required), "")


def measured(leaf: Sequence[Finding]) -> str:
    """Return how far the results of one leaf really go, in words."""
    below = [result for result in leaf if result.ruling.verdict == "rounding"]
    many = f"{len(below)} of {len(leaf)} results"
    dtypes = ", ".join(dict.fromkeys(result.place.dtype for result in below))
    kinds = {difference.kind for result in below for difference in result.comparison.differences}
    if kinds == {"sign of zero"}:  # which no distance and no error shows
        return f"{many} {'differs' if len(below) == 1 else 'differ'} in the sign of zero alone ({dtypes})"
    error = max(0.0, *(result.accuracy.error_ratio or 0.0 for result in below))
    ratio = f"{error:.2g}" if error >= 0.01 else "under 0.01"
    far = ulps_in_words(max(result.comparison.max_ulp or 0 for result in below))
    return f"{many} are only rounding ({dtypes}): at most {far}, error {ratio}x the reference's"


def rows(results: Iterable[Finding]) -> list[SideTally]:
    """Return one row per pair and side, in the order of the results."""
    tallies: dict[str, SideTally] = {}
    for result in results:
        new = SideTally(pair=result.place.pair, variant=result.place.variant)
        tallies.setdefault(result.place.side(), new).add(result)
    return list(tallies.values())


def accepted(results: Iterable[Finding]) -> dict[tuple[str, ...], list[Finding]]:
    """Return the results for which a contract accepts rounding, of each leaf for which rounding came out.

    Returns:
        By pair, reason, variant, direction and leaf.
    """
    leaves: dict[tuple[str, ...], list[Finding]] = {}
    for result in results:
        place, ruling = result.place, result.ruling
        if ruling.required == "rounding" and ruling.ok and not ruling.exempt:
            key = (place.pair, ruling.reason or "", place.variant, place.direction, place.leaf)
            leaves.setdefault(key, []).append(result)
    return {key: leaf for key, leaf in leaves.items() if any(each.ruling.verdict == "rounding" for each in leaf)}


def failures(results: Sequence[Finding], cap: int = CAP) -> tuple[list[list[Finding]], int]:
    """Return the failing points to explain, each with its failing leaves, and how many more failing points there are.

    Every kind of failure gets its turn before a second of the same kind, and of a kind the point with the fewest
    devices and elements comes first: the smallest counterexample is the easiest to follow.
    """
    points: dict[Place, list[Finding]] = {}
    for result in results:
        if result.failed:
            points.setdefault(result.place.whole, []).append(result)
    kinds: dict[tuple[str, ...], list[list[Finding]]] = {}
    for leaves in points.values():
        place, verdict = leaves[0].place, leaves[0].ruling.verdict
        kinds.setdefault((place.pair, place.variant, place.direction, verdict), []).append(leaves)
    for group in kinds.values():
        group.sort(key=lambda leaves: (leaves[0].run.devices, leaves[0].comparison.elements))
    rounds = itertools.zip_longest(*kinds.values())
    chosen = [leaves for turn in rounds for leaves in turn if leaves is not None][:cap]
    order = {key: place for place, key in enumerate(points)}
    return sorted(chosen, key=lambda leaves: order[leaves[0].place.whole]), len(points) - len(chosen)
