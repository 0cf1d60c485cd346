"""Figures of compiled sides as rows of a table, and as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.report.compile import counts
from samebits.report.html.charts import SIDES, spec
from samebits.report.words import plural
from samebits.schema.program_facts import CompiledSide, ratio

MORE_COLOURS = ("#0f766e", "#b4459a", "#d9652b", "#6b7fa8", "#8a8f98")
"""The colours of further variants; each has a contrast of 3:1 at least on a light and on a dark page."""

_ROOM = 1.45
"""The axis is longer than the longest bar, so that its label fits beside it."""

_BAR, _GAP = 17, 16


@dataclass(frozen=True, slots=True)
class BarGroup:
    """One figure of several things.

    Args:
        name: what it is, such as `temporary memory`.
        values: by the name of the thing; None where there is no figure.
        texts: the same as words, which stand beside the bars.
    """

    name: str
    values: Mapping[str, float | None]
    texts: Mapping[str, str]


def colour_range(count: int) -> list[str]:
    """Colours of so many things; the first is the reference."""
    known = [*SIDES.values(), *MORE_COLOURS]
    return [known[number % len(known)] for number in range(count)]


def bars(figures: Sequence[BarGroup], names: Sequence[str]) -> dict[str, Any]:
    """A group of bars for each figure; the longest bar of a group is that of its largest value.

    Args:
        figures: at least one.
        names: of the things, the reference first.
    """
    import altair as alt

    rows = [
        {"figure": figure.name, "side": name, "share": value / (max(known) or 1), "text": figure.texts[name]}
        for figure in figures
        if (known := [number for number in figure.values.values() if number is not None])
        for name in names
        if (value := figure.values.get(name)) is not None
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "figure:N", sort=[figure.name for figure in figures], title=None, axis=alt.Axis(ticks=False, domain=False)
        ),
        yOffset=alt.YOffset("side:N", sort=list(names)),
        x=alt.X("share:Q", scale=alt.Scale(domain=[0, _ROOM]), axis=None),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("figure", "side", "text")],
    )
    scale = alt.Scale(domain=list(names), range=colour_range(len(names)))
    colour = alt.Color("side:N", scale=scale, legend=alt.Legend(orient="top", title=None))
    chart = base.mark_bar().encode(color=colour) + base.mark_text(align="left", dx=4).encode(text="text:N")
    return spec(chart, height=len(figures) * (_BAR * len(names) + _GAP))


BARS = {
    "temp_bytes": "temporary memory",
    "peak_bytes": "peak memory",
    "bytes_accessed": "memory traffic",
    "wire_bytes": "communication",
}
"""The figures that are drawn, and what they are called."""

_SIZES = {**BARS, "argument_bytes": "arguments", "output_bytes": "outputs"}


def size_text(size: float | None) -> str:
    """A size in bytes to three digits, such as `7.03 GB`; a dash where there is no figure."""
    if size is None:
        return "–"  # noqa: RUF001  an en dash
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size) >= scale:
            number = size / scale
            return (
                f"{number:.2f} {unit}"
                if number < 9.995
                else f"{number:.1f} {unit}"
                if number < 99.95
                else f"{number:.0f} {unit}"
            )
    return f"{size:.0f} B"


def side_names(programs: Sequence[CompiledSide]) -> list[str]:
    """The name of each program of a case, the reference's first; options make it another one."""
    return [program.side + (" + options" if program.options else "") for program in programs]


def drawn_figures(programs: Sequence[CompiledSide]) -> list[BarGroup]:
    """The figures that at least one side has any of."""
    figures = []
    for field, name in BARS.items():
        values = {side: getattr(program, field) for side, program in _named(programs)}
        if any(values.values()):
            figures.append(BarGroup(name, values, {side: size_text(value) for side, value in values.items()}))
    return figures


def fact_rows(programs: Sequence[CompiledSide]) -> list[list[str]]:
    """A row for each figure, a cell for each side: sizes with their ratio to the reference's, then counts."""
    rows = [[name, *_sizes(programs, field)] for field, name in _SIZES.items()]
    rows += [
        ["while loops", *(_loops(program) for program in programs)],
        *([name, *(str(getattr(program, name)) for program in programs)] for name in ("gathers", "scatters", "copies")),
        *_counted(programs, lambda program: program.collectives, ""),
        *_counted(programs, lambda program: program.sparsecore_operations, " on SparseCore"),
        *_counted(programs, lambda program: program.custom_calls, " (custom call)"),
        ["compiler's estimate", *(_seconds(program.optimal_seconds) for program in programs)],
        ["program", *(program.program[:8] for program in programs)],
    ]
    return [row for row in rows if any(cell not in ("0", "–", "") for cell in row[1:])]  # noqa: RUF001


def operations_text(changed: Any, most: int = 12) -> str:
    """Operations whose counts differ, the largest change first."""
    listed = [f"{name} {first} → {second}" for name, (first, second) in list(changed.items())[:most]]
    more = len(changed) - most
    return ", ".join(listed) + (f", and {more} more" if more > 0 else "")


def collectives_sentence(programs: Sequence[CompiledSide]) -> str:
    """The collectives and loops of each side, in words."""
    return "; ".join(
        f"{name}: {counts(program.collectives) or 'no collectives'}, {_loop_words(program)}"
        for name, program in _named(programs)
    )


def _named(programs: Sequence[CompiledSide]) -> list[tuple[str, CompiledSide]]:
    return list(zip(side_names(programs), programs, strict=True))


def _sizes(programs: Sequence[CompiledSide], field: str) -> list[str]:
    first = getattr(programs[0], field)
    cells = [size_text(first)]
    for program in programs[1:]:
        times = ratio(getattr(program, field), first)
        cells.append(size_text(getattr(program, field)) + ("" if times is None else f" ({times:.3g}x)"))
    return cells


def _loops(program: CompiledSide) -> str:
    if not program.while_loops:
        return "0"
    trips = "unknown trip count" if program.loop_turns is None else plural(program.loop_turns, "trip")
    return f"{program.while_loops} ({trips})"


def _loop_words(program: CompiledSide) -> str:
    if not program.while_loops:
        return "no loop"
    trips = "an unknown number of trips" if program.loop_turns is None else plural(program.loop_turns, "trip")
    return f"{plural(program.while_loops, 'while loop')} with {trips}"


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e6:,.0f} us".replace(",", " ")  # noqa: RUF001


def _counted(programs: Sequence[CompiledSide], of: Callable[[CompiledSide], Any], words: str) -> list[list[str]]:
    names = sorted({name for program in programs for name in of(program)})
    return [[f"{name}{words}", *(str(of(program).get(name, 0)) for program in programs)] for name in names]
