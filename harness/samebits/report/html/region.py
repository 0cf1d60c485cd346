"""Where the programs of two sides differ: their first differing instructions beside each other, in HTML alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal, NamedTuple

from samebits.report.html.sections import render
from samebits.report.page import Fold, Hypertext, Lines
from samebits.report.words import plural
from samebits.schema.program_facts import ProgramRegion, RegionLevel, RegionLine, SideBySide

CellKind = Literal["same", "changed", "only", "moved"]

_PLUMBING = {
    *("argument", "bitcast", "constant", "copy", "copy-done"),
    *("copy-start", "get-tuple-element", "param", "tuple"),
}
"""Instructions that name, place or bring in values, and compute nothing."""

_WORD = re.compile(r"[\w.\-]+|\s+|.")

MEANINGS = {
    "same": ("=", "in both programs"),
    "changed": ("≠", "differs from the instruction beside it"),
    "only": ("+", "without an equal in the other program"),
    "moved": ("⇄", "in both programs, elsewhere in the other"),
}
"""The sign of each kind of cell, and what it says."""


class RegionCell(NamedTuple):
    """One instruction of one side: how it stands to the other, its text in pieces and which differ, and its source."""

    kind: CellKind
    parts: Sequence[tuple[str, bool]]
    source: str | None


class RegionRow(NamedTuple):
    """Instructions of both sides beside each other, and what differs where the texts are the same."""

    reference: RegionCell | None
    variant: RegionCell | None
    note: str | None = None


def region_rows(region: ProgramRegion) -> list[RegionRow]:
    """Return the rows of a region; instructions that only one side has stand beside those that only the other has."""
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
    """Return where the first difference lies, in words; None for a comparison without a region."""
    region = comparison.region
    first = region.first if region is not None else None
    if region is None or first is None:
        return None
    where = " of ".join(_place(level) for level in reversed(region.levels))
    sentence = f"The first difference is {_named(comparison, first)}, in {where}."
    lines = [line for line in region.lines if line.kind not in ("same", "moved")]
    operation = next((line for line in lines if not _opcodes(line) <= _PLUMBING), None)
    if operation is None or operation is first:
        return sentence
    return f"{sentence} The first operation among the differences is {_named(comparison, operation)}."


def _place(level: RegionLevel) -> str:
    """Return a computation inside a sentence: `the body of while.1`, `fusion.3`."""
    return f"the {level.name}" if " " in level.name else level.name


def _named(comparison: SideBySide, line: RegionLine) -> str:
    """Return a row as `dot.3 of gather (jit(f)/dot_general), dot.9 of structured`."""
    sides = zip((comparison.reference, comparison.variant), _sides(line), strict=True)
    return ", ".join(
        f"{_name(text)} of {side}" + (f" ({source})" if source else "") for side, (text, source) in sides if text
    )


def _name(text: str) -> str:
    return text.removeprefix("ROOT ").partition(" = ")[0]


def _opcodes(line: RegionLine) -> set[str]:
    return {_name(text).rpartition(".")[0] for text, _ in _sides(line) if text}


def level_words(level: RegionLevel) -> str:
    """Return how many instructions of a computation have no equal."""
    return (
        f"{level.reference_only} of {plural(level.reference_instructions, 'instruction')} of the reference and "
        f"{level.variant_only} of {level.variant_instructions} of the variant have no equal"
    )


def _together(line: RegionLine) -> RegionRow:
    (first, _), (second, _) = _sides(line)
    parts = ([(first, False)], [(second, False)]) if line.kind == "same" else _marked(first, second)
    kind: CellKind = "same" if line.kind == "same" else "changed"
    cells = [RegionCell(kind, part, source) for part, (_, source) in zip(parts, _sides(line), strict=True)]
    return RegionRow(cells[0], cells[1], line.note)


def _sides(line: RegionLine) -> Iterator[tuple[str, str | None]]:
    yield line.reference or "", line.reference_source
    yield line.variant or "", line.variant_source


def _apart(lines: Sequence[RegionLine]) -> Iterator[RegionRow]:
    cells: tuple[list[RegionCell], list[RegionCell]] = [], []
    for line in lines:
        place = 0 if line.reference is not None else 1
        text, source = list(_sides(line))[place]
        cells[place].append(RegionCell("moved" if line.kind == "moved" else "only", [(text, False)], source))
    for reference, variant in zip_longest(*cells):
        yield RegionRow(reference, variant)


def _marked(first: str, second: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Return both texts in pieces; those that are not in the other are marked."""
    a, b = _WORD.findall(first), _WORD.findall(second)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        differs = tag != "equal"
        left += [("".join(a[a0:a1]), differs)] * (a1 > a0)
        right += [("".join(b[b0:b1]), differs)] * (b1 > b0)
    return left, right


def region_folds(comparison: SideBySide) -> list[Fold]:
    """Return the region of a comparison as a block of a page; none in documents of before, and for one program."""
    region = comparison.region
    if region is None or not region.lines:
        return []
    sentence = region_sentence(comparison)
    lines = [*([sentence] if sentence else []), *(f"{level.name}: {level_words(level)}" for level in region.levels)]
    if region.more:
        lines.append(f"not shown: {plural(region.more, 'more differing instruction')} of this computation")
    table = Hypertext(
        draw=lambda: render("region.html.j2", both=comparison, rows=region_rows(region), meanings=MEANINGS)
    )
    title = f"{comparison.variant}: where the programs first differ, in {_place(region.levels[-1])}"
    return [Fold(title=title, blocks=[Lines(lines=lines), table], media=("html",))]
